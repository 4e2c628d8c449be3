"""Checks ConsumeQueues against the log: each record has its entry, and each entry leads to its record.

Not wrong: records from before their topic was deleted, as `config/deletedTopics.json` says, with or without an entry. Nor, because
RocketMQ does it too: fillers before a queue's first entry; entries of records that are deleted; records of a topic that was deleted
since, or deleted and made again; a log that a killed broker had not dispatched to its end.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.errors import HeadraceError
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model import sys_flag as sys_flags
from headrace.model.java_hash import tags_code
from headrace.model.message import MessageExt
from headrace.protocol import fastjson
from headrace.protocol.consume_queue_layout import (
    BATCH_ENTRY,
    BATCH_ENTRY_SIZE,
    ENTRY_SIZE,
    FILLER_SIZE,
    is_ext_address,
)
from ipc.queue_table import QueueTable
from store.deleted_topics import DeletedTopicsUnreadable, read_deleted_topics
from store.inspect.dump import open_units
from store.inspect.files import QueueDirectory, is_zero, list_files, list_queues
from store.inspect.finding import Finding, Progress
from store.inspect.log import InspectedLog
from store.inspect.queue_entries import QueueEntries
from store.paths import StorePaths

_PART = "consumequeue"
_EVERYTHING = 1 << 62
_BLOCKS_BYTES = 64 << 20  # limit: of memory for blocks of entries
_BLOCK_MIN = 50 * ENTRY_SIZE
_BLOCK_MAX = 2_000 * ENTRY_SIZE


class Entry(NamedTuple):
    """One entry of a queue."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_filler(self) -> bool:
        """Whether it only stands for an entry that was lost."""
        return self.physical_offset == 0 and self.size == FILLER_SIZE

    @property
    def end(self) -> int:
        """Where its record ends."""
        return self.physical_offset + self.size


class InspectedQueue:
    """One queue's files. `published` is where a running store's published entries end, None if it is stopped."""

    def __init__(self, store: Path, directory: QueueDirectory, block_size: int, published: int | None) -> None:
        self.topic = directory.topic
        self.queue_id = directory.queue_id
        self._files = list_files(directory.path)
        self._file_size = self._files[0].size if self._files else 0
        self.entries = QueueEntries(self._files, block_size)
        if published is None:
            self.entries.find_end()
        else:
            self.entries.end = max(published, self.first)
        self.units = open_units(store, directory)
        self.missing: list[int] = []
        """Physical offset of the first record without an entry, and one more for each further one."""

    @property
    def where(self) -> str:
        """How it is called in findings."""
        return f"{self.topic} queue {self.queue_id}"

    def check_files(self) -> Iterator[Finding]:
        """Lengths, gaps, and entries beyond the first empty one."""
        expected = self._files[0].start if self._files else 0
        for file in self._files:
            if file.size != self._file_size or self._file_size % ENTRY_SIZE or not self._file_size:
                what = f"file {file.name} is {file.size} bytes long, not {self._file_size}, or not a multiple of the entry size"
                yield Finding(_PART, self.where, what)
            if file.start != expected:
                yield Finding(_PART, self.where, f"file {file.name} does not follow the one before it")
            expected = file.start + self._file_size

    def check_end(self) -> Iterator[Finding]:
        """That nothing stands after the queue's end. Only of a stopped store: a running one writes there."""
        position = (self.end + 1) * ENTRY_SIZE
        if all(is_zero(file, max(0, position - file.start)) for file in self._files):
            return
        for number in range(self.end + 1, self.entries.capacity_end):
            self.entries.read(number)
            if self.entries.size > 0:
                what = f"entry {self.end} is empty, but there are entries after it, such as {number}"
                yield Finding(_PART, self.where, what)
                return

    @property
    def first(self) -> int:
        """The queue offset of the first entry."""
        return self.entries.first

    @property
    def end(self) -> int:
        """The queue offset after the last entry."""
        return self.entries.end

    def entry(self, queue_offset: int) -> Entry | None:
        """The entry at a queue offset; None before the first, from `end` on, and if a running store has deleted its file meanwhile."""
        entries = self.entries
        if not entries.read(queue_offset):
            return None
        return Entry(entries.physical_offset, entries.size, entries.tags_code)

    def all(self) -> Iterator[tuple[int, Entry]]:
        """All entries with their queue offsets."""
        for number in range(self.first, self.end):
            entry = self.entry(number)
            if entry is not None:
                yield number, entry

    def first_real(self) -> Entry | None:
        """The first entry that is no filler."""
        return next((entry for _, entry in self.all() if not entry.is_filler), None)

    def last_real(self) -> Entry | None:
        """The last entry that is no filler."""
        entry = self.entry(self.end - 1)
        return None if entry is None or entry.is_filler else entry


