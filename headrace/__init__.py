"""Headrace SDK: the model, the protocol and the clients of a RocketMQ 4.9 message broker.

    import asyncio
    from headrace import Message, Producer

    async def main():
        async with Producer("orders", "127.0.0.1:9876") as producer:
            print(await producer.send(Message("Orders", b"hello")))

    asyncio.run(main())

`headrace.sync` has the same names for threads and plain scripts. Layers, from top to bottom; each imports only those below it:

    client     producers, consumers, administration
    remoting   commands over asyncio: connections, servers, pending requests
    protocol   bytes to objects and back, without I/O
    model      messages, queues, flags, names, settings

`headrace.errors` is below all of them. Names that this module exports are imported at their first use: programs that use only the codec load
nothing else.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the names that __getattr__ finds, for type checkers; see _EXPORTS
    from headrace.client.admin import Admin as Admin
    from headrace.client.admin.offsets import LATEST as LATEST
    from headrace.client.admin.progress import GroupProgress as GroupProgress
    from headrace.client.admin.progress import OffsetChange as OffsetChange
    from headrace.client.admin.progress import QueueProgress as QueueProgress
    from headrace.client.consuming.allocation import Allocator as Allocator
    from headrace.client.consuming.allocation import ConsistentHash as ConsistentHash
    from headrace.client.consuming.allocation import Fixed as Fixed
    from headrace.client.consuming.allocation import MachineRoom as MachineRoom
    from headrace.client.consuming.allocation import MachineRoomNearby as MachineRoomNearby
    from headrace.client.consuming.allocation import averagely as averagely
    from headrace.client.consuming.allocation import averagely_by_circle as averagely_by_circle
    from headrace.client.consuming.consume_hooks import ConsumeHook as ConsumeHook
    from headrace.client.consuming.consume_hooks import HandlingContext as HandlingContext
    from headrace.client.consuming.consumer_settings import LitePullSettings as LitePullSettings
    from headrace.client.consuming.consumer_settings import PullSettings as PullSettings
    from headrace.client.consuming.consumer_settings import PushSettings as PushSettings
    from headrace.client.consuming.lite_pull.lite_pull_consumer import LitePullConsumer as LitePullConsumer
    from headrace.client.consuming.offset_store import OffsetStore as OffsetStore
    from headrace.client.consuming.pull.pull_consumer import PullConsumer as PullConsumer
    from headrace.client.consuming.pull.pull_scheduler import PullScheduler as PullScheduler
    from headrace.client.consuming.puller import PullResult as PullResult
    from headrace.client.consuming.puller import PullStatus as PullStatus
    from headrace.client.consuming.push.consume_result import ConsumeContext as ConsumeContext
    from headrace.client.consuming.push.consume_result import ConsumeResult as ConsumeResult
    from headrace.client.consuming.push.consume_result import Reject as Reject
    from headrace.client.consuming.push.consume_result import Retry as Retry
    from headrace.client.consuming.push.consume_result import Suspend as Suspend
    from headrace.client.consuming.push.push_consumer import PushConsumer as PushConsumer
    from headrace.client.consuming.received_message import ReceivedMessage as ReceivedMessage
    from headrace.client.consuming.start_offset import StartFrom as StartFrom
    from headrace.client.consuming.subscriptions import FilterFunction as FilterFunction
    from headrace.client.consuming.subscriptions import Sql as Sql
    from headrace.client.consuming.subscriptions import Tags as Tags
    from headrace.client.producing.producer import Producer as Producer
    from headrace.client.producing.request_reply import reply_to as reply_to
    from headrace.client.producing.transaction_producer import TransactionProducer as TransactionProducer
    from headrace.client.producing.transaction_producer import TransactionSendResult as TransactionSendResult
    from headrace.client.producing.transaction_producer import TransactionState as TransactionState
    from headrace.client.sending.batches import split_batches as split_batches
    from headrace.client.sending.producer_settings import Compression as Compression
    from headrace.client.sending.producer_settings import ProducerSettings as ProducerSettings
    from headrace.client.sending.queue_choice import by_hash as by_hash
    from headrace.client.sending.queue_choice import by_random as by_random
    from headrace.client.sending.send_hooks import EndTransactionContext as EndTransactionContext
    from headrace.client.sending.send_hooks import EndTransactionHook as EndTransactionHook
    from headrace.client.sending.send_hooks import MessageKind as MessageKind
    from headrace.client.sending.send_hooks import SendContext as SendContext
    from headrace.client.sending.send_hooks import SendHook as SendHook
    from headrace.client.sending.send_hooks import Sending as Sending
    from headrace.client.sending.send_result import SendResult as SendResult
    from headrace.client.sending.send_result import SendStatus as SendStatus
    from headrace.client.settings import ClientConfig as ClientConfig
    from headrace.client.settings import ClientEvent as ClientEvent
    from headrace.client.settings import Credentials as Credentials
    from headrace.client.settings import EventKind as EventKind
    from headrace.client.settings import Tls as Tls
    from headrace.client.settings import Trace as Trace
    from headrace.errors import BrokerError as BrokerError
    from headrace.errors import BrokerNotFound as BrokerNotFound
    from headrace.errors import ConfigError as ConfigError
    from headrace.errors import ConnectError as ConnectError
    from headrace.errors import FlowControl as FlowControl
    from headrace.errors import HeadraceError as HeadraceError
    from headrace.errors import MessageInvalid as MessageInvalid
    from headrace.errors import NoNameServer as NoNameServer
    from headrace.errors import PermissionDenied as PermissionDenied
    from headrace.errors import ReplyTimeout as ReplyTimeout
    from headrace.errors import RequestTimeout as RequestTimeout
    from headrace.errors import RouteNotFound as RouteNotFound
    from headrace.errors import SendFailed as SendFailed
    from headrace.errors import StateError as StateError
    from headrace.errors import TooManyRequests as TooManyRequests
    from headrace.model.consumption import MessageModel as MessageModel
    from headrace.model.message import Message as Message
    from headrace.model.message import MessageExt as MessageExt
    from headrace.model.message_queue import MessageQueue as MessageQueue
    from headrace.model.subscription_group import SubscriptionGroupConfig as SubscriptionGroupConfig
    from headrace.model.topic_config import TopicConfig as TopicConfig

__version__ = "0.1.0"

_EXPORTS = {
    "headrace.client.admin": ("Admin",),
    "headrace.client.admin.offsets": ("LATEST",),
    "headrace.client.admin.progress": ("GroupProgress", "OffsetChange", "QueueProgress"),
    "headrace.client.consuming.allocation": ("Allocator", "ConsistentHash", "Fixed", "MachineRoom", "MachineRoomNearby", "averagely", "averagely_by_circle"),
    "headrace.client.consuming.consume_hooks": ("ConsumeHook", "HandlingContext"),
    "headrace.client.consuming.consumer_settings": ("LitePullSettings", "PullSettings", "PushSettings"),
    "headrace.client.consuming.lite_pull.lite_pull_consumer": ("LitePullConsumer",),
    "headrace.client.consuming.offset_store": ("OffsetStore",),
    "headrace.client.consuming.pull.pull_consumer": ("PullConsumer",),
    "headrace.client.consuming.pull.pull_scheduler": ("PullScheduler",),
    "headrace.client.consuming.puller": ("PullResult", "PullStatus"),
    "headrace.client.consuming.push.consume_result": ("ConsumeContext", "ConsumeResult", "Reject", "Retry", "Suspend"),
    "headrace.client.consuming.push.push_consumer": ("PushConsumer",),
    "headrace.client.consuming.received_message": ("ReceivedMessage",),
    "headrace.client.consuming.start_offset": ("StartFrom",),
    "headrace.client.consuming.subscriptions": ("FilterFunction", "Sql", "Tags"),
    "headrace.client.producing.producer": ("Producer",),
    "headrace.client.producing.request_reply": ("reply_to",),
    "headrace.client.producing.transaction_producer": ("TransactionProducer", "TransactionSendResult", "TransactionState"),
    "headrace.client.sending.batches": ("split_batches",),
    "headrace.client.sending.producer_settings": ("Compression", "ProducerSettings"),
    "headrace.client.sending.queue_choice": ("by_hash", "by_random"),
    "headrace.client.sending.send_hooks": ("EndTransactionContext", "EndTransactionHook", "MessageKind", "SendContext", "SendHook", "Sending"),
    "headrace.client.sending.send_result": ("SendResult", "SendStatus"),
    "headrace.client.settings": ("ClientConfig", "ClientEvent", "Credentials", "EventKind", "Tls", "Trace"),
    "headrace.errors": (
        "BrokerError", "BrokerNotFound", "ConfigError", "ConnectError", "FlowControl", "HeadraceError", "MessageInvalid", "NoNameServer",
        "PermissionDenied", "ReplyTimeout", "RequestTimeout", "RouteNotFound", "SendFailed", "StateError", "TooManyRequests",
    ),
    "headrace.model.consumption": ("MessageModel",),
    "headrace.model.message": ("Message", "MessageExt"),
    "headrace.model.message_queue": ("MessageQueue",),
    "headrace.model.subscription_group": ("SubscriptionGroupConfig",),
    "headrace.model.topic_config": ("TopicConfig",),
}  # fmt: skip
"""Where each name that this module exports is defined."""

_module_of = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_module_of)  # noqa: PLE0605 (one list of names, not two)


def __getattr__(name: str) -> Any:
    module = _module_of.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_module_of})
