"""Reads the messages of a queue that pass a filter: `MessageGetter.get` for pulls that select by more than tags.

The getter receives the selected entries instead of the queue's; the start of the next pull is corrected here.
At most about eight hundred entries are examined for one pull, as in RocketMQ, wanted or not.
"""

import os
from pathlib import Path

from msgspec.structs import replace

from headrace.protocol.consume_queue_layout import (
    ENTRY,
    ENTRY_SIZE,
    EXT_ADDRESS_BASE,
    EXT_UNIT_HEAD,
    EXT_UNIT_HEAD_SIZE,
)
from store.consume_queue.ext_reader import ExtUnit
from store.filter.entry_selector import EntrySelector
from store.filter.message_filter import MessageFilter
from store.filter.pull_limits import PullLimits
from store.paths import StorePaths, file_name
from store.query.get import GetResult, MessageGetter
from store.query.sources import PullSources, QueueEntries
from store.status import GetMessageStatus

_ENTRIES_BYTES = 16_000  # minimum of entries examined for one pull, as in RocketMQ
_WARM_BYTES = 8 << 20  # limit: 800 records of 10 KiB; with larger records, later ones may have to be read from disk
_UNIT_READ = EXT_UNIT_HEAD_SIZE + 512  # limit: a bitmap for a few thousand groups; a longer one is ignored


class FilteredGetter:
    """Gets filtered messages for pulls. Not for several threads."""

    def __init__(self, sources: PullSources, paths: StorePaths) -> None:
        """`paths`: for the units of extended queues."""
        self._queues = sources.queues
        self._log = sources.log
        self._control = sources.control
        self._config = sources.config
        self._units = paths.root / "consumequeue_ext"
        self._sources = sources
        self._unreadable = sources.unreadable
        self._chosen = _ChosenEntries(sources.queues)
        self._getter = MessageGetter(replace(sources, queues=self._chosen))
        self._selector = EntrySelector(self._view_around, sources.log.file_size)
        self._warming = MessageGetter(sources)

    def get(self, topic: str, queue_id: int, offset: int, max_count: int, message_filter: MessageFilter) -> GetResult:
        """Up to `max_count` messages from queue offset `offset` on that the filter selects."""
        entries = self._queues.entries(topic, queue_id, offset)
        if entries is None or len(entries) < ENTRY_SIZE:
            self._chosen.entries_chosen = None
            return self._getter.get(topic, queue_id, offset, max_count, None)
        least, most = self._queues.bounds(topic, queue_id)
        entries = entries[: max(_ENTRIES_BYTES, max_count * ENTRY_SIZE)]
        units = _Units(self._units / topic / str(queue_id), self._config.mapped_file_size_consume_queue_ext)
        try:
            chosen, examined = self._selector.select(
                entries, message_filter, units.read, self._limits(max_count), self._control.wrote_offset
            )
        finally:
            units.close()
        for number, physical_offset in self._selector.unreadable:
            self._unreadable.met(topic, queue_id, offset + number, physical_offset)
        next_begin = offset + examined
        if not chosen:
            last_physical_offset: int = ENTRY.unpack_from(entries, (examined - 1) * ENTRY_SIZE)[0]
            is_far_behind = self._control.wrote_offset - last_physical_offset > self._sources.in_memory_bytes
            return GetResult(GetMessageStatus.NO_MATCHED_MESSAGE, next_begin, least, most, suggest_slave=is_far_behind)
        self._chosen.entries_chosen = memoryview(chosen)
        result = self._getter.get(topic, queue_id, offset, max_count, None)
        if result.status in {GetMessageStatus.FOUND, GetMessageStatus.MESSAGE_WAS_REMOVING}:
            result.next_begin_offset = next_begin
        return result

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether the next messages may have to be read from disk: `warm` them first."""
        return self._warming.is_cold(topic, queue_id, offset)

    def plan_warming(self, topic: str, queue_id: int, offset: int) -> list[tuple[int, int, int]]:
        """What `warm` must read before `get`, which may examine all these records and select none."""
        return self._warming.plan_warming(topic, queue_id, offset, _ENTRIES_BYTES // ENTRY_SIZE, _WARM_BYTES)

    def release_deleted(self) -> None:
        """Releases the file that was read last."""
        self._getter.release_deleted()

    def _limits(self, max_count: int) -> PullLimits:
        config = self._config
        return PullLimits(
            max_count,
            self._control.wrote_offset - self._sources.in_memory_bytes,
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        )

    def _view_around(self, physical_offset: int) -> memoryview | None:
        file = self._log.file_for(physical_offset)
        return file.view if file is not None and physical_offset >= self._control.min_offset else None


class _ChosenEntries:
    """A queue that contains only the selected entries from an offset on."""

    def __init__(self, queues: QueueEntries) -> None:
        self._queues = queues
        self.entries_chosen: memoryview | None = None

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Those of the queue."""
        return self._queues.bounds(topic, queue_id)

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:  # noqa: ARG002
        """The chosen ones."""
        return self.entries_chosen

    def published(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """The chosen entries are in no file."""


class _Units:
    """The units of one queue, for one pull: the file that was read last stays open until `close`."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self._directory = directory
        self._file_size = file_size
        self._fd = -1
        self._start = -1

    def read(self, address: int) -> ExtUnit | None:
        """The unit at an address; None if it does not exist."""
        position = address - EXT_ADDRESS_BASE
        start = position - position % self._file_size
        if start != self._start:
            self.close()
            try:
                self._fd = os.open(self._directory / file_name(start), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            self._start = start
        data = os.pread(self._fd, _UNIT_READ, position - start)
        if len(data) < EXT_UNIT_HEAD_SIZE:
            return None
        size, tags_code, store_timestamp, bit_map_size = EXT_UNIT_HEAD.unpack_from(data)
        if size < EXT_UNIT_HEAD_SIZE or not 0 <= bit_map_size <= min(size, len(data)) - EXT_UNIT_HEAD_SIZE:
            return None
        bit_map = data[EXT_UNIT_HEAD_SIZE : EXT_UNIT_HEAD_SIZE + bit_map_size]
        return ExtUnit(size, tags_code, store_timestamp, bit_map)

    def close(self) -> None:
        """Closes what is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._start = -1
