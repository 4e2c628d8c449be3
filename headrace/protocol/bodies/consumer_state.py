"""Runtime information of consumers, and changes of their offsets by administrators."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Self

from msgspec import Struct, field

from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData
from headrace.protocol import fastjson
from headrace.protocol.json_bean import JsonBody, from_value, to_value


class ProcessQueueInfo(Struct):
    """A queue assigned to a push consumer. Times are ms."""

    NAMES: ClassVar[Mapping[str, str]] = {"cached_msg_size_in_mib": "cachedMsgSizeInMiB"}

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False  # compat: RocketMQ's spelling
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Struct):
    """A topic's rates at one consumer: times in ms, rates per second, failures in the last hour."""

    NAMES: ClassVar[Mapping[str, str]] = {
        "pull_rt": "pullRT",
        "pull_tps": "pullTPS",
        "consume_rt": "consumeRT",
        "consume_ok_tps": "consumeOKTPS",
        "consume_failed_tps": "consumeFailedTPS",
    }

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(JsonBody):
    """Answer to GET_CONSUMER_RUNNING_INFO."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None


class ConsumeResult(StrEnum):
    """The result of consuming a message directly."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(JsonBody):
    """Answer to CONSUME_MESSAGE_DIRECTLY."""

    order: bool = False
    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0


class ResetOffsetBody(JsonBody):
    """Body of RESET_CONSUMER_CLIENT_OFFSET, and answer to INVOKE_BROKER_TO_RESET_OFFSET: the new offset of each queue.

    Clients in C++ receive a list instead of a map; both are read.
    """

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)

    def encode_list(self) -> bytes:
        """The form for clients in C++."""
        entries = [
            dict(sorted((to_value(queue) | {"offset": offset}).items())) for queue, offset in self.offset_table.items()
        ]
        return fastjson.dumps({"offsetTable": entries}).encode()

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """Decodes a body of either form. Raises RemoteProtocolError."""
        value = fastjson.loads(data, untrusted=untrusted)
        if isinstance(value, dict) and isinstance(value.get("offsetTable"), list):
            entries = [from_value(_QueueOffset, entry) for entry in value["offsetTable"]]
            return cls({MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset for one in entries})
        return from_value(cls, value)


class _QueueOffset(Struct):
    topic: str
    broker_name: str
    queue_id: int
    offset: int = 0


class GetConsumerStatusBody(JsonBody):
    """Offsets in the memory of consumers: a client returns the first table, a broker the second, by client id."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
