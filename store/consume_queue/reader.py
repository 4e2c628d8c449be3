"""Reads ConsumeQueues up to their published rows.

Entries are views of a mapping, without a copy. A file may be deleted, or a whole queue deleted and recreated, while it is
mapped here; the queue table's `changes` is then incremented, and the mapping is checked again.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from ipc.queue_table import QueueTable
from store.config import StoreConfig
from store.consume_queue.published_file import PublishedFile
from store.mapped_file import MappedFile
from store.paths import StorePaths, file_name

_MAPPINGS_MAX = 16_384  # limit: a process may have 65,530 mappings, and the CommitLog needs some
_RELEASED_A_STEP = 2048  # limit: some milliseconds
_FILES_LEFT = 1024  # limit: descriptors left for connections if few are allowed
_PUBLISHED_MAX = 1024  # limit: files that are found at once; each may keep a mapping that is in no other list

Place = tuple[bytes, int, int]
"""(topic, queue_id, byte at which a file of the queue begins)"""


class _Mapping:
    """A mapped file, and the last change of the queue table at which it was the one on disk."""

    __slots__ = ("changes", "file", "inode")

    def __init__(self, file: MappedFile, changes: int) -> None:
        self.file = file
        self.changes = changes
        self.inode = os.fstat(file.fd).st_ino


class ConsumeQueueReader:
    """The published entries of all queues. One for each process; not for several threads."""

    def __init__(self, paths: StorePaths, config: StoreConfig, queue_table: QueueTable, max_open: int = 0) -> None:
        """`max_open` bounds the mappings kept; 0: a quarter of the files this process may have."""
        self._paths = paths
        self._folder = os.fspath(paths.consume_queue)
        self._file_size = config.consume_queue_file_size
        self.entries_per_file = self._file_size // ENTRY_SIZE
        self._table = queue_table
        self._max_open = max_open or min(_MAPPINGS_MAX, max(64, (os.sysconf("SC_OPEN_MAX") - _FILES_LEFT) // 4))
        self._mapped: OrderedDict[Place, _Mapping] = OrderedDict()
        self._published: dict[tuple[str, int], PublishedFile] = {}

    @property
    def changes(self) -> int:
        """Another number after a queue was added or removed."""
        return self._table.changes

    def bounds(self, topic: bytes | str, queue_id: int) -> tuple[int, int]:
        """(min, max) queue offset: the first that can be read, and the one after the last. (0, 0) for an unknown queue."""
        row = self._table.find(_as_bytes(topic), queue_id)
        if row < 0:
            return 0, 0
        min_offset, max_offset, _ = self._table.bounds(row)
        return min_offset, max_offset

    def entries(self, topic: bytes | str, queue_id: int, queue_offset: int) -> memoryview | None:
        """The published entries from this queue offset to the end of its file; None if there are none there."""
        min_offset, max_offset = self.bounds(topic, queue_id)
        if not min_offset <= queue_offset < max_offset:
            return None
        position = queue_offset * ENTRY_SIZE
        start = position - position % self._file_size
        mapping = self._find_mapping((_as_bytes(topic), queue_id, start))
        if mapping is None:
            return None
        return mapping.file.view[position - start : min(max_offset * ENTRY_SIZE - start, self._file_size)]

    def published(self, topic: str, queue_id: int, queue_offset: int) -> PublishedFile | None:
        """Where `entries` are, with the queue's bounds at that moment; None if there are none, or they are just being published.

        The result changes with the next call.
        """
        published = self._published.get((topic, queue_id))
        if published is not None and published.find(queue_offset):
            return published
        # order: before the row and the file are found, so that neither is used after the next change
        changes = self._table.changes
        name = topic.encode()
        row = self._table.find(name, queue_id)
        # Most pulls that come here have an offset without an entry yet: no file is looked for.
        if row < 0 or not self._table.row_reader.has(row, queue_offset):
            return None
        position = queue_offset * ENTRY_SIZE
        start = position - position % self._file_size
        mapping = self._find_mapping((name, queue_id, start))
        if mapping is None:
            return None
        if len(self._published) >= _PUBLISHED_MAX:
            self._published.clear()
        # A separate slice, which outlives the mapping's release.
        published = PublishedFile(self._table.row_reader, row, changes, mapping.file.view[:], start // ENTRY_SIZE)
        self._published[topic, queue_id] = published
        return published if published.find(queue_offset) else None

    def entry(self, topic: bytes | str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of one entry; None if it is not published or deleted."""
        data = self.entries(topic, queue_id, queue_offset)
        if data is None:
            return None
        physical_offset, size, tags_code = ENTRY.unpack_from(data)
        return physical_offset, size, tags_code

    def peek(self, topic: bytes | str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """As `entry`, but a file that is not mapped is only read: for requests that need one entry of each of many thousand queues."""
        name = _as_bytes(topic)
        position = queue_offset * ENTRY_SIZE
        start = position - position % self._file_size
        if (name, queue_id, start) in self._mapped:
            return self.entry(name, queue_id, queue_offset)
        min_offset, max_offset = self.bounds(name, queue_id)
        if not min_offset <= queue_offset < max_offset:
            return None
        # As a text: a Path takes as long as opening the file.
        path = f"{self._folder}/{os.fsdecode(name)}/{queue_id}/{file_name(start)}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # deleted since
            return None
        try:
            data = os.pread(fd, ENTRY_SIZE, position - start)
        finally:
            os.close(fd)
        if len(data) < ENTRY_SIZE:
            return None
        physical_offset, size, tags_code = ENTRY.unpack(data)
        return physical_offset, size, tags_code

    def release_deleted(self) -> Iterator[None]:
        """Releases files of deleted entries and deleted queues; a step handles several thousand."""
        self._published.clear()
        for number, place in enumerate(list(self._mapped), 1):
            mapping = self._mapped.get(place)
            if mapping is not None and self._is_deleted(place, mapping):
                self._mapped.pop(place).file.close()
            if number % _RELEASED_A_STEP == 0:
                yield

    def close(self) -> None:
        """Releases all mappings."""
        self._published.clear()
        for mapping in self._mapped.values():
            mapping.file.close()
        self._mapped.clear()

    def _find_mapping(self, place: Place) -> _Mapping | None:
        changes = self._table.changes
        mapping = self._mapped.get(place)
        if mapping is not None:
            if mapping.changes == changes or self._is_on_disk(mapping):
                mapping.changes = changes
                self._mapped.move_to_end(place)
                return mapping
            self._mapped.pop(place).file.close()
        topic, queue_id, start = place
        path = self._paths.queue(os.fsdecode(topic), queue_id) / file_name(start)
        try:
            file = MappedFile(path, start, self._file_size, writable=False, size_option="mappedFileSizeConsumeQueue")
        except FileNotFoundError:
            return None
        mapping = self._mapped[place] = _Mapping(file, changes)
        while len(self._mapped) > self._max_open:
            _, oldest = self._mapped.popitem(last=False)
            oldest.file.close()
        return mapping

    def _is_deleted(self, place: Place, mapping: _Mapping) -> bool:
        topic, queue_id, start = place
        row = self._table.find(topic, queue_id)
        # order: dispatch changes or frees the row before it deletes a file, which may still exist now.
        if row < 0 or start + self._file_size <= self._table.bounds(row)[0] * ENTRY_SIZE:
            return True
        changes = self._table.changes
        if mapping.changes == changes:
            return False
        mapping.changes = changes
        return not self._is_on_disk(mapping)

    @staticmethod
    def _is_on_disk(mapping: _Mapping) -> bool:
        """Whether the path still refers to the mapped file. While it is mapped, no other file can have its inode."""
        try:
            return os.stat(mapping.file.path).st_ino == mapping.inode
        except FileNotFoundError:
            return False


def _as_bytes(topic: bytes | str) -> bytes:
    return topic if isinstance(topic, bytes) else topic.encode()
