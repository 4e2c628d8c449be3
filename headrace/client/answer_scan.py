"""The answers to sends, cut out of what a connection has read (remoting spec 1.3); the hottest loop of a producer.

    length (4) | 0, JSON (1) | header length (3) | {"code":0,"extFields":{"msgId":…,"queueId":…,"queueOffset":…},"flag":1,"opaque":…} | no body

Compiled where there is a compiler; without one the same file runs as it is.
"""

import asyncio
from typing import Any, Final, TypeAlias

import msgspec

from headrace.protocol.frame_layout import FRAME_MAX_LENGTH

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
_OPAQUE: Final = b'"opaque":'
_HEAD_SIZE: Final = 8
_MAX_LENGTH: Final = FRAME_MAX_LENGTH - 4


def take_answers(data: bytes, asked: dict[int, Asked]) -> tuple[int, bool]:
    """Gives the answers at the beginning of `data` to those who wait for them, until there is a frame that is none.

    Returns how many bytes that were, and whether it ended because what follows is only the beginning of a frame.
    """
    at, size = 0, len(data)
    while size - at >= _HEAD_SIZE:
        length = int.from_bytes(data[at : at + 4], "big")
        word = int.from_bytes(data[at + 4 : at + 8], "big")
        end = at + 4 + length
        begin = at + _HEAD_SIZE
        header_end = begin + word
        # A header type other than 0 makes the word larger than any frame.
        if length > _MAX_LENGTH or header_end > end:
            return at, False
        if end > size:
            return at, True
        mark = data.find(_OPAQUE, begin, header_end)
        if mark < 0:
            return at, False
        mark += 9
        opaque = 0
        while mark < header_end and 48 <= data[mark] <= 57:
            opaque = opaque * 10 + data[mark] - 48
            mark += 1
        waiting = asked.get(opaque)
        if waiting is None:
            return at, False
        try:
            answer = _decode(data[begin:header_end])
        except (msgspec.DecodeError, UnicodeError):
            return at, False
        if answer.code or not answer.flag & 1 or answer.opaque != opaque:
            return at, False
        del asked[opaque]
        future, bucket = waiting
        bucket.pop(future, None)
        if not future.done():
            future.set_result(answer)
        at = end
    return at, at < size
