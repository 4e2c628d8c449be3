"""CONSUMER_SEND_MSG_BACK: a message that a consumer failed to process is retried later or becomes a dead letter (store spec 12.1).

The consumer names the message by its physical offset. A copy goes to the group's retry topic, through the delay levels; after
the last attempt to its dead letters.
"""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from broker import handler_errors
from broker.appending.appender import Appender
from broker.appending.message_copies import copy_message
from broker.clients.groups import GroupTable
from broker.config import BrokerConfig
from broker.delays.delay_redirect import DelayRedirect
from broker.statistics.broker_stats import BrokerStats
from broker.topics.topics import TopicTable
from headrace.model import names, permission, properties
from headrace.model.message import MessageExt
from headrace.model.topic_config import TopicConfig, topic_sys_flag
from headrace.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from headrace.protocol.record import decode_record
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.protocol.version import MIN_MAX_RECONSUME_TIMES_VERSION
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus

FIRST_RETRY_LEVEL: Final = 3
"""The delay level of the first retry if the consumer leaves it to the broker; each further retry uses the next level."""

DLQ_QUEUES: Final = 1


class SendBackProcessor:
    """Answers CONSUMER_SEND_MSG_BACK. `by_offset(physical_offset)` is the record there, None for no record."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        appender: Appender,
        delays: DelayRedirect,
        by_offset: Callable[[int], bytes | None],
        stats: BrokerStats,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._appender = appender
        self._delays = delays
        self._by_offset = by_offset
        self._stats = stats

    def register(self, *tables: HandlerTable) -> None:
        """Serves the request on these ports."""
        handler_errors.register(tables, {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back})

    def send_back(
        self, _connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """Stores the message for another attempt. An answer has neither fields nor a body."""
        header = ConsumerSendMsgBackRequestHeader.from_ext(command.ext_fields)
        group = self._groups.find(header.group)
        if group is None:
            return response_to(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, (
                f"subscription group not exist, {header.group}; groups cannot be created by clients (autoCreateSubscriptionGroup=false), create it first"
            ))  # fmt: skip
        if not permission.is_writeable(self._config.broker_permission):
            return response_to(command, ResponseCode.NO_PERMISSION, (
                f"the broker {self._config.broker_name} is not writable (brokerPermission); enable write permission: brokerPermission=6"
            ))  # fmt: skip
        if "/" in header.group or "\0" in header.group:
            # Its retry topic could have no ConsumeQueue: the copy would be stored and never delivered.
            return response_to(command, ResponseCode.SYSTEM_ERROR, (
                f"messages of the group {header.group!r} cannot be retried: the name of its retry topic would contain a slash; rename the group"
            ))  # fmt: skip
        if group.retry_queue_count <= 0:
            # compat: a group without retry queues has no retries, and the response is success.
            return response_to(command, ResponseCode.SUCCESS)
        retry = self._topics.create_on_send_back(
            names.retry_topic(header.group),
            group.retry_queue_count,
            sys_flag=topic_sys_flag(unit_subscription=header.unit_mode),
        )
        if not permission.is_writeable(retry.permission):
            return response_to(command, ResponseCode.NO_PERMISSION, (
                f"the topic {retry.name} is not writable (perm); enable write permission: perm=6"
            ))  # fmt: skip
        data = self._by_offset(header.offset)
        if data is None:
            return response_to(command, ResponseCode.SYSTEM_ERROR, (
                f"look message by offset failed, {header.offset}: no record begins there; it may have expired"
            ))  # fmt: skip
        most = group.retry_max_times
        if header.max_reconsume_times is not None and command.version >= MIN_MAX_RECONSUME_TIMES_VERSION:
            most = header.max_reconsume_times
        record = decode_record(data)
        message = self._again(record, header, retry, group.retry_queue_count, most)
        origin = record.properties.get(properties.RETRY_TOPIC, record.topic)
        answer = partial(self._answer, command, origin, header.group, message)
        result = self._appender.start_put(message)
        return answer(result) if isinstance(result, PutResult) else _answer_later(answer, result)

    def _again(
        self, record: MessageExt, header: ConsumerSendMsgBackRequestHeader, retry: TopicConfig, queues: int, most: int
    ) -> MessageToStore:
        """The copy that is to be stored."""
        found = dict(record.properties)
        found.setdefault(properties.RETRY_TOPIC, record.topic)
        found[properties.WAIT] = "false"
        found.setdefault(properties.ORIGIN_MESSAGE_ID, record.offset_message_id)
        if record.reconsume_times >= most or header.delay_level < 0:
            dead = self._topics.create_on_send_back(names.dlq_topic(header.group), DLQ_QUEUES)
            message = copy_message(record, dead.name, 0)
            found[properties.DELAY] = "0"
        else:
            message = copy_message(record, retry.name, random.randrange(queues))
            found[properties.DELAY] = str(header.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times)
        message.reconsume_times = record.reconsume_times + 1
        if not self._delays.redirect(message, found):
            message.properties = properties.encode_properties(found).encode()
        return message

    def _answer(
        self, command: RemotingCommand, origin: str, group: str, message: MessageToStore, result: PutResult
    ) -> RemotingCommand:
        if result.status is not PutMessageStatus.PUT_OK:
            return response_to(command, ResponseCode.SYSTEM_ERROR, str(result.status))
        self._stats.sent_back(origin, group, message.topic, message.queue_id, result.size_bytes)
        return response_to(command, ResponseCode.SUCCESS)


async def _answer_later(
    answer: Callable[[PutResult], RemotingCommand], result: Awaitable[PutResult]
) -> RemotingCommand:
    return answer(await result)
