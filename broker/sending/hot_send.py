# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""The hot path of a send: from the bytes of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames to records in the log and the bytes of the answers.

It takes the common frame only (types in the `.pxd`): a plain JSON header, code 310 or 320, a topic that is prepared here, a chosen queue, no
transaction, no delay. Every other frame is left, untouched, to the plain path (`stopped_at` OTHER), which knows all cases and answers
errors. No check is weaker here: what depends on a topic is prepared in `HotTopic` and removed by `forget_topic`, what depends on the store
is `writeable`.

Called by broker/connections/hot_requests.py with what one read brought. Nothing is visible to anyone before that publishes.
"""

from typing import Any

import cython

from broker.header_scan import OTHER, PARTIAL, SCANNED, HeaderScan
from broker.sending.send_answers import SendAnswers
from broker.sending.stored_properties import StoredProperties
from broker.signed_frame import SignedFrame, SigningKey
from headrace.protocol.crc32 import find_crc_function
from store.commit_log.append import CommitLogAppender, TopicQueues

if not cython.compiled:
    from broker.header_scan import BAD
    from headrace.model.host import V4_SIZE
    from headrace.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
    from headrace.protocol.big_endian import copy_bytes, is_equal, load_i32, load_u16, load_u32
    from headrace.protocol.crc32 import crc_of, take_crc_function
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

__all__ = ["COMPILED", "MALFORMED", "MAX_BATCH", "NO_FILE", "OTHER", "PARTIAL", "HotTopic", "SendPath"]

take_crc_function(find_crc_function())

COMPILED = cython.compiled

NO_FILE = 3
"""The next CommitLog file is not reserved yet: retry this frame."""

MAX_BATCH = 65_536
"""Maximum number of messages in a batch."""
# limit: a message of an official client has at least 22 bytes, a body of 1 and a UNIQ_KEY of 41 in a batch, so its largest batch (4 MiB, its
# maxMessageSize) holds no more. The largest batch takes 20 to 30 ms of the event loop, and its ids fit the answer's header.
MALFORMED = -1
"""The body of a batch is not a list of messages."""

_ONEWAY = 2
_HOST_V6_BITS = BORN_HOST_V6 | STORE_HOST_V6
_PARTIAL = PARTIAL
_OTHER = OTHER
_SCANNED = SCANNED
_NO_FILE = NO_FILE
_BATCH_LIMIT = MAX_BATCH
_MALFORMED = MALFORMED
_PROPERTY_SIZE = 4  # a name, a value and their separators

_SEND = 310
_SEND_BATCH = 320
# SEND_MESSAGE_V2's fields are letters; their numbers are places in the alphabet (remoting spec 4.5).
_NAMES = (*(bytes([letter]) for letter in b"abcdefghijklmn"), b"AccessKey", b"Signature", b"SecurityToken")
_TOPIC = 1
_QUEUE_ID = 4
_SYS_FLAG = 5
_BORN_TIMESTAMP = 6
_FLAG = 7
_PROPERTIES = 8
_RECONSUME_TIMES = 9
_BATCH = 12
_ACCESS_KEY = 14
_SIGNATURE = 15


class HotTopic:
    """A topic without restrictions, and the counts of sends to it since they were last taken."""

    def __init__(self, key: bytes, queues: TopicQueues, queue_count: int, sys_flag: int) -> None:
        self.key = key
        self.name = key.decode()
        self.requests_in = 0
        self.messages_in = 0
        self.bytes_in = 0
        self.queues = queues
        self.queue_count = queue_count
        self.sys_flag = sys_flag
        # The account that has sent last, as far as it may under these rules.
        self.rules: object = None
        self.access_key = b""
        self.signing_key: SigningKey | None = None


class SendPath:
    """Appends the sends in a buffer and writes their responses.

    With `hold` the responses to messages that wait for the store are collected separately (`take_held`), to be sent when the
    log is as safe as the broker's settings require.
    """

    def __init__(
        self,
        appender: CommitLogAppender,
        store_host: bytes,
        cluster: str,
        region: str,
        trace_on: bool,
        version: int,
        body_limit: int,
        hold: bool,
    ) -> None:
        self.appender = appender
        self._topics: dict[bytes, HotTopic] = {}
        self._last: HotTopic | None = None
        self._counted: list[HotTopic] = []
        self._store_host = store_host
        self._store_flag = STORE_HOST_V6 if len(store_host) > V4_SIZE else 0
        self.body_limit = body_limit
        self._answers = SendAnswers(store_host, region, trace_on, version, hold)
        self._stored = StoredProperties(cluster)
        self._scan = HeaderScan((_SEND, _SEND_BATCH), _NAMES, escaped=_PROPERTIES)
        # The frame after the one in hand, while frames are signed: signatures are checked by twos.
        self._next = HeaderScan((_SEND, _SEND_BATCH), _NAMES, escaped=_PROPERTIES)
        self._has_next = False
        self._is_second = False
        self._signed = SignedFrame(_NAMES, _SIGNATURE, escaped=_PROPERTIES)
        self.requests_in = 0
        """Requests whose messages were appended, since the start."""
        self.stored_bytes = 0
        """Bytes of the records of the last request."""
        self.writeable = True
        self.stopped_at = _PARTIAL
        self.most_properties = 0
        """Properties of the message of the last batch that has the most, if they are long enough to be more than allowed."""

    def limit(self, header_size: int, properties_count: int, properties_size: int) -> None:
        """Leaves frames with longer headers, and messages with more or longer properties, to the plain path."""
        self._scan.header_limit = header_size
        self._next.header_limit = header_size
        self._stored.count_limit = properties_count
        self._stored.length_limit = properties_size

    def prepare_topic(self, topic: bytes, queue_count: int, sys_flag: int) -> None:
        """Accepts sends to `topic` from now on (queues below `queue_count`; `sys_flag` is added to each message)."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = HotTopic(topic, self.appender.queues_of(topic), queue_count, sys_flag)
        else:
            known.queue_count = queue_count
            known.sys_flag = sys_flag

    def forget_topic(self, topic: bytes) -> None:
        """Leaves sends to `topic` to the plain path."""
        self._topics.pop(topic, None)
        self._last = None

    def topics(self) -> dict[bytes, HotTopic]:
        """The prepared topics."""
        return self._topics

    def take_counts(self) -> list[tuple[str, int, int, int]]:
        """Returns what was appended since the last call: requests, messages and bytes of each topic."""
        counts = []
        for topic in self._counted:
            counts.append((topic.name, topic.requests_in, topic.messages_in, topic.bytes_in))
            topic.requests_in = 0
            topic.messages_in = 0
            topic.bytes_in = 0
        self._counted.clear()
        return counts

    def take_answers(self) -> bytes:
        """The responses that can be sent now."""
        return self._answers.now.take()

    def take_held(self) -> bytes:
        """The responses that wait until the log is safe up to its current end."""
        return self._answers.held.take()

    def take(self, data: bytes, position: int, born_host: bytes, born_flag: int, access: Any = None) -> int:
        """Handles the frames of `data` from `position` on; returns where it stopped, `stopped_at` says why.

        `access`: a `broker.connections.hot_access.HotAccess` if the frames have to be signed by accounts that may send.
        """
        p = data
        end = len(data)
        scan = self._scan
        self._has_next = False
        while True:
            self._is_second = self._has_next
            if self._is_second:
                self._has_next = False
                scan = self._next
                self._next = self._scan
                self._scan = scan
            else:
                self.stopped_at = scan.scan(p, position, end)
                if self.stopped_at != _SCANNED:
                    return position
                self._has_next = access is not None and self._next.scan(p, scan.end, end) == _SCANNED
            if not self.writeable or scan.body_length > self.body_limit or (scan.flag != 0 and scan.flag != _ONEWAY):
                self.stopped_at = _OTHER
                return position
            self.stopped_at = self._append(p, born_host, born_flag, access)
            if self.stopped_at != _PARTIAL:
                return position
            position = scan.end

    def _append(self, p: bytes, born_host: bytes, born_flag: int, access: Any) -> int:
        """Appends the messages of the scanned frame and writes its response; returns PARTIAL (continue), OTHER or NO_FILE."""
        scan = self._scan
        start = scan.starts[_BATCH]
        length = scan.lengths[_BATCH]
        self._is_batch = length == 4 and is_equal(p, start, b"true", 0, 4)
        if length >= 0 and length != 5 and not self._is_batch:  # anything but false and true
            return _OTHER
        start = scan.starts[_TOPIC]
        length = scan.lengths[_TOPIC]
        topic = self._last
        if topic is None or len(topic.key) != length or not is_equal(p, start, topic.key, 0, length):
            topic = self._topics.get(copy_bytes(p, start, start + max(length, 0)))
            if topic is None:
                return _OTHER
            self._last = topic
        queue_id = scan.number(p, _QUEUE_ID)
        sys_flag = scan.number(p, _SYS_FLAG)
        born = scan.number(p, _BORN_TIMESTAMP)
        flag = scan.number(p, _FLAG)
        reconsume_times = scan.number(p, _RECONSUME_TIMES) if scan.lengths[_RECONSUME_TIMES] >= 0 else 0
        if (
            not 0 <= queue_id < topic.queue_count
            or not 0 <= sys_flag <= 0x7FFFFFFF
            or sys_flag & TRANSACTION_MASK
            or born == BAD
            or not -0x80000000 <= flag <= 0x7FFFFFFF
            or not 0 <= reconsume_times <= 0x7FFFFFFF
            or not self._stored.store(p, scan.starts[_PROPERTIES], scan.lengths[_PROPERTIES], self._is_batch)
            or (access is not None and not self._may_send(p, topic, access))
        ):
            return _OTHER
        self._queues = topic.queues
        self._queue_id = queue_id
        self._sys_flag = (sys_flag & ~_HOST_V6_BITS) | topic.sys_flag | born_flag | self._store_flag
        self._born_timestamp = born
        self._born_host = born_host
        self._reconsume_times = reconsume_times
        queue_offset = self._queues.next_offset(queue_id)
        self.stored_bytes = 0
        if self._is_batch:
            count = self._put_batch(p, scan.body_at, scan.body_length)
            if count == 0:
                return _OTHER
        else:
            self._answers.begin(1)
            stored = self._stored
            count = self._put(p, scan.body_at, scan.body_length, flag, stored.text, stored.length)
        if count < 0:
            return _NO_FILE
        if topic.messages_in == 0:
            self._counted.append(topic)
        topic.requests_in += 1
        self.requests_in += 1
        topic.messages_in += count
        topic.bytes_in += self.stored_bytes
        if scan.flag == 0:
            self._answers.write(scan.opaque, queue_offset, queue_id, self._stored.waits)
        return _PARTIAL

    def _may_send(self, p: bytes, topic: HotTopic, access: Any) -> bool:
        """Whether the scanned frame is signed by an account that may send to its topic, as far as is known here."""
        scan = self._scan
        start = scan.starts[_ACCESS_KEY]
        length = scan.lengths[_ACCESS_KEY]
        if length < 0:
            return False
        known = topic.access_key
        key = topic.signing_key
        if topic.rules is not access.rules or len(known) != length or not is_equal(p, start, known, 0, length):
            known = copy_bytes(p, start, start + length)
            key = access.key_of_sender(known, topic.name)
            topic.rules = access.rules
            topic.access_key = known
            topic.signing_key = key
        if key is None:
            return False
        if self._is_second:
            return self._signed.is_next_signed(p, scan, key)
        if self._has_next:
            return self._signed.is_signed_before(p, scan, self._next, key)
        return self._signed.is_signed(p, scan, key)

    def count_batch(self, body: bytes) -> int:
        """The number of messages in the body of a batch: MALFORMED if it is invalid, above MAX_BATCH if there are too many."""
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
        if len(properties) > MAX_PROPERTIES_LENGTH:
            return 0
        self._stored.take(properties)
        self._queues = self.appender.queues_of(topic)
        self._queue_id = queue_id
        born_flag = BORN_HOST_V6 if len(born_host) > V4_SIZE else 0
        self._sys_flag = (sys_flag & ~_HOST_V6_BITS) | born_flag | self._store_flag
        self._born_timestamp = born_timestamp
        self._born_host = born_host
        self._reconsume_times = reconsume_times
        self.stored_bytes = 0
        return self._put_batch(body, 0, len(body))

    def message_ids(self) -> str:
        """The ids of these messages, joined by commas as in the response."""
        return self._answers.message_ids()

    def _measure(self, p: bytes, at: int, body_length: int) -> int:
        """Counts the messages in the body of a batch, up to one above the maximum; MALFORMED.

        `_batch_bytes` are their bodies and properties then, `_longest` the longest properties, each with a separator.
        """
        end = at + body_length
        self._batch_bytes = 0
        self._longest = 0
        self.most_properties = 0
        # A property has four bytes or more: shorter strings need not be looked at.
        few = _PROPERTY_SIZE * self._stored.count_limit
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
            if length > few:
                self.most_properties = max(self.most_properties, self._stored.count(p, at, length))
            at += length
            if length and p[at - 1] != VALUE_END:
                length += 1
            self._batch_bytes += length
            self._longest = max(self._longest, length)
            count += 1
        return count

    def _put_batch(self, p: bytes, body: int, body_length: int) -> int:
        """Appends the messages of a batch's body, contiguous in one file, each with its own and the batch's properties (store spec, 2.7).

        Returns how many; 0: not for this path, -1: no file. Appends all of them or none.
        """
        end = body + body_length
        stored = self._stored
        added = stored.length
        alike = HOSTLESS_SIZE + len(self._born_host) + len(self._store_host) + len(self._queues.topic) + added
        count = self._measure(p, body, body_length)
        if (
            not 0 < count <= _BATCH_LIMIT
            or self._longest + added > stored.length_limit
            or self.most_properties > stored.count_limit
        ):
            return 0
        total = self._batch_bytes + count * alike
        if total > self.appender.largest_record:
            return 0
        if not self.appender.ensure(total):
            return -1
        self._answers.begin(count)
        at = body
        while at < end:
            flag = load_i32(p, at + BATCH_FLAG_AT)
            length = load_u32(p, at + BATCH_BODY_LENGTH_AT)
            message = at + BATCH_BODY_AT
            at = message + length
            written = load_u16(p, at)
            at += 2
            self._put(p, message, length, flag, stored.joined, stored.join(p, at, written))
            at += written
        return count

    def _put(
        self,
        p: bytes,
        body: int,
        body_length: int,
        flag: int,
        properties: memoryview,
        properties_length: int,
    ) -> int:
        """Appends one message of the current frame, and records its id. Returns 1; -1: no file."""
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
            p + body if cython.compiled else p[body : body + body_length],  # type: ignore[operator]
            body_length,
            crc_of(p, body, body_length) & BODY_CRC_MASK if body_length else 0,
            properties,
            properties_length,
            True,
        )
        if offset < 0:
            return -1
        self.stored_bytes += self.appender.wrote_offset - offset
        self._answers.note_id(offset)
        return 1
