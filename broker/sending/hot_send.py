# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""The hot path of a send: from the bytes of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames to records in the log and the bytes of the answers.

One of the four hot modules (types in send.pxd). It takes the common frame and nothing else: JSON header, code 310 or 320, a
topic that is prepared here, a chosen queue, no transaction, no delay. Whatever it does not recognise without
doubt it leaves, untouched, to the plain path (`stopped_at` OTHER), which knows everything and says no where a client
must be told no. So nothing is checked less strictly here: what depends on a topic is prepared in `HotTopic` and taken
away with `forget_topic`, what depends on the store is `writeable`.

Called by broker/connections/broker_connection.py with what one read brought; nothing is visible to anyone until that publishes.
"""

import json
from collections.abc import Callable

import cython

from store.commit_log.append import CommitLogAppender, TopicQueues

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from broker.connections.json_scan import BAD, parse_number
    from headrace.model.host import V4_SIZE
    from headrace.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
    from headrace.protocol.big_endian import copy_bytes, find_byte, load_i32, load_u16, load_u32
    from headrace.protocol.record_layout import (
        BATCH_BODY_AT,
        BATCH_BODY_LENGTH_AT,
        BATCH_ENTRY_OVERHEAD,
        BATCH_FLAG_AT,
        BODY_CRC_MASK,
        HOSTLESS_SIZE,
        MAX_PROPERTIES_LENGTH,
        VALUE_END,
    )

COMPILED = cython.compiled

_PARTIAL = 0
_OTHER = 1
_NO_FILE = 2

PARTIAL = 0
"""The buffer ends within a frame."""
OTHER = 1
"""A whole frame that this path does not take."""
NO_FILE = 2
"""The next CommitLog file is not reserved yet: try this frame again."""

MAX_BATCH = 65_536
"""The most messages of a batch."""
# limit: a message of an official client has at least 22 bytes, a body of 1 and a UNIQ_KEY of 41 in a batch, so its largest batch (4 MiB, its
# maxMessageSize) holds no more. The largest batch takes 20 to 30 ms of the event loop, and its ids fit the answer's header.
MALFORMED = -1
"""A batch's body that is not a list of messages."""

_ANSWER_ROOM = 160  # the numbers and the flag of an answer, on top of its fixed parts
_ONEWAY = 2
_HOST_V6_BITS = BORN_HOST_V6 | STORE_HOST_V6
_HEX = b"0123456789ABCDEF"
_FRAME_LIMIT = 16_777_216
_BATCH_LIMIT = 65_536
_MALFORMED = -1
_COPIED = 1024  # bytes of a body for which a copy is quicker than a view

# Letters of SEND_MESSAGE_V2's fields, as places in the alphabet (spec remoting 4.5).
_TOPIC = 1
_QUEUE_ID = 4
_SYS_FLAG = 5
_BORN_TIMESTAMP = 6
_FLAG = 7
_PROPERTIES = 8
_RECONSUME_TIMES = 9
_BATCH = 12


class HotTopic:
    """A topic to which anybody may send, and what was sent to it since the counts were taken."""

    def __init__(self, name: str, queues: TopicQueues, queue_count: int, sys_flag: int) -> None:
        self.name = name
        self.requests_in = 0
        self.messages_in = 0
        self.bytes_in = 0
        self.queues = queues
        self.queue_count = queue_count
        self.sys_flag = sys_flag


