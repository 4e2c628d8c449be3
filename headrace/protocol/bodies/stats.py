"""Statistics of topics, groups and the broker."""

import time
from dataclasses import dataclass, field
from typing import Final

from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData
from headrace.protocol.json_bean import JsonBody


@dataclass(slots=True)
class TopicOffset:
    """A queue's bounds, and when it was last written (ms)."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@dataclass(slots=True)
class TopicStatsTable(JsonBody):
    """Answer to GET_TOPIC_STATS_INFO."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetWrapper:
    """The offsets of the broker and the group in a queue, and the store time (ms) of the message consumed last."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0


@dataclass(slots=True)
class ConsumeStats(JsonBody):
    """Answer to GET_CONSUME_STATS."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0

    @property
    def total_diff(self) -> int:
        """How many messages the group is behind."""
        return sum(one.broker_offset - one.consumer_offset for one in self.offset_table.values())


@dataclass(slots=True)
class ConsumeStatsList(JsonBody):
    """Answer to GET_BROKER_CONSUME_STATS: a list of maps with one group each."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: int = 0


ALL_KEYS: Final = "*"
"""Key of VIEW_BROKER_STATS_DATA for the totals of all keys. Only Headrace brokers support it; for others it is an unknown key."""


@dataclass(slots=True)
class BrokerStatsTotals(JsonBody):
    """Answer to VIEW_BROKER_STATS_DATA for ALL_KEYS: totals since the broker's start, by key."""

    totals: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerStatsItem:
    """Sum, rate per second, and average of a value over a period."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(slots=True)
class BrokerStatsData(JsonBody):
    """Answer to VIEW_BROKER_STATS_DATA."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


def _date_text(timestamp: int) -> str:
    """RocketMQ's format of a time: `2026-11-21#15:39:12:366`, local time."""
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(timestamp // 1000)) + f":{timestamp % 1000:03d}"


@dataclass(slots=True)
class QueueTimeSpan:
    """Store times (ms) of a queue's first and last message and of the group's next one, and the group's delay."""

    message_queue: MessageQueue | None = None
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None

    def __post_init__(self) -> None:
        # compat: RocketMQ's JSON contains these strings because Java has getters for them.
        self.min_time_stamp_str = self.min_time_stamp_str or _date_text(self.min_time_stamp)
        self.max_time_stamp_str = self.max_time_stamp_str or _date_text(self.max_time_stamp)
        self.consume_time_stamp_str = self.consume_time_stamp_str or _date_text(self.consume_time_stamp)


@dataclass(slots=True)
class QueryConsumeTimeSpanBody(JsonBody):
    """Answer to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


@dataclass(slots=True)
class QueryCorrectionOffsetBody(JsonBody):
    """Answer to QUERY_CORRECTION_OFFSET: an offset by queue id."""

    correction_offsets: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ConsumeQueueData:
    """A ConsumeQueue entry; `eval`: whether it passes the group's filter."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@dataclass(slots=True)
class QueryConsumeQueueResponseBody(JsonBody):
    """Answer to QUERY_CONSUME_QUEUE."""

    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


@dataclass(slots=True)
class OffsetMovedEvent(JsonBody):
    """Body of the message that a broker writes to OFFSET_MOVED_EVENT."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: int = 0
    offset_new: int = 0
