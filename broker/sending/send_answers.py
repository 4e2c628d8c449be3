# cython: wraparound=False, cdivision=True
"""Writes the answers to sends as bytes of frames (remoting spec 4.5): part of the hot path of sends."""

import json

import cython

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, copy_bytes, store_bytes, store_i32
    from headrace.protocol.frame_layout import HEAD_SIZE, LENGTH_SIZE

_NUMBERS_ROOM = 160  # the numbers and the flag of an answer, beside its fixed parts
_OFFSET_DIGITS = 16
_HEX = b"0123456789ABCDEF"


class AnswerBuffer:
    """A buffer of responses until they are taken."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(65536))
        self.out = address_of(self._memory)
        self.room = len(self._memory)
        self.length = 0

    def take(self) -> bytes:
        """Returns the responses since the last call."""
        answers = copy_bytes(self.out, 0, self.length)
        self.length = 0
        return answers

    def reserve(self, needed: int) -> None:
        """Makes room for so many bytes more."""
        if self.length + needed > self.room:
            grown = memoryview(bytearray(2 * self.room + needed))
            grown[: self.length] = self._memory[: self.length]
            self._memory = grown
            self.out = address_of(grown)
            self.room = len(grown)


class SendAnswers:
    """The responses that can be sent now, those that wait for the store, and the message ids of the current request."""

    def __init__(self, store_host: bytes, region: str, trace_on: bool, version: int, hold: bool) -> None:
        """`hold`: the answers of messages that wait for the store are gathered apart."""
        self.now = AnswerBuffer()
        self.held = AnswerBuffer()
        self._hold = hold
        self._before_id = (
            f'{{"code":0,"extFields":{{"TRACE_ON":"{"true" if trace_on else "false"}","MSG_REGION":{json.dumps(region)},'
            f'"msgId":"'
        ).encode()
        self._id_before_offset = store_host.hex().upper().encode()
        self._tail = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version
        self._fixed_length = len(self._before_id) + len(self._tail) + _NUMBERS_ROOM
        self._ids_memory = memoryview(bytearray(4096))
        self._ids = address_of(self._ids_memory)
        self._ids_room = len(self._ids_memory)
        self._ids_length = 0

    def begin(self, count: int) -> None:
        """Begins a request with at most so many messages."""
        self._ids_length = 0
        size = count * (len(self._id_before_offset) + _OFFSET_DIGITS + 1)
        if size > self._ids_room:
            self._ids_memory = memoryview(bytearray(size))
            self._ids = address_of(self._ids_memory)
            self._ids_room = size

    def note_id(self, physical_offset: int) -> None:
        """Records the location of one more stored message of the request."""
        before = self._id_before_offset
        length = len(before)
        at = self._ids_length
        out = self._ids
        if at:
            out[at] = 44  # a comma
            at += 1
        store_bytes(out, at, before, 0, length)
        at += length
        shift = 60
        while shift >= 0:
            out[at] = _HEX[physical_offset >> shift & 15]
            shift -= 4
            at += 1
        self._ids_length = at

    def message_ids(self) -> str:
        """The recorded ids, joined by commas."""
        return copy_bytes(self._ids, 0, self._ids_length).decode()

    def write(self, opaque: int, queue_offset: int, queue_id: int, waits: bool) -> None:
        """Writes the answer to the request; `waits`: it goes when the store is safe, if such answers are held."""
        buffer = self.held if self._hold and waits else self.now
        buffer.reserve(self._fixed_length + self._ids_length)
        out = buffer.out
        frame = buffer.length
        at = frame + HEAD_SIZE
        text = self._before_id
        length = len(text)
        store_bytes(out, at, text, 0, length)
        at += length
        store_bytes(out, at, self._ids, 0, self._ids_length)
        at += self._ids_length
        store_bytes(out, at, b'","queueOffset":"', 0, 17)
        at = _put_number(out, at + 17, queue_offset)
        store_bytes(out, at, b'","queueId":"', 0, 13)
        at = _put_number(out, at + 13, queue_id)
        store_bytes(out, at, b'"},"flag":1,"language":"JAVA","opaque":', 0, 39)
        at += 39
        if opaque < 0:
            out[at] = 45
            at += 1
            opaque = -opaque
        at = _put_number(out, at, opaque)
        text = self._tail
        length = len(text)
        store_bytes(out, at, text, 0, length)
        at += length
        store_i32(out, frame, at - frame - LENGTH_SIZE)
        store_i32(out, frame + LENGTH_SIZE, at - frame - HEAD_SIZE)
        buffer.length = at


def _put_number(out: memoryview, at: int, value: int) -> int:
    """Writes a number that is not negative; returns where it ends."""
    digits = 1
    rest = value
    while rest >= 10:
        rest //= 10
        digits += 1
    end = at + digits
    at = end
    while True:
        at -= 1
        out[at] = 48 + value % 10
        value //= 10
        if value == 0:
            return end
