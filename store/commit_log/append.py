# cython: wraparound=False, cdivision=True
"""Appends records to the CommitLog: encodes them directly into the file's view and publishes the end of the log.

Compiled where there is a compiler (types in the `.pxd`), plain Python elsewhere; both write the same bytes. The layout of a record is drawn in headrace/protocol/record_layout.

Only one process may have a `CommitLogAppender`: the log writer. No record is visible before `publish`, which is
called once for a batch. It must never write a byte at or beyond the published `append_limit` (a restarted writer
wipes from `wrote_offset` to there, so that unpublished records do not reappear), write into a file
that the housekeeper has not reserved yet, or let a record cross the end of a file.
"""

import array
import os
from collections.abc import Callable

import cython

from ipc.publish.log import LogPublisher
from store.commit_log.stage import Stage
from store.fault_point import ENVIRONMENT, fault_point

if not cython.compiled:
    from headrace.protocol.big_endian import store_bytes, store_i16, store_i32, store_i64
    from headrace.protocol.record_layout import (
        BLANK_MAGIC,
        BODY_CRC_AT,
        BORN_HOST_AT,
        BORN_TIMESTAMP_AT,
        END_FILE_MIN_BLANK_LENGTH,
        FLAG_AT,
        HOSTLESS_SIZE,
        MAGIC_AT,
        MESSAGE_MAGIC,
        PHYSICAL_OFFSET_AT,
        QUEUE_ID_AT,
        QUEUE_OFFSET_AT,
        STORE_TIMESTAMP_SIZE,
        SYS_FLAG_AT,
        TAIL_BODY_LENGTH_AT,
        TAIL_PREPARED_OFFSET_AT,
        TAIL_RECONSUME_TIMES_AT,
        TAIL_SIZE,
        TOTAL_SIZE_AT,
    )

_LIMIT_AHEAD = 256 * 1024  # limit: how far it is raised: what a restart wipes, against one more store per batch
_LIMIT_LOW = 64 * 1024  # limit: `raise_ahead` raises it when less is left; a batch at a low rate takes less


class TopicQueues:
    """The next queue offset of each queue of one topic."""

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.name = topic.decode()
        self.count = 0
        self.next_offsets = memoryview(array.array("q", [0]))

    def next_offset(self, queue_id: int) -> int:
        """The queue offset that the next record of this queue gets."""
        if queue_id < 0 or queue_id >= self.count:
            self.advance(queue_id, 0)
        return self.next_offsets[queue_id]

    def advance(self, queue_id: int, offset: int) -> None:
        """Sets the next queue offset of `queue_id`, making room for it. Raises ValueError for one below 0."""
        if queue_id < 0:
            raise ValueError(f"invalid queue id {queue_id} of topic {self.name}: expected 0 or more")
        if queue_id >= self.count:
            grown = array.array("q", bytes(8 * (queue_id + 1)))
            for known in range(self.count):
                grown[known] = self.next_offsets[known]
            self.next_offsets = memoryview(grown)
            self.count = queue_id + 1
        self.next_offsets[queue_id] = offset


def _address_of(view: memoryview) -> memoryview:
    # Compiled code passes this on: a typed view takes about 200 bytes, too expensive to pass in a call for each number.
    if cython.compiled:
        return cython.address(view[0])  # type: ignore[return-value]
    return view


