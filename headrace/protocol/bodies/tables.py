"""Tables of a broker, as slaves and tools request them and as the files under `config/` store them."""

import re
from contextlib import suppress
from typing import Final, Self

import msgspec
from msgspec import Struct, field

from headrace.model.data_version import DataVersion
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson
from headrace.protocol.json_bean import JsonBody, from_value


class TopicConfigSerializeWrapper(JsonBody):
    """All topics: answer to GET_ALL_TOPIC_CONFIG, part of a registration, `topics.json`."""

    data_version: DataVersion = field(default_factory=lambda: DataVersion(0, 0))
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)


class SubscriptionGroupWrapper(JsonBody):
    """All groups: answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, `subscriptionGroup.json`."""

    data_version: DataVersion = field(default_factory=lambda: DataVersion(0, 0))
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class ConsumerOffsetSerializeWrapper(JsonBody):
    """Offsets by `topic@group`, then by queue id: answer to GET_ALL_CONSUMER_OFFSET, `consumerOffset.json`."""

    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """As for other bodies, in a third of the time if the text is as brokers write it: there may be a hundred thousand offsets."""
        if isinstance(data, bytes) and not untrusted:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                return cls(_OFFSETS.decode(_QUEUES.sub(_with_quotes, data)).offset_table)
        return from_value(cls, fastjson.loads(data, untrusted=untrusted))


class _Offsets(msgspec.Struct, rename="camel"):
    offset_table: dict[str, dict[int, int]]


_OFFSETS: Final = msgspec.json.Decoder(_Offsets)
_QUEUES: Final = re.compile(rb"\{([0-9][0-9:,-]*)\}")


def _with_quotes(match: "re.Match[bytes]") -> bytes:
    """Quotes the ids of a topic's queues. Inside the name of a topic this ends the string, and what follows is no JSON: decoding fails."""
    return b'{"%b}' % match[1].replace(b",", b',"').replace(b":", b'":')


class LmqConsumerOffsetSerializeWrapper(JsonBody):
    """`lmqConsumerOffset.json`: offsets of light queues by `topic@group`, and ordinary ones as above."""

    lmq_offset_table: dict[str, int] = field(default_factory=dict)
    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)


class DelayOffsetSerializeWrapper(JsonBody):
    """The delivered offset of each delay level: answer to GET_ALL_DELAY_OFFSET, `delayOffset.json`."""

    offset_table: dict[int, int] = field(default_factory=dict)


class KVTable(JsonBody):
    """A table of strings: runtime information, or a namespace of a name server's KV configuration."""

    table: dict[str, str] = field(default_factory=dict)


class KVConfigSerializeWrapper(JsonBody):
    """A name server's whole KV configuration: the file `kvConfig.json`."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)


class TopicList(JsonBody):
    """Names of topics; in the answer to GET_SYSTEM_TOPIC_LIST_FROM_NS also the address of a broker."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None

    def encode(self) -> bytes:
        """Encodes the body; tens of thousands of names take a few milliseconds."""
        address = "" if self.broker_addr is None else f'"brokerAddr":{fastjson.quote(self.broker_addr)},'
        return f'{{{address}"topicList":[{",".join(map(fastjson.quote, self.topic_list))}]}}'.encode()


class GroupList(JsonBody):
    """Names of groups that consume a topic."""

    group_list: list[str] = field(default_factory=list)


class BloomFilterData(Struct):
    """The bit positions of a group's filter in the bitmaps."""

    bit_num: int = 0
    bit_pos: list[int] = field(default_factory=list)


class ConsumerFilterData(Struct):
    """A group's filter expression for a topic. Times are ms; `dead_time` 0 while it is in use."""

    consumer_group: str
    topic: str
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0
    dead: bool = False
    client_version: int = 0
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Struct):
    """A topic's filters by group."""

    topic: str
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilterWrapper(JsonBody):
    """`consumerFilter.json`."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = field(default_factory=dict)