def _hex_digit(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 32
    if 97 <= byte <= 102:
        return byte - 87
    return -1


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


def _copy(out: memoryview, at: int, source: bytes, start: int, length: int) -> None:
    if cython.compiled:
        memcpy(cython.address(out[at]), source + start, length)  # type: ignore[operator]
    else:
        out[at : at + length] = source[start : start + length]


def _copy_within(out: memoryview, at: int, source: memoryview, start: int, length: int) -> None:
    if cython.compiled:
        memcpy(cython.address(out[at]), cython.address(source[start]), length)
    else:
        out[at : at + length] = source[start : start + length]


def _is(source: memoryview, at: int, length: int, word: bytes, word_length: int) -> bool:
    if length != word_length:
        return False
    i = 0
    while i < length:
        if source[at + i] != word[i]:
            return False
        i += 1
    return True


class SendPath:
    """Appends the sends it finds in a buffer and writes their answers.

    With `hold` the answers of messages that wait for the store are gathered apart (`take_held`), to be sent when the
    log is as safe as the broker's settings ask.
    """

    def __init__(
        self,
        appender: CommitLogAppender,
        crc32: Callable[[bytes | memoryview], int],
        store_host: bytes,
        cluster: str,
        region: str,
        trace_on: bool,
        version: int,
        body_limit: int,
        hold: bool,
    ) -> None:
        self.appender = appender
        self._crc32 = crc32
        self._topics: dict[bytes, HotTopic] = {}
        self._counted: list[HotTopic] = []
        self._store_host = store_host
        self._store_flag = STORE_HOST_V6 if len(store_host) > V4_SIZE else 0
        self._cluster_property = b"CLUSTER\x01" + cluster.encode()
        self.body_limit = body_limit
        self._hold = hold
        self._answer_before_id = (
            f'{{"code":0,"extFields":{{"TRACE_ON":"{"true" if trace_on else "false"}","MSG_REGION":{json.dumps(region)},'
            f'"msgId":"'
        ).encode()
        self._id_before_offset = store_host.hex().upper().encode()
        self._tail = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version
        self.requests_in = 0
        """Requests whose messages were appended, since the start."""
        self.stored_bytes = 0
        """Bytes of the records of the last request."""
        self.writeable = True
        self.stopped_at = _PARTIAL
        # Stored properties, before it is known whether they are too long: those sent, a separator, the cluster's.
        self._properties = memoryview(bytearray(MAX_PROPERTIES_LENGTH + 1 + len(self._cluster_property)))
        self._unescaped = memoryview(bytearray(MAX_PROPERTIES_LENGTH + 1024))
        self._out = memoryview(bytearray(65536))
        self._out_length = 0
        self._held = memoryview(bytearray(65536))
        self._held_length = 0
        self._ids = memoryview(bytearray(4096))
        self._ids_length = 0
        if not cython.compiled:
            self._value_start = [0] * 26
            self._value_length = [0] * 26

    def prepare_topic(self, topic: bytes, queue_count: int, sys_flag: int) -> None:
        """From now on takes sends to `topic` (queues below `queue_count`; `sys_flag` is added to each message)."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = HotTopic(topic.decode(), self.appender.queues_of(topic), queue_count, sys_flag)
        else:
            known.queue_count = queue_count
            known.sys_flag = sys_flag

    def forget_topic(self, topic: bytes) -> None:
        """Leaves sends to `topic` to the plain path."""
        self._topics.pop(topic, None)

    def topics(self) -> dict[bytes, HotTopic]:
        """The prepared topics."""
        return self._topics

    def take_counts(self) -> list[tuple[str, int, int, int]]:
        """What was appended since the last time: requests, messages and bytes of each topic."""
        counts = []
        for topic in self._counted:
            counts.append((topic.name, topic.requests_in, topic.messages_in, topic.bytes_in))
            topic.requests_in = 0
            topic.messages_in = 0
            topic.bytes_in = 0
        self._counted.clear()
        return counts

    def take_answers(self) -> bytes:
        """The answers that may go now."""
        answers = bytes(self._out[: self._out_length])
        self._out_length = 0
        return answers

    def take_held(self) -> bytes:
        """The answers that wait until the log is safe up to its present end."""
        answers = bytes(self._held[: self._held_length])
        self._held_length = 0
        return answers

    def take(self, data: bytes, position: int, born_host: bytes, born_flag: int) -> int:
        """Handles the frames of `data` from `position` on; returns where it stopped, `stopped_at` says why."""
        p = data
        end = len(data)
        while True:
            if end - position < 8:
                self.stopped_at = _PARTIAL
                return position
            length = load_u32(p, position)
            header_length = load_u32(p, position + 4)
            if length > _FRAME_LIMIT - 4 or header_length > length - 4:
                # Also a header of another type: its number is in the highest byte.
                self.stopped_at = _OTHER
                return position
            if end - position - 4 < length:
                self.stopped_at = _PARTIAL
                return position
            header = position + 8
            body = header + header_length
            body_length = length - 4 - header_length
            if not self.writeable or body_length > self.body_limit or not self._scan(p, header, body):
                self.stopped_at = _OTHER
                return position
            self.stopped_at = self._append(p, data, body, body_length, born_host, born_flag)
            if self.stopped_at != _PARTIAL:
                return position
            position += 4 + length

    def _scan(self, p: bytes, at: int, end: int) -> bool:
        """Reads a header into `_opaque`, `_flag` and the places of the fields; False: not a frame for this path."""
        if end - at < 16 or p[at] != 123 or p[end - 1] != 125:
            return False
        for letter in range(26):
            self._value_length[letter] = -1
        seen = 0
        self._flag = 0
        self._opaque = BAD
        end -= 1
        at += 1
        while True:
            if at >= end or p[at] != 34:
                return False
            at += 1
            stop = find_byte(p, 34, at, end)
            if stop < 0 or stop + 2 > end or p[stop + 1] != 58:
                return False
            name = p[at]
            name_length = stop - at
            at = stop + 2
            if p[at] == 34:  # a string
                at += 1
                stop = find_byte(p, 34, at, end)
                if stop < 0 or find_byte(p, 92, at, stop) >= 0:
                    return False
                if name != 108 and name != 115 and name != 114:  # language, serializeTypeCurrentRPC, remark
                    return False
                at = stop + 1
            elif p[at] == 123:  # extFields
                if name != 101 or name_length != 9 or seen & 2:
                    return False
                seen |= 2
                at = self._scan_fields(p, at + 1, end)
                if at < 0:
                    return False
            else:
                start = at
                while at < end and p[at] != 44:
                    at += 1
                number = parse_number(p, start, at - start)
                if number == BAD:
                    return False
                if name == 99 and name_length == 4:  # code
                    if number != 310 and number != 320:
                        return False
                    seen |= 1
                elif name == 102 and name_length == 4:  # flag
                    self._flag = number
                elif name == 111 and name_length == 6:  # opaque
                    self._opaque = number
                elif name != 118 or name_length != 7:  # version
                    return False
            if at == end:
                break
            if p[at] != 44:
                return False
            at += 1
        return seen == 3 and self._opaque != BAD and (self._flag == 0 or self._flag == _ONEWAY)

    def _scan_fields(self, p: bytes, at: int, end: int) -> int:
        """Notes where the values of the one-letter fields lie; returns the place behind the object, -1 if unusual."""
        while True:
            if at + 6 > end or p[at] != 34 or p[at + 2] != 34 or p[at + 3] != 58 or p[at + 4] != 34:
                return -1
            letter = p[at + 1] - 97
            if not 0 <= letter <= 13 or self._value_length[letter] >= 0:
                return -1
            at += 5
            stop = find_byte(p, 34, at, end)
            if letter == _PROPERTIES:
                # An escaped quote: an odd number of backslashes before it.
                while stop > at and p[stop - 1] == 92:
                    slashes = 1
                    while stop - slashes > at and p[stop - slashes - 1] == 92:
                        slashes += 1
                    if not slashes & 1:
                        break
                    stop = find_byte(p, 34, stop + 1, end)
            elif stop >= 0 and find_byte(p, 92, at, stop) >= 0:
                return -1
            if stop < 0 or stop + 1 >= end:
                return -1
            self._value_start[letter] = at
            self._value_length[letter] = stop - at
            at = stop + 1
            if p[at] == 125:
                return at + 1
            if p[at] != 44:
                return -1
            at += 1

    def _store_properties(self, p: bytes) -> bool:
        """Makes the stored property string of the sent one: without WAIT (a batch's stays), with CLUSTER; False: not for this path.

        compat: pairs without a name or a value vanish, as when Apache's broker parses and writes the string again.
        """
        at = self._value_start[_PROPERTIES]
        length = self._value_length[_PROPERTIES]
        if length > MAX_PROPERTIES_LENGTH:
            return False
        end = at + max(length, 0)
        raw = self._unescaped
        size = 0
        while at < end:
            byte = p[at]
            if byte == 92:
                at += 1
                byte = p[at]
                if byte == 117:  # four hexadecimal digits
                    if end - at < 5 or p[at + 1] != 48 or p[at + 2] != 48:
                        return False
                    high = _hex_digit(p[at + 3])
                    low = _hex_digit(p[at + 4])
                    if high < 0 or high > 7 or low < 0:
                        return False
                    byte = high << 4 | low
                    at += 4
                elif byte != 34 and byte != 92 and byte != 47:
                    return False
            raw[size] = byte
            size += 1
            at += 1
        stored = self._properties
        self._wait = True
        written = 0
        start = 0
        while start < size:
            stop = start
            separator = -1
            while stop < size and raw[stop] != 2:
                if separator < 0 and raw[stop] == 1:
                    separator = stop
                stop += 1
            if separator > start and separator < stop - 1:
                name_length = separator - start
                first = raw[start]
                is_stored = True
                if first == 87 and _is(raw, start, name_length, b"WAIT", 4):
                    is_stored = self._is_batch
                    self._wait = (
                        stop - separator == 5
                        and raw[separator + 1] | 32 == 116
                        and raw[separator + 2] | 32 == 114
                        and raw[separator + 3] | 32 == 117
                        and raw[separator + 4] | 32 == 101
                    )
                elif first == 67 and _is(raw, start, name_length, b"CLUSTER", 7):
                    is_stored = False
                elif (
                    (first == 68 and _is(raw, start, name_length, b"DELAY", 5))
                    or (first == 84 and name_length > 4 and raw[start + 1] != 65)  # TRAN_MSG, TIMER_…; not TAGS
                    or (first == 73 and name_length > 6 and raw[start + 1] == 78 and raw[start + 2] == 78)  # INNER_…
                ):
                    return False
                if is_stored:
                    if self._is_repeated(stored, written, raw, start, name_length):
                        return False
                    if written:
                        stored[written] = VALUE_END
                        written += 1
                    _copy_within(stored, written, raw, start, stop - start)
                    written += stop - start
            start = stop + 1
        if written:
            stored[written] = VALUE_END
            written += 1
        cluster = self._cluster_property
        length = len(cluster)
        _copy(stored, written, cluster, 0, length)
        self._properties_length = written + length
        return self._properties_length <= MAX_PROPERTIES_LENGTH

    def _is_repeated(self, stored: memoryview, written: int, raw: memoryview, start: int, name_length: int) -> bool:
        """Whether a property of this name is among those written already (then the later one must win)."""
        at = 0
        while at < written:
            i = 0
            while i <= name_length and at + i < written and stored[at + i] == raw[start + i]:
                i += 1
            if i > name_length:
                return True
            while at < written and stored[at] != VALUE_END:
                at += 1
            at += 1
        return False

    def _append(self, p: bytes, data: bytes, body: int, body_length: int, born_host: bytes, born_flag: int) -> int:
        """Appends the scanned frame's messages and writes its answer; PARTIAL (go on), OTHER or NO_FILE."""
        if (
            self._value_length[_TOPIC] <= 0
            or self._value_length[_QUEUE_ID] <= 0
            or self._value_length[_SYS_FLAG] <= 0
            or self._value_length[_BORN_TIMESTAMP] <= 0
            or self._value_length[_FLAG] <= 0
        ):
            return _OTHER
        start = self._value_start[_BATCH]
        length = self._value_length[_BATCH]
        self._is_batch = (
            length == 4 and p[start] == 116 and p[start + 1] == 114 and p[start + 2] == 117 and p[start + 3] == 101
        )
        if length >= 0 and length != 5 and not self._is_batch:  # anything but false and true
            return _OTHER
        start = self._value_start[_TOPIC]
        topic = self._topics.get(data[start : start + self._value_length[_TOPIC]])
        if topic is None:
            return _OTHER
        queue_id = parse_number(p, self._value_start[_QUEUE_ID], self._value_length[_QUEUE_ID])
        sys_flag = parse_number(p, self._value_start[_SYS_FLAG], self._value_length[_SYS_FLAG])
        born = parse_number(p, self._value_start[_BORN_TIMESTAMP], self._value_length[_BORN_TIMESTAMP])
        flag = parse_number(p, self._value_start[_FLAG], self._value_length[_FLAG])
        reconsume_times = 0
        if self._value_length[_RECONSUME_TIMES] >= 0:
            reconsume_times = parse_number(p, self._value_start[_RECONSUME_TIMES], self._value_length[_RECONSUME_TIMES])
        if (
            not 0 <= queue_id < topic.queue_count
            or not 0 <= sys_flag <= 0x7FFFFFFF
            or sys_flag & TRANSACTION_MASK
            or born == BAD
            or not -0x80000000 <= flag <= 0x7FFFFFFF
            or not 0 <= reconsume_times <= 0x7FFFFFFF
            or not self._store_properties(p)
        ):
            return _OTHER
        self._queues = topic.queues
        self._queue_id = queue_id
        self._sys_flag = (sys_flag & ~_HOST_V6_BITS) | topic.sys_flag | born_flag | self._store_flag
        self._born_timestamp = born
        self._born_host = born_host
        self._reconsume_times = reconsume_times
        self._ids_length = 0
        queue_offset = self._queues.next_offset(queue_id)
        self.stored_bytes = 0
        if self._is_batch:
            count = self._put_batch(p, data, body, body_length)
            if count == 0:
                return _OTHER
        else:
            count = self._put(p, data, body, body_length, flag, self._properties, self._properties_length)
        if count < 0:
            return _NO_FILE
        if topic.messages_in == 0:
            self._counted.append(topic)
        topic.requests_in += 1
        self.requests_in += 1
        topic.messages_in += count
        topic.bytes_in += self.stored_bytes
        if self._flag == 0:
            self._answer(queue_offset, queue_id)
        return _PARTIAL

    def count_batch(self, body: bytes) -> int:
        """How many messages a batch's body holds: MALFORMED if it cannot be read, more than MAX_BATCH if it has too many, however many."""
        return self._measure(body, 0, len(body))

    def put_batch(
        self,
        topic: bytes,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        properties: bytes,
        body: bytes,
    ) -> int:
        """Appends a batch for the plain path, which has checked everything else and answers by itself; `properties` go with each message.

        Returns how many; 0: too many or malformed, properties too long for a record or all too large for a file; -1: no
        file. `stored_bytes` and `message_ids` tell of these messages until the next are appended.
        """
        length = len(properties)
        if length > MAX_PROPERTIES_LENGTH:
            return 0
        _copy(self._properties, 0, properties, 0, length)
        self._properties_length = length
        self._queues = self.appender.queues_of(topic)
        self._queue_id = queue_id
        born_flag = BORN_HOST_V6 if len(born_host) > V4_SIZE else 0
        self._sys_flag = (sys_flag & ~_HOST_V6_BITS) | born_flag | self._store_flag
        self._born_timestamp = born_timestamp
        self._born_host = born_host
        self._reconsume_times = reconsume_times
        self._ids_length = 0
        self.stored_bytes = 0
        return self._put_batch(body, body, 0, len(body))

    def message_ids(self) -> str:
        """The ids of these messages, joined by commas as in the answer."""
        return bytes(self._ids[: self._ids_length]).decode()

    def _measure(self, p: bytes, at: int, body_length: int) -> int:
        """Counts the messages of a batch's body, up to one more than there may be; MALFORMED.

        `_batch_bytes` are their bodies and properties then, `_longest` the longest properties, each with a separator.
        """
        end = at + body_length
        self._batch_bytes = 0
        self._longest = 0
        count = 0
        while at < end and count <= _BATCH_LIMIT:
            if end - at < BATCH_ENTRY_OVERHEAD:
                return _MALFORMED
            # A negative length, or properties of more than 32,767 bytes, are unsigned numbers too large to be left.
            length = load_u32(p, at + BATCH_BODY_LENGTH_AT)
            at += BATCH_BODY_AT
            if length > end - at - 2:
                return _MALFORMED
            self._batch_bytes += length
            at += length
            length = load_u16(p, at)
            at += 2
            if length > end - at or length > MAX_PROPERTIES_LENGTH:
                return _MALFORMED
            at += length
            if length and p[at - 1] != VALUE_END:
                length += 1
            self._batch_bytes += length
            self._longest = max(self._longest, length)
            count += 1
        return count

    def _put_batch(self, p: bytes, data: bytes, body: int, body_length: int) -> int:
        """Appends the messages of a batch's body, contiguous in one file, each with its own and the batch's properties (store spec, 2.7).

        Returns how many; 0: not for this path, -1: no file. All of them or none.
        """
        end = body + body_length
        added = self._properties_length
        alike = HOSTLESS_SIZE + len(self._born_host) + len(self._store_host) + len(self._queues.topic) + added
        count = self._measure(p, body, body_length)
        if not 0 < count <= _BATCH_LIMIT or self._longest + added > MAX_PROPERTIES_LENGTH:
            return 0
        total = self._batch_bytes + count * alike
        if total > self.appender.largest_record:
            return 0
        if not self.appender.ensure(total):
            return -1
        self._make_room_for_ids(count)
        stored = self._unescaped
        at = body
        while at < end:
            flag = load_i32(p, at + BATCH_FLAG_AT)
            length = load_u32(p, at + BATCH_BODY_LENGTH_AT)
            message = at + BATCH_BODY_AT
            at = message + length
            written = load_u16(p, at)
            at += 2
            _copy(stored, 0, p, at, written)
            at += written
            if written and p[at - 1] != VALUE_END:
                stored[written] = VALUE_END
                written += 1
            _copy_within(stored, written, self._properties, 0, added)
            self._put(p, data, message, length, flag, stored, written + added)
        return count

    def _put(
        self,
        p: bytes,
        data: bytes,
        body: int,
        body_length: int,
        flag: int,
        properties: memoryview,
        properties_length: int,
    ) -> int:
        """Appends one message of the frame in hand, and notes its id. 1; -1: no file."""
        crc = 0
        if body_length:
            if body_length <= _COPIED:
                crc = self._crc32(copy_bytes(p, body, body + body_length))
            else:
                crc = self._crc32(memoryview(data)[body : body + body_length])
            crc &= BODY_CRC_MASK
        if cython.compiled:
            offset = self.appender.put(
                self._queues,
                self._queue_id,
                flag,
                self._sys_flag,
                self._born_timestamp,
                self._born_host,
                self._store_host,
                self._reconsume_times,
                0,
                p + body,  # type: ignore[operator]
                body_length,
                crc,
                cython.address(properties[0]),  # type: ignore[arg-type]
                properties_length,
                True,
            )
        else:
            offset = self.appender.put(
                self._queues,
                self._queue_id,
                flag,
                self._sys_flag,
                self._born_timestamp,
                self._born_host,
                self._store_host,
                self._reconsume_times,
                0,
                data[body : body + body_length],
                body_length,
                crc,
                bytes(properties[:properties_length]),
                properties_length,
                True,
            )
        if offset < 0:
            return -1
        self.stored_bytes += self.appender.wrote_offset - offset
        self._note_id(offset)
        return 1

    def _make_room_for_ids(self, count: int) -> None:
        size = count * (len(self._id_before_offset) + 17)
        if size > len(self._ids):
            self._ids = memoryview(bytearray(size))

    def _note_id(self, physical_offset: int) -> None:
        """One more message of the frame in hand has been stored there."""
        before = self._id_before_offset
        length = len(before)
        at = self._ids_length
        out = self._ids
        if at:
            out[at] = 44
            at += 1
        _copy(out, at, before, 0, length)
        at += length
        shift = 60
        while shift >= 0:
            out[at] = _HEX[physical_offset >> shift & 15]
            shift -= 4
            at += 1
        self._ids_length = at

    def _answer(self, queue_offset: int, queue_id: int) -> None:
        """Writes the answer's frame (spec remoting 4.5)."""
        held = self._hold and self._wait
        at = self._held_length if held else self._out_length
        out = self._held if held else self._out
        before = self._answer_before_id
        after = self._tail
        needed = len(before) + self._ids_length + len(after) + _ANSWER_ROOM
        if at + needed > len(out):
            grown = memoryview(bytearray(2 * len(out) + needed))
            grown[:at] = out[:at]
            out = grown
            if held:
                self._held = out
            else:
                self._out = out
        frame = at
        at += 8
        length = len(before)
        _copy(out, at, before, 0, length)
        at += length
        _copy_within(out, at, self._ids, 0, self._ids_length)
        at += self._ids_length
        _copy(out, at, b'","queueOffset":"', 0, 17)
        at = _put_number(out, at + 17, queue_offset)
        _copy(out, at, b'","queueId":"', 0, 13)
        at = _put_number(out, at + 13, queue_id)
        _copy(out, at, b'"},"flag":1,"language":"JAVA","opaque":', 0, 39)
        at += 39
        opaque = self._opaque
        if opaque < 0:
            out[at] = 45
            at += 1
            opaque = -opaque
        at = _put_number(out, at, opaque)
        length = len(after)
        _copy(out, at, after, 0, length)
        at += length
        length = at - frame - 4
        out[frame] = length >> 24 & 255
        out[frame + 1] = length >> 16 & 255
        out[frame + 2] = length >> 8 & 255
        out[frame + 3] = length & 255
        length -= 4
        out[frame + 4] = 0
        out[frame + 5] = length >> 16 & 255
        out[frame + 6] = length >> 8 & 255
        out[frame + 7] = length & 255
        if held:
            self._held_length = at
        else:
            self._out_length = at
