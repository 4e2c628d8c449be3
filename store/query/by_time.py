"""Queue offsets by store time, and store times by queue offset.

RocketMQ selects the file to search by modification times, which for a mapped file are the times of the kernel's last write-back,
and are meaningless after a copy. Here it is the first file whose last message is not too early. Within that file the search is
RocketMQ's, step by step: the result is the nearest message in the file, and which of several of one millisecond depends on
the steps. Instead of a damaged record its nearest neighbour is read; otherwise one damaged record would exclude everything on one
side of it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from store.commit_log.reader import CommitLogReader
from store.consume_queue.reader import ConsumeQueueReader

_NONE = -1
_KEPT = 8192  # limit: 2 MB of store times; consoles ask for the same again and again
_NEIGHBOURS = 4096  # limit: entries read instead of a damaged one on each side, a few milliseconds


class TimeQuery:
    """Searches ConsumeQueues and the log by time. One for each process; not thread-safe."""

    def __init__(self, queues: ConsumeQueueReader, log: CommitLogReader) -> None:
        self._queues = queues
        self._log = log
        self._known: dict[tuple[str, int, int], tuple[int, int]] = {}
        """By topic, queue and queue offset: physical offset and store time, while no queue is added or removed."""
        self._changes = -1

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The queue offset of the message stored nearest to this time; 0 for a queue without messages."""
        min_offset, max_offset = self._queues.bounds(topic, queue_id)
        if min_offset >= max_offset:
            return 0
        in_file = self._queues.entries_per_file
        files = range(min_offset // in_file, (max_offset - 1) // in_file + 1)
        chosen = bisect_left(
            files,
            timestamp_ms,
            hi=len(files) - 1,
            key=lambda file: self._last_timestamp(
                topic, queue_id, file * in_file, min((file + 1) * in_file, max_offset)
            ),
        )
        first = files[chosen] * in_file
        low = max(first, min_offset)
        entries = self._queues.entries(topic, queue_id, low)
        if entries is None:
            return 0
        return self._search(entries, low - first, first, timestamp_ms)

    def timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When the message at this queue offset was stored, ms; -1 if it does not exist or is deleted."""
        changes = self._queues.changes
        if changes != self._changes or len(self._known) >= _KEPT:
            self._known.clear()
            self._changes = changes
        place = topic, queue_id, queue_offset
        known = self._known.get(place)
        if known is not None and self._log.is_kept(known[0]):
            return known[1]
        entry = self._queues.peek(topic, queue_id, queue_offset)
        if entry is None:
            return _NONE
        timestamp = self._log.store_timestamp_at(entry[0], entry[1])
        if timestamp >= 0:
            self._known[place] = entry[0], timestamp
        return timestamp

    def earliest_timestamp(self, topic: str, queue_id: int) -> int:
        """When the first message in the queue was stored, ms; -1 without one."""
        min_offset, max_offset = self._queues.bounds(topic, queue_id)
        return self._first_known(topic, queue_id, range(min_offset, min(max_offset, min_offset + _NEIGHBOURS)))

    def _last_timestamp(self, topic: str, queue_id: int, first: int, end: int) -> int:
        return self._first_known(topic, queue_id, range(end - 1, max(first, end - _NEIGHBOURS) - 1, -1))

    def _first_known(self, topic: str, queue_id: int, queue_offsets: Iterable[int]) -> int:
        """When the first of these with a readable record was stored; -1 without one, or if one is deleted."""
        find = self._queues.peek
        for queue_offset in queue_offsets:
            entry = find(topic, queue_id, queue_offset)
            if entry is None:
                break
            timestamp = self._log.store_timestamp_at(entry[0], entry[1])
            if timestamp >= 0 or not self._log.is_kept(entry[0]):
                return timestamp
            find = self._queues.entry  # that record is damaged; its neighbours may be, too
        return _NONE

    def _search(self, entries: memoryview, skipped: int, first: int, timestamp_ms: int) -> int:
        """RocketMQ's binary search in one file, in bytes from its beginning; `entries` begin `skipped` entries into it.

        Deleted messages count as too early.
        """
        start = skipped * ENTRY_SIZE
        low, high = start, start + len(entries) - ENTRY_SIZE
        left = right = target = _NONE
        left_timestamp = right_timestamp = _NONE
        while high >= low:
            middle, timestamp = self._known_near(
                entries, start, (low + high) // (2 * ENTRY_SIZE) * ENTRY_SIZE, low, high
            )
            if timestamp < 0:
                low = middle + ENTRY_SIZE
                left = middle
            elif timestamp == timestamp_ms:
                target = middle
                break
            elif timestamp > timestamp_ms:
                high = middle - ENTRY_SIZE
                right, right_timestamp = middle, timestamp
            else:
                low = middle + ENTRY_SIZE
                left, left_timestamp = middle, timestamp
        if target < 0:
            if left_timestamp == _NONE:
                target = right
            elif right_timestamp == _NONE:
                target = left
            else:
                is_left = abs(timestamp_ms - left_timestamp) <= abs(timestamp_ms - right_timestamp)
                target = left if is_left else right
        # compat: if nothing is found, Java has the position -1, and -1 / 20 is 0: the beginning of the file.
        return first + max(target, 0) // ENTRY_SIZE

    def _known_near(self, entries: memoryview, start: int, middle: int, low: int, high: int) -> tuple[int, int]:
        """Position and store time of the middle entry, or of the nearest with a readable record; -1 if it is deleted."""
        reach = _NEIGHBOURS * ENTRY_SIZE
        behind = range(middle, min(high, middle + reach) + 1, ENTRY_SIZE)
        before = range(middle - ENTRY_SIZE, max(low, middle - reach) - 1, -ENTRY_SIZE)
        for place in chain(behind, before):
            physical_offset, size, _ = ENTRY.unpack_from(entries, place - start)
            timestamp = self._log.store_timestamp_at(physical_offset, size)
            if timestamp >= 0 or not self._log.is_kept(physical_offset):
                return place, timestamp
        return middle, _NONE