class QueueCheck:
    """All queues. `see` each record in the order of the log, or let an Agreement walk over it, then `finish`."""

    def __init__(self, store: Path, log: InspectedLog, table: QueueTable | None, reput_offset: int | None) -> None:
        """`table` and `reput_offset` are those of a running store."""
        self._log = log
        self._is_running = table is not None
        published = (
            {} if table is None else {(topic, queue_id): most for _, topic, queue_id, _, most, _ in table.rows()}
        )
        directories = list(list_queues(store / "consumequeue"))
        block_size = max(_BLOCK_MIN, min(_BLOCK_MAX, _BLOCKS_BYTES // max(len(directories), 1)))
        self._queues = {}
        for directory in directories:
            key = directory.topic, directory.queue_id
            most = published.get((key[0].encode(errors="surrogateescape"), key[1]), 0) if self._is_running else None
            self._queues[key] = InspectedQueue(store, directory, block_size, most)
        self._topics = _read_topics(store / "config" / "topics.json")
        self._store = store
        self._unreadable = ""
        self._deleted = self._deleted_before = self._read_deleted()
        self._dispatched = self._find_dispatched(store) if reput_offset is None else reput_offset
        self._without_queue: dict[tuple[str, int], list[int]] = {}

    def entries(self) -> dict[tuple[str, int], QueueEntries]:
        """The entries of all queues, by topic and queue id."""
        return {key: queue.entries for key, queue in self._queues.items()}

    def check_files(self) -> Iterator[Finding]:
        """What can be seen without the log."""
        if self._unreadable:
            yield Finding(_PART, "deleted topics", self._unreadable)
        for queue in self._queues.values():
            yield from queue.check_files()
            if not self._is_running:
                yield from queue.check_end()

    def see(self, record: MessageExt) -> Iterator[Finding]:
        """One record of the log: are its entries there?"""
        if not sys_flags.is_queued(record.sys_flag) or record.sys_flag & sys_flags.INNER_BATCH:
            return
        yield from self._see_in(record.topic, record.queue_id, record.queue_offset, record, is_main=True)
        for topic, queue_id, queue_offset in further_queues(record):
            yield from self._see_in(topic, queue_id, queue_offset, record, is_main=False)

    def finish(self) -> Iterator[Finding | Progress]:
        """What was missing, and every entry to which the log did not come."""
        self._deleted = self._read_deleted()  # topics of a running store may have been deleted meanwhile
        for (topic, queue_id), lost in self._without_queue.items():
            yield from self._missing(topic, queue_id, lost)
        done = 0
        total = sum((queue.end - queue.first) * ENTRY_SIZE for queue in self._queues.values())
        for queue in self._queues.values():
            yield from self._missing(queue.topic, queue.queue_id, queue.missing)
            yield from self._check_unmatched(queue)
            done += (queue.end - queue.first) * ENTRY_SIZE
            yield Progress(_PART, done, total)

    def _read_deleted(self) -> dict[str, int]:
        try:
            deleted = read_deleted_topics(StorePaths(self._store))
        except DeletedTopicsUnreadable as error:
            self._unreadable = str(error)
            return {}
        return {os.fsdecode(topic): offset for topic, offset in deleted.items()}

    def _was_deleted_meanwhile(self, topic: str) -> bool:
        """Whether the queues of a running store's topic were deleted since we began, and may have been made again: their files are not those that we listed."""
        return self._is_running and self._read_deleted().get(topic, 0) > self._deleted_before.get(topic, 0)

    def _missing(self, topic: str, queue_id: int, offsets: list[int]) -> Iterator[Finding]:
        lost = [
            offset for offset in offsets if offset >= self._deleted.get(topic, 0) and not self._log.has_vanished(offset)
        ]
        if lost:
            what = f"{len(lost)} dispatched records have no entry, the first is at {lost[0]}"
            yield Finding(_PART, f"{topic} queue {queue_id}", what, lost[0], len(lost))

    def _find_dispatched(self, store: Path) -> int:
        """How far a stopped store was dispatched: to its end, or after a crash at least to the last record with an entry."""
        if not (store / "abort").exists():
            return _EVERYTHING
        lasts = [queue.last_real() for queue in self._queues.values()]
        return max((entry.end for entry in lasts if entry is not None), default=0)

    def _see_in(
        self, topic: str, queue_id: int, queue_offset: int, record: MessageExt, is_main: bool
    ) -> Iterator[Finding]:
        offset = record.physical_offset
        queue = self._queues.get((topic, queue_id))
        is_due = offset >= self._deleted.get(topic, 0) and offset + record.size_bytes <= self._dispatched
        if queue is None:
            if is_due and topic in self._topics:
                self._without_queue.setdefault((topic, queue_id), []).append(offset)
            return
        entry = queue.entry(queue_offset)
        if entry is None:
            if is_due and not self._is_of_former_life(queue, offset):
                queue.missing.append(offset)
        elif entry.physical_offset == offset:
            queue.entries.matched += 1
            yield from _compare(queue, queue_offset, entry, record, is_main)
        elif (
            entry.physical_offset < offset and not entry.is_filler and is_due and not self._was_deleted_meanwhile(topic)
        ):
            what = f"entry {queue_offset} points to {entry.physical_offset}, but the record with that queue offset is at {offset}"
            yield Finding(_PART, queue.where, what, offset)

    def _is_of_former_life(self, queue: InspectedQueue, physical_offset: int) -> bool:
        """Whether the record is older than the queue: its topic was deleted since, and created again or not.

        RocketMQ does not record that. But such a queue begins at offset 0; if it begins later, its oldest file is missing, or
        was deleted together with the records it led to.
        """
        first = queue.first_real()
        if first is None:
            return queue.topic not in self._topics
        return queue.first == 0 and first.physical_offset > physical_offset

    def _check_unmatched(self, queue: InspectedQueue) -> Iterator[Finding]:
        if queue.entries.count_kept(self._log.min_offset) == queue.entries.matched:
            return
        before = -1
        for number, entry in queue.all():
            if entry.is_filler or self._log.is_gone(entry.physical_offset):
                continue
            wrong = [f"a lower offset than {before}"] if entry.physical_offset <= before else []
            before = entry.physical_offset
            if what := self._judge(queue, number, entry):
                wrong.append(f"{entry.physical_offset}, {what}")
            if wrong and self._was_deleted_meanwhile(queue.topic):
                return
            for where in wrong:
                yield Finding(_PART, queue.where, f"entry {number} points to {where}", entry.physical_offset)

    def _judge(self, queue: InspectedQueue, number: int, entry: Entry) -> str:
        """What is wrong with where an entry leads; nothing if it leads to a record of its queue."""
        if entry.physical_offset >= self._log.end:
            return f"beyond the log's end at {self._log.end}"
        record = self._log.record_at(entry.physical_offset, entry.size)
        if record is None and self._log.has_vanished(entry.physical_offset):
            return ""
        if record is None:
            return f"where no record of {entry.size} bytes begins"
        places = [(record.topic, record.queue_id, record.queue_offset), *further_queues(record)]
        if (queue.topic, queue.queue_id, number) in places:
            return ""
        return f"a record of {record.topic} queue {record.queue_id} offset {record.queue_offset}"


def check_batches(store: Path, log: InspectedLog) -> Iterator[Finding]:
    """The queues of batches of RocketMQ 5: each entry leads to its record, and continues where the one before ends."""
    for queue in list_queues(store / "batchconsumequeue"):
        where = f"{queue.topic} queue {queue.queue_id} (batches)"
        expected = -1
        for file in list_files(queue.path):
            view = file.map() or b""
            for at in range(0, len(view) - BATCH_ENTRY_SIZE + 1, BATCH_ENTRY_SIZE):
                offset, size, _, stored, base, count, _, _ = BATCH_ENTRY.unpack_from(view, at)
                if size <= 0:
                    break
                if expected not in (-1, base):
                    yield Finding(_PART, where, f"an entry begins with offset {base}, expected {expected}", offset)
                expected = base + count
                if log.is_gone(offset):
                    continue
                record = log.record_at(offset, size)
                if record is None and log.has_vanished(offset):
                    continue
                if record is None or (record.topic, record.queue_id, record.store_timestamp) != (
                    queue.topic,
                    queue.queue_id,
                    stored,
                ):
                    yield Finding(
                        _PART, where, f"entry {base} points to {offset}, where there is no such record", offset
                    )


def further_queues(record: MessageExt) -> list[tuple[str, int, int]]:
    """(topic, queue id, queue offset) of the other queues that a record names (multi-dispatch)."""
    queues = record.properties.get(property_names.INNER_MULTI_DISPATCH, "").split(",")
    offsets = record.properties.get(property_names.INNER_MULTI_QUEUE_OFFSET, "").split(",")
    return [
        (topic, 0 if topic.startswith(names.LMQ_PREFIX) else record.queue_id, int(offset))
        for topic, offset in zip(queues, offsets, strict=False)
        if topic and offset.isdecimal()
    ]


def _compare(queue: InspectedQueue, number: int, entry: Entry, record: MessageExt, is_main: bool) -> Iterator[Finding]:
    """An entry with the record to which it leads."""
    if entry.size != record.size_bytes:
        what = (
            f"entry {number} has size {entry.size}, its record at {record.physical_offset} has size {record.size_bytes}"
        )
        yield Finding(_PART, queue.where, what, record.physical_offset)
    code = entry.tags_code
    if is_ext_address(code) and is_main:
        unit = queue.units.read(code) if queue.units is not None else None
        if unit is None:
            yield Finding(_PART, queue.where, f"entry {number}: its extended unit is missing", record.physical_offset)
            return
        code = unit.tags_code
        if unit.store_timestamp != record.store_timestamp:
            what = f"entry {number}: its extended unit has a different store timestamp from the record"
            yield Finding(_PART, queue.where, what, record.physical_offset)
    is_right = code == tags_code(record.properties.get(property_names.TAGS))
    if record.topic == names.SCHEDULE_TOPIC and property_names.DELAY in record.properties:
        is_right = code > record.store_timestamp  # the time of delivery
    if not is_right:
        what = f"entry {number}: tags code {code} does not match its record at {record.physical_offset}"
        yield Finding(_PART, queue.where, what, record.physical_offset)


def _read_topics(path: Path) -> set[str]:
    try:
        return set(fastjson.loads(path.read_bytes())["topicConfigTable"])
    except (OSError, HeadraceError, KeyError, TypeError):
        return set()
