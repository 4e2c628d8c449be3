"""The answers to sends, cut out of what a connection has read (remoting spec 1.3); the hottest loop of a producer.

    length (4) | 0, JSON (1) | header length (3) | {"code":0,"extFields":{"msgId":…,"queueId":…,"queueOffset":…},"flag":1,"opaque":…} | no body

The header is decoded at once, by msgspec: what is no such answer is refused there, quicker than it could be told by looking at its bytes first.
"""

import asyncio
from struct import Struct
from typing import Any, Final, TypeAlias

import msgspec

from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE

Asked: TypeAlias = "tuple[asyncio.Future[Any], dict[asyncio.Future[Any], Any]]"
"""Who waits for an answer, and the bucket of deadlines that he is in."""


class SendAnswerFields(msgspec.Struct, gc=False):
    """What a broker says of a message that it has stored."""

    msgId: str  # noqa: N815 (the name on the wire)
    queueId: int  # noqa: N815
    queueOffset: int  # noqa: N815
    transactionId: str | None = None  # noqa: N815
    MSG_REGION: str | None = None
    TRACE_ON: str | None = None


class SendAnswer(msgspec.Struct, gc=False):
    """The header of the answer to a send that went well: of code 0."""

    extFields: SendAnswerFields  # noqa: N815
    opaque: int
    code: int = 0
    flag: int = 0


_decode: Final = msgspec.json.Decoder(SendAnswer, strict=False).decode
_HEAD: Final = Struct(">II")
_MAX_LENGTH: Final = FRAME_MAX_LENGTH - LENGTH_SIZE


def take_answers(data: bytes, asked: dict[int, Asked]) -> tuple[int, bool]:
    """Gives the answers at the beginning of `data` to those who wait for them, until there is a frame that is none.

    Returns how many bytes that were, and whether it ended because what follows is only the beginning of a frame.
    """
    at, size, unpack, decode = 0, len(data), _HEAD.unpack_from, _decode
    while size - at >= HEAD_SIZE:
        length, word = unpack(data, at)
        end = at + LENGTH_SIZE + length
        header = at + HEAD_SIZE
        header_end = header + word
        # A header type other than 0 makes the word larger than any frame.
        if length > _MAX_LENGTH or header_end > end:
            return at, False
        if end > size:
            return at, True
        try:
            answer = decode(data[header:header_end])
        except (msgspec.DecodeError, UnicodeError):
            return at, False
        if answer.code or not answer.flag & 1:
            return at, False
        waiting = asked.pop(answer.opaque, None)
        if waiting is None:
            return at, False
        future, bucket = waiting
        bucket.pop(future, None)
        if not future.done():
            future.set_result(answer)
        at = end
    return at, at < size
