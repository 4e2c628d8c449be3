"""Headers about offsets: those of groups, and the bounds of queues."""

from dataclasses import dataclass
from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


@dataclass(slots=True, frozen=True)
class QueryConsumerOffsetRequestHeader(CommandHeader):
    """QUERY_CONSUMER_OFFSET (14)."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: I32
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class UpdateConsumerOffsetRequestHeader(CommandHeader):
    """UPDATE_CONSUMER_OFFSET (15)."""

    CODE: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: I32
    commit_offset: I64
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class SearchOffsetRequestHeader(CommandHeader):
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    CODE: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: I32
    timestamp: I64
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class GetMaxOffsetRequestHeader(CommandHeader):
    """GET_MAX_OFFSET (30)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: I32
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class GetMinOffsetRequestHeader(CommandHeader):
    """GET_MIN_OFFSET (31)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: I32
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class GetEarliestMsgStoretimeRequestHeader(CommandHeader):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_EARLIEST_MSG_STORETIME

    topic: str
    queue_id: I32
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class OffsetResponseHeader(CommandHeader):
    """The requested offset: responses to 14, 29, 30 and 31."""

    offset: I64


@dataclass(slots=True, frozen=True)
class GetEarliestMsgStoretimeResponseHeader(CommandHeader):
    """Store time of a queue's first message, ms; -1 if there is none."""

    timestamp: I64


@dataclass(slots=True, frozen=True)
class QueryCorrectionOffsetRequestHeader(CommandHeader):
    """QUERY_CORRECTION_OFFSET (308). `filter_groups` is a list separated by commas."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CORRECTION_OFFSET

    topic: str
    compare_group: str
    filter_groups: str | None = None


@dataclass(slots=True, frozen=True)
class CloneGroupOffsetRequestHeader(CommandHeader):
    """CLONE_GROUP_OFFSET (314). Without a topic: all topics that the group consumes."""

    CODE: ClassVar[RequestCode] = RequestCode.CLONE_GROUP_OFFSET

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(slots=True, frozen=True)
class ResetOffsetRequestHeader(CommandHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and RESET_CONSUMER_CLIENT_OFFSET (220). Timestamp -1 means the end."""

    CODE: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    topic: str
    group: str
    timestamp: I64
    is_force: bool


@dataclass(slots=True, frozen=True)
class GetConsumerStatusRequestHeader(CommandHeader):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and GET_CONSUMER_STATUS_FROM_CLIENT (221). `client_addr` is a client id."""

    CODE: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_addr: str | None = None
