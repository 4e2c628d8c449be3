"""Statistics of topics, groups and the broker."""

import time
from typing import Final, Self

from msgspec import Struct, field

from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData
from headrace.protocol import fastjson
from headrace.protocol.bodies.queue_table_text import NAME, NUMBER, QueueTableText, compiled, plain_text
from headrace.protocol.json_bean import JsonBody, from_value


class TopicOffset(Struct):
    """A queue's bounds, and when it was last written (ms)."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(JsonBody):
    """Answer to GET_TOPIC_STATS_INFO."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """As for other bodies, in less time if the text is as brokers write it."""
        plain = None if untrusted else compiled(_TOPIC_STATS).fullmatch(plain_text(data))
        if plain is not None:
            return cls(_TOPIC_OFFSETS.read(plain[1]))
        return from_value(cls, fastjson.loads(data, untrusted=untrusted))


def _topic_offset(last_update_timestamp: int, max_offset: int, min_offset: int) -> TopicOffset:
    return TopicOffset(min_offset, max_offset, last_update_timestamp)


_TOPIC_OFFSETS: Final = QueueTableText(_topic_offset, "lastUpdateTimestamp", "maxOffset", "minOffset")
_TOPIC_STATS: Final = rf'\{{"offsetTable":({_TOPIC_OFFSETS.pattern})\}}'


class OffsetWrapper(Struct):
    """The offsets of the broker and the group in a queue, and the store time (ms) of the message consumed last."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(JsonBody):
    """Answer to GET_CONSUME_STATS."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """As for other bodies, in less time if the text is as brokers write it."""
        plain = None if untrusted else compiled(_STATS).fullmatch(plain_text(data))
        if plain is not None:
            return cls(_OFFSETS.read(plain[2]), float(plain[1]))
        return from_value(cls, fastjson.loads(data, untrusted=untrusted))

    @property
    def total_diff(self) -> int:
        """How many messages the group is behind."""
        return sum(one.broker_offset - one.consumer_offset for one in self.offset_table.values())


_OFFSETS: Final = QueueTableText(OffsetWrapper, "brokerOffset", "consumerOffset", "lastTimestamp")
_TPS: Final = r"[0-9]{1,9}+\.[0-9]{1,17}+"
_STATS: Final = rf'\{{"consumeTps":({_TPS}),"offsetTable":({_OFFSETS.pattern})\}}'


class ConsumeStatsList(JsonBody):
    """Answer to GET_BROKER_CONSUME_STATS: a list of maps with one group each."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: int = 0

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """As for other bodies, in less time if the text is as brokers write it."""
        plain = None if untrusted else cls._of_plain(plain_text(data))
        return from_value(cls, fastjson.loads(data, untrusted=untrusted)) if plain is None else plain

    @classmethod
    def _of_plain(cls, text: str) -> Self | None:
        """The list in a text as brokers write it. Group by group: other threads wait while an expression is matched."""
        head = compiled(_LIST_HEAD).match(text)
        if head is None:
            return None
        groups, at = [], head.end()
        while (group := compiled(_GROUP).match(text, at)) is not None:
            stats = [ConsumeStats(_OFFSETS.read(one[2]), float(one[1])) for one in compiled(_STATS).finditer(group[2])]
            groups.append({group[1]: stats})
            at = group.end()
        tail = compiled(_LIST_TAIL).fullmatch(text, at)
        return None if tail is None else cls(groups, head[1], int(tail[1]))


_ANY_STATS: Final = rf'\{{"consumeTps":{_TPS},"offsetTable":{_OFFSETS.pattern}\}}'
_GROUP: Final = rf'\{{"({NAME})":\[((?:{_ANY_STATS}(?:,{_ANY_STATS})*+)?)\]\}}(?:,(?=\{{)|(?=\]))'
_LIST_HEAD: Final = rf'\{{"brokerAddr":"({NAME})","consumeStatsList":\['
_LIST_TAIL: Final = rf'\],"totalDiff":({NUMBER})\}}'

ALL_KEYS: Final = "*"
"""Key of VIEW_BROKER_STATS_DATA for the totals of all keys. Only Headrace brokers support it; for others it is an unknown key."""


class BrokerStatsTotals(JsonBody):
    """Answer to VIEW_BROKER_STATS_DATA for ALL_KEYS: totals since the broker's start, by key."""

    totals: dict[str, int] = field(default_factory=dict)


class BrokerStatsItem(Struct):
    """Sum, rate per second, and average of a value over a period."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(JsonBody):
    """Answer to VIEW_BROKER_STATS_DATA."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


def _date_text(timestamp: int) -> str:
    """RocketMQ's format of a time: `2026-11-21#15:39:12:366`, local time."""
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(timestamp // 1000)) + f":{timestamp % 1000:03d}"


class QueueTimeSpan(Struct):
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


class QueryConsumeTimeSpanBody(JsonBody):
    """Answer to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class QueryCorrectionOffsetBody(JsonBody):
    """Answer to QUERY_CORRECTION_OFFSET: an offset by queue id."""

    correction_offsets: dict[int, int] = field(default_factory=dict)


class ConsumeQueueData(Struct):
    """A ConsumeQueue entry; `eval`: whether it passes the group's filter."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(JsonBody):
    """Answer to QUERY_CONSUME_QUEUE."""

    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class OffsetMovedEvent(JsonBody):
    """Body of the message that a broker writes to OFFSET_MOVED_EVENT."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: int = 0
    offset_new: int = 0
