"""Headers about offsets: those of groups, and the bounds of queues."""

from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class QueryConsumerOffsetRequestHeader(CommandHeader, frozen=True):
    """QUERY_CONSUMER_OFFSET (14)."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: I32
    bname: str | None = None


class UpdateConsumerOffsetRequestHeader(CommandHeader, frozen=True):
    """UPDATE_CONSUMER_OFFSET (15)."""

    CODE: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: I32
    commit_offset: I64
    bname: str | None = None


class SearchOffsetRequestHeader(CommandHeader, frozen=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    CODE: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: I32
    timestamp: I64
    bname: str | None = None


class GetMaxOffsetRequestHeader(CommandHeader, frozen=True):
    """GET_MAX_OFFSET (30)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: I32
    bname: str | None = None


class GetMinOffsetRequestHeader(CommandHeader, frozen=True):
    """GET_MIN_OFFSET (31)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: I32
    bname: str | None = None


class GetEarliestMsgStoretimeRequestHeader(CommandHeader, frozen=True):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_EARLIEST_MSG_STORETIME

    topic: str
    queue_id: I32
    bname: str | None = None


class OffsetResponseHeader(CommandHeader, frozen=True):
    """The requested offset: responses to 14, 29, 30 and 31."""

    offset: I64


class GetEarliestMsgStoretimeResponseHeader(CommandHeader, frozen=True):
    """Store time of a queue's first message, ms; -1 if there is none."""

    timestamp: I64


class QueryCorrectionOffsetRequestHeader(CommandHeader, frozen=True):
    """QUERY_CORRECTION_OFFSET (308). `filter_groups` is a list separated by commas."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CORRECTION_OFFSET

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneGroupOffsetRequestHeader(CommandHeader, frozen=True):
    """CLONE_GROUP_OFFSET (314). Without a topic: all topics that the group consumes."""

    CODE: ClassVar[RequestCode] = RequestCode.CLONE_GROUP_OFFSET

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ResetOffsetRequestHeader(CommandHeader, frozen=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and RESET_CONSUMER_CLIENT_OFFSET (220). Timestamp -1 means the end."""

    CODE: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    topic: str
    group: str
    timestamp: I64
    is_force: bool


class GetConsumerStatusRequestHeader(CommandHeader, frozen=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and GET_CONSUMER_STATUS_FROM_CLIENT (221). `client_addr` is a client id."""

    CODE: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_addr: str | None = None
