"""Headers of queries for messages."""

from collections.abc import Mapping
from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class QueryMessageRequestHeader(CommandHeader, frozen=True):
    """QUERY_MESSAGE (12): messages with a key, stored between two times (ms). `unique_key_query`: whether the key is a unique id."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_MESSAGE
    NAMES: ClassVar[Mapping[str, str]] = {"unique_key_query": "_UNIQUE_KEY_QUERY"}

    topic: str
    key: str
    max_num: I32
    begin_timestamp: I64
    end_timestamp: I64
    unique_key_query: bool = False


class QueryMessageResponseHeader(CommandHeader, frozen=True):
    """The progress of the index."""

    NAMES: ClassVar[Mapping[str, str]] = {"index_last_update_phyoffset": "indexLastUpdatePhyoffset"}

    index_last_update_timestamp: I64
    index_last_update_phyoffset: I64


class ViewMessageRequestHeader(CommandHeader, frozen=True):
    """VIEW_MESSAGE_BY_ID (33): the message at a physical offset."""

    CODE: ClassVar[RequestCode] = RequestCode.VIEW_MESSAGE_BY_ID

    offset: I64


class QueryConsumeQueueRequestHeader(CommandHeader, frozen=True):
    """QUERY_CONSUME_QUEUE (321): entries of a queue from `index` on."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_QUEUE

    topic: str
    queue_id: I32
    index: I64
    count: I32
    consumer_group: str | None = None
