"""What a consumer group wants of a topic, as `config/consumerFilter.json` keeps it: RocketMQ's file, read and written.

    {"filterDataByTopic":{<topic>:{"groupFilterData":{<group>:{
        "bloomFilterData":{"bitNum":112,"bitPos":[…]}, "bornTime":…, "clientVersion":…, "consumerGroup":…, "dead":…, "deadTime":…,
        "expression":…, "expressionType":"SQL92", "topic":…}},"topic":…}}}

The broker is the file's one writer, and keeps in it every filter that bitmaps are to be made for. Dispatch reads it, and
makes the bitmaps. Times are ms; `dead` is derived and is not read.
"""

from typing import Any, Final

from msgspec import Struct

from headrace.errors import RemoteProtocolError
from headrace.model.subscription import SQL92
from headrace.protocol import fastjson
from headrace.protocol.json_bean import from_value, to_value
from store.filter.bloom import BloomFilterData
from store.filter.program import Program
from store.filter.refusal import Refusal
from store.filter.sql_compile import compile_expression


class ConsumerFilterData(Struct):
    """A group's filter. It is dead while no consumer of the group asks for it; `dead_time` is then when that began."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str = SQL92
    bloom_filter_data: BloomFilterData | None = None
    born_time: int = 0
    client_version: int = 0
    dead_time: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether nobody asks for it any more."""
        return self.dead_time >= self.born_time

    def program(self) -> Program | None:
        """The expression, compiled; None if it does not compile."""
        compiled = compile_filter(self.expression, self.expression_type)
        return compiled if isinstance(compiled, Program) else None


FilterTable = dict[str, dict[str, ConsumerFilterData]]
"""Filters by topic, then group."""


MAX_LENGTH: Final = 8192  # limit: it comes with any request, and takes three milliseconds for a thousand characters


def compile_filter(expression: str, expression_type: str) -> Program | Refusal:
    """The program of an expression of any type but TAG, or why there is none."""
    if expression_type != SQL92:
        return Refusal(f"unknown expression type {expression_type!r}; expected TAG or {SQL92}", 1, 1, expression[:24])
    if len(expression) > MAX_LENGTH:
        return Refusal(
            f"expression of {len(expression)} characters exceeds the limit of {MAX_LENGTH}", 1, 1, expression[:24]
        )
    return compile_expression(expression)


def encode_filters(table: FilterTable) -> str:
    """The file's text."""
    by_topic = {
        topic: {"groupFilterData": {group: _value_of(data) for group, data in groups.items()}, "topic": topic}
        for topic, groups in table.items()
    }
    return fastjson.dumps_pretty({"filterDataByTopic": by_topic})


def decode_filters(data: bytes) -> FilterTable:
    """The filters in the file. Raises RemoteProtocolError."""
    value = fastjson.loads(data)
    by_topic = _object(value, "the file").get("filterDataByTopic") or {}
    table: FilterTable = {}
    for topic, found in _object(by_topic, "filterDataByTopic").items():
        groups = _object(found, str(topic)).get("groupFilterData") or {}
        table[str(topic)] = {
            str(group): from_value(ConsumerFilterData, filter_)
            for group, filter_ in _object(groups, f"groupFilterData of {topic}").items()
        }
    return table


def _value_of(data: ConsumerFilterData) -> dict[str, Any]:
    return dict(sorted({**to_value(data), "dead": data.is_dead}.items()))


def _object(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{what} is not an object")
    return value
