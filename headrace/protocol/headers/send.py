"""Headers of sends (plain, compact, batch and reply), of their response, and of messages sent back by consumers.

SEND_MESSAGE and SEND_REPLY_MESSAGE use long names; the V2 codes and SEND_BATCH_MESSAGE one letter per field. The field `batch`, not the code,
tells whether a request contains a batch.
"""

from collections.abc import Mapping
from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class SendMessageRequestHeader(CommandHeader, frozen=True):
    """SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324). `default_topic` is the template of a new topic; with queue id -1 the broker chooses the queue."""

    CODE: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 = 0
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    batch: bool = False
    bname: str | None = None


class SendMessageRequestHeaderV2(SendMessageRequestHeader, frozen=True):
    """The same with names of one letter: SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and SEND_REPLY_MESSAGE_V2 (325)."""

    CODE: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE_V2
    NAMES: ClassVar[Mapping[str, str]] = {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "bname": "n",
    }


_LONG_NAMES = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE})


def parse_send_header(code: int, ext: Mapping[str, str] | None) -> SendMessageRequestHeader:
    """Parses the header of any of the five kinds of send. Raises RemoteProtocolError."""
    header = SendMessageRequestHeader if code in _LONG_NAMES else SendMessageRequestHeaderV2
    return header.from_ext(ext)


class SendMessageResponseHeader(CommandHeader, frozen=True):
    """Where the message was stored. Clients need the first three fields if it was stored."""

    NAMES: ClassVar[Mapping[str, str]] = {"msg_region": "MSG_REGION", "trace_on": "TRACE_ON"}

    msg_id: str | None = None
    queue_id: I32 | None = None
    queue_offset: I64 | None = None
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    msg_region: str | None = None
    trace_on: str | None = None


class ConsumerSendMsgBackRequestHeader(CommandHeader, frozen=True):
    """CONSUMER_SEND_MSG_BACK (36). `offset` is physical; delay level -1 means dead letters, with 0 the broker chooses."""

    CODE: ClassVar[RequestCode] = RequestCode.CONSUMER_SEND_MSG_BACK

    offset: I64
    group: str
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    bname: str | None = None


class ReplyMessageRequestHeader(CommandHeader, frozen=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326): a reply, passed to the client that sent the request. Hosts are `address:port`."""

    CODE: ClassVar[RequestCode] = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    born_host: str
    store_host: str
    store_timestamp: I64
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