class CommitLogAppender:
    """The writer of the CommitLog.

    `open_file(start_offset)` maps the reserved file that starts there and returns its writable view. `words` is the
    control block, `allocated_word` the index of `allocated_offset` in it. `populate(start, end)` prepares memory that will
    be written next; nothing has been written to it. `wrote_timestamp` is that of the last record before `wrote_offset`, 0 if there is none.
    With a `stage`, `open_file` returns its memory, and records are written to the file before they are published.
    """

    def __init__(
        self,
        publisher: LogPublisher,
        open_file: Callable[[int], memoryview],
        words: memoryview,
        allocated_word: int,
        file_size: int,
        wrote_offset: int,
        append_limit: int,
        populate: Callable[[int, int], None] | None = None,
        wrote_timestamp: int = 0,
        stage: Stage | None = None,
    ) -> None:
        self._publisher = _MortalPublisher(publisher) if ENVIRONMENT in os.environ else publisher
        self._open_file = open_file
        self._populate = populate
        self._stage = stage
        self._words = words
        self._allocated_word = allocated_word
        self._file_size = file_size
        self._view = memoryview(bytearray(1))
        self._file_start = self._file_end = self._view_start = wrote_offset
        self.wrote_offset = self._published_offset = wrote_offset
        self._append_limit = append_limit
        self.store_timestamp = 0
        self._wrote_timestamp = wrote_timestamp
        self.queues: dict[bytes, TopicQueues] = {}

    def begin(self, now_ms: int) -> None:
        """Sets the store timestamp of the next records, milliseconds since the epoch; store timestamps never decrease."""
        self.store_timestamp = max(self.store_timestamp, now_ms)

    def queues_of(self, topic: bytes) -> TopicQueues:
        """The queue offsets of `topic`, from 0 for a topic that has none yet."""
        queues = self.queues.get(topic)
        if queues is None:
            queues = self.queues[topic] = TopicQueues(topic)
        return queues

    def forget_topic(self, topic: bytes) -> None:
        """Removes the queues of `topic`: the next message begins at queue offset 0 again."""
        self.queues.pop(topic, None)

    @property
    def largest_record(self) -> int:
        """Bytes of the largest record (or whole batch) that fits a file."""
        return self._file_size - END_FILE_MIN_BLANK_LENGTH

    def ensure(self, size: int) -> bool:
        """Makes room for `size` bytes, in the next file if they do not fit the current one; False: that file is not reserved yet.

        `size` is at most `largest_record`.
        """
        # Twice after a start: first the last file of the log is opened, which may have no room left.
        while self.wrote_offset + size + END_FILE_MIN_BLANK_LENGTH > self._file_end:
            if not self._roll():
                return False
        return True

    def _roll(self) -> bool:
        start = self._file_end
        within = self.wrote_offset % self._file_size
        if start == self._file_start and within:
            # The first append after a start: the log ends inside a file that was not open yet.
            start = self.wrote_offset - within
        if self._words[self._allocated_word] < start + self._file_size:
            return False
        view = self._open_file(start)
        if start == self._file_end and self._file_end > self._file_start:
            blank = self._file_end - self.wrote_offset
            # order: the limit is raised before the first byte beyond it is written.
            self._raise_limit(self.wrote_offset + END_FILE_MIN_BLANK_LENGTH)
            at = self.wrote_offset - self._view_start
            out = _address_of(self._view)
            store_i32(out, at + TOTAL_SIZE_AT, blank)
            store_i32(out, at + MAGIC_AT, BLANK_MAGIC)
            if self._stage is not None and not self._stage.end_file(self.wrote_offset + END_FILE_MIN_BLANK_LENGTH):
                return False  # `publish` raises
            self.wrote_offset = start
        self._view = view
        self._view_start = start
        if self._stage is not None:
            self._view_start = self.wrote_offset
            self._stage.begin(self.wrote_offset)
        self._file_start = start
        self._file_end = start + self._file_size
        return True

    def raise_ahead(self) -> None:
        """Raises the limit for records to come, so that they need not wait for it. Called once their predecessors are answered."""
        if self._append_limit < self._file_end and self._append_limit - self.wrote_offset < _LIMIT_LOW:
            self._raise_limit(self._append_limit + 1)

    def _raise_limit(self, end: int) -> None:
        before = self._append_limit
        if end > before:
            # A multiple, so that the kernel can use large pages.
            limit = (end // _LIMIT_AHEAD + 1) * _LIMIT_AHEAD
            self._append_limit = min(limit, max(end, self._words[self._allocated_word]))
            self._publisher.append_limit(self._append_limit)
            if self._populate is not None and end <= self._file_end:
                # order: from the limit before on, because below it there may be records.
                self._populate(max(before, self.wrote_offset), min(self._append_limit, self._file_end))

    def put(
        self,
        queues: TopicQueues,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        body: bytes,
        body_length: int,
        body_crc: int,
        properties: bytes | memoryview,
        properties_length: int,
        queued: bool,
    ) -> int:
        """Copies one record; returns its physical offset, -1 while the next file is not reserved.

        Hosts are the address bytes followed by a 4-byte port; their flags must be in `sys_flag`. `queued` is False for
        prepared and rolled-back messages, which have queue offset 0 and do not increment it.
        """
        topic: bytes = queues.topic
        topic_length = len(topic)
        born_length = len(born_host)
        store_length = len(store_host)
        size = HOSTLESS_SIZE + born_length + store_length + body_length + topic_length + properties_length
        if self.wrote_offset + size + END_FILE_MIN_BLANK_LENGTH > self._file_end and not self.ensure(size):
            return -1
        physical_offset = self.wrote_offset
        # order: the limit is raised before the first byte beyond it is written.
        if physical_offset + size > self._append_limit:
            self._raise_limit(physical_offset + size)
        queue_offset = queues.next_offset(queue_id) if queued else 0
        at = physical_offset - self._view_start
        out = _address_of(self._view)
        store_i32(out, at + TOTAL_SIZE_AT, size)
        store_i32(out, at + MAGIC_AT, MESSAGE_MAGIC)
        store_i32(out, at + BODY_CRC_AT, body_crc)
        store_i32(out, at + QUEUE_ID_AT, queue_id)
        store_i32(out, at + FLAG_AT, flag)
        store_i64(out, at + QUEUE_OFFSET_AT, queue_offset)
        store_i64(out, at + PHYSICAL_OFFSET_AT, physical_offset)
        store_i32(out, at + SYS_FLAG_AT, sys_flag)
        store_i64(out, at + BORN_TIMESTAMP_AT, born_timestamp)
        at += BORN_HOST_AT
        store_bytes(out, at, born_host, 0, born_length)
        at += born_length
        store_i64(out, at, self.store_timestamp)
        at += STORE_TIMESTAMP_SIZE
        store_bytes(out, at, store_host, 0, store_length)
        at += store_length
        store_i32(out, at + TAIL_RECONSUME_TIMES_AT, reconsume_times)
        store_i64(out, at + TAIL_PREPARED_OFFSET_AT, prepared_transaction_offset)
        store_i32(out, at + TAIL_BODY_LENGTH_AT, body_length)
        at += TAIL_SIZE
        store_bytes(out, at, body, 0, body_length)
        at += body_length
        out[at] = topic_length
        store_bytes(out, at + 1, topic, 0, topic_length)
        at += 1 + topic_length
        store_i16(out, at, properties_length)
        store_bytes(out, at + 2, properties, 0, properties_length)
        self.wrote_offset = physical_offset + size
        self._wrote_timestamp = self.store_timestamp
        if queued:
            queues.next_offsets[queue_id] = queue_offset + 1
        return physical_offset

    def append(
        self,
        queues: TopicQueues,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        body: bytes,
        body_crc: int,
        properties: bytes,
        queued: bool,
    ) -> int:
        """`put` for callers in Python; the same result."""
        return self.put(
            queues,
            queue_id,
            flag,
            sys_flag,
            born_timestamp,
            born_host,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            len(body),
            body_crc,
            properties,
            len(properties),
            queued,
        )

    def publish(self) -> bool:
        """Publishes the end of the log after a batch; True if it has moved, so that bells must be checked.

        Raises OSError, and publishes nothing, if the records cannot be written.
        """
        if self.wrote_offset == self._published_offset:
            return False
        if self._stage is not None:
            self._stage.write(self.wrote_offset)
            self._view_start = self.wrote_offset
        self._published_offset = self.wrote_offset
        # Not `store_timestamp`: a read that brought no message may have begun since the last record.
        self._publisher.wrote(self.wrote_offset, self._wrote_timestamp)
        return True


class _MortalPublisher:
    """A publisher with fault points before and after publishing, used only by crash tests so that it costs nothing otherwise."""

    def __init__(self, publisher: LogPublisher) -> None:
        self._publisher = publisher

    def append_limit(self, physical_offset: int) -> None:
        self._publisher.append_limit(physical_offset)
        fault_point("commit_log.limit_raised")

    def wrote(self, physical_offset: int, store_timestamp: int) -> None:
        fault_point("commit_log.copied")
        self._publisher.wrote(physical_offset, store_timestamp)
        fault_point("commit_log.published")
