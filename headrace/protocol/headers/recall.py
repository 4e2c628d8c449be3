"""Headers of RECALL_MESSAGE, a request of RocketMQ 5: a producer cancels a timer message."""

from typing import ClassVar

from headrace.protocol.headers.command_header import CommandHeader
from headrace.protocol.request_code import RequestCode


class RecallMessageRequestHeader(CommandHeader, frozen=True):
    """RECALL_MESSAGE (370). `recall_handle` is from the response to the send."""

    CODE: ClassVar[RequestCode] = RequestCode.RECALL_MESSAGE

    topic: str
    recall_handle: str
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageResponseHeader(CommandHeader, frozen=True):
    """The response: the id, UNIQ_KEY, of the cancelled message."""

    msg_id: str
