"""Scans what a connection has read for answers to sends (remoting spec 1.3); the hottest loop of a producer.

    length (4) | 0, JSON (1) | header length (3) | {"code":0,"extFields":{"msgId":…,"queueId":…,"queueOffset":…},"flag":1,"opaque":…} | no body

Each header is decoded at once, by msgspec. Rejecting other frames there is faster than inspecting their bytes first.
"""

import asyncio
from struct import Struct
from typing import Any, Final, TypeAlias

import msgspec

from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE

Asked: TypeAlias = "tuple[asyncio.Future[Any], dict[asyncio.Future[Any], Any]]"
"""The future that waits for an answer, and the bucket that contains its deadline."""


class SendAnswerFields(msgspec.Struct, gc=False):
    """A broker's answer about a message that it has stored."""

    msgId: str  # noqa: N815 (the name on the wire)
    queueId: int  # noqa: N815
    queueOffset: int  # noqa: N815
    transactionId: str | None = None  # noqa: N815
    MSG_REGION: str | None = None
    TRACE_ON: str | None = None


class SendAnswer(msgspec.Struct, gc=False):
    """The header of the answer to a successful send (code 0)."""

    extFields: SendAnswerFields  # noqa: N815
    opaque: int
    code: int = 0
    flag: int = 0


_decode: Final = msgspec.json.Decoder(SendAnswer, strict=False).decode
_HEAD: Final = Struct(">II")
_MAX_LENGTH: Final = FRAME_MAX_LENGTH - LENGTH_SIZE


def take_answers(data: bytes, asked: dict[int, Asked], at: int = 0) -> tuple[int, bool]:
    """Completes the futures of the answers in `data` from position `at` on, up to the first frame that is not such an answer.

    Returns where the scan stopped, and whether it stopped at an incomplete frame.
    """
    size, unpack, decode = len(data), _HEAD.unpack_from, _decode
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
