"""Headers of RECALL_MESSAGE, a request of RocketMQ 5: a producer cancels a message that waits for its time."""

from dataclasses import dataclass
from typing import ClassVar

from headrace.protocol.headers.command_header import CommandHeader
from headrace.protocol.request_code import RequestCode


@dataclass(slots=True, frozen=True)
class RecallMessageRequestHeader(CommandHeader):
    """RECALL_MESSAGE (370). `recall_handle` is what the answer to the send said."""

    CODE: ClassVar[RequestCode] = RequestCode.RECALL_MESSAGE

    topic: str
    recall_handle: str
    producer_group: str | None = None
    bname: str | None = None


@dataclass(slots=True, frozen=True)
class RecallMessageResponseHeader(CommandHeader):
    """The answer: the id, UNIQ_KEY, of the message that will not be delivered."""

    msg_id: str
