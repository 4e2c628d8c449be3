"""Reads messages of one queue from an offset on, for pulls (store spec, 3.5).

A hot module (types in get.pxd): of each pull the hot path asks `try_gather`, without a Python object for each number it looks at.

Nothing here waits. Records far behind the end of the log may not be in memory, and a page fault on a mapping stalls the whole
process. Callers check for this (`is_cold`) and first call `warm` on a thread, which reads the records into memory without
stalling other requests.
"""

import errno
import os

from msgspec import Struct

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from store.query.gather import Gatherer
from store.query.sources import PullSources, TransferLimits
from store.status import GetMessageStatus

_ENTRIES_BYTES = 16_000  # minimum of entries examined for one pull, as in RocketMQ
_WARM_WINDOW = 256 << 20  # limit: records nearer to the end of the log are assumed to be in memory
_GAP = 64 << 10  # limit: bytes of other queues between two records of a pull that are read as well


class GetResult(Struct):
    """The messages found, and where the next pull begins. `body` has the records as they are stored."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    count: int = 0
    suggest_slave: bool = False


class MessageGetter:
    """Reads messages for pulls. Not thread-safe, except `warm`."""

    def __init__(self, sources: PullSources, limits: TransferLimits | None = None) -> None:
        """`limits` of a pull: those of the options unless given."""
        # Read from `sources` once; the options, which may change, are read for each pull.
        self._sources = sources
        self._limits: TransferLimits = limits or sources.config
        self._queues = sources.queues
        self._log = sources.log
        self._control = sources.control
        self._config = sources.config
        self._entries_per_file = sources.entries_per_file
        self._unreadable = sources.unreadable
        self._one_byte = bytearray(1)
        self.gatherer = Gatherer(self._view_around, sources.log.file_size)

    def _view_around(self, physical_offset: int) -> memoryview | None:
        file = self._log.file_for(physical_offset)
        # A separate slice: the gatherer may still hold it when the file is released.
        return file.view[:] if file is not None and physical_offset >= self._control.min_offset else None

    def get(self, topic: str, queue_id: int, offset: int, max_count: int, codes: set[int] | None) -> GetResult:
        """Up to `max_count` messages from queue offset `offset` on whose tags' hash is in `codes` (None: all)."""
        least, most = self._queues.bounds(topic, queue_id)
        if most == 0:
            return self._nothing(GetMessageStatus.NO_MESSAGE_IN_QUEUE, offset, 0, least, most)
        if offset < least:
            return self._nothing(GetMessageStatus.OFFSET_TOO_SMALL, offset, least, least, most)
        if offset == most:
            return self._nothing(GetMessageStatus.OFFSET_OVERFLOW_ONE, offset, offset, least, most)
        if offset > most:
            return self._nothing(GetMessageStatus.OFFSET_OVERFLOW_BADLY, offset, most, least, most)
        entries = self._queues.entries(topic, queue_id, offset)
        if entries is None or len(entries) < ENTRY_SIZE:
            following = offset - offset % self._entries_per_file + self._entries_per_file
            return self._nothing(GetMessageStatus.OFFSET_FOUND_NULL, offset, following, least, most)
        is_far_behind = self._gather(
            topic, queue_id, offset, entries, 0, len(entries), max_count, codes, self._control.wrote_offset
        )
        gatherer = self.gatherer
        if gatherer.count:
            status = GetMessageStatus.FOUND
        elif gatherer.removing:
            status = GetMessageStatus.MESSAGE_WAS_REMOVING
        else:
            status = GetMessageStatus.NO_MATCHED_MESSAGE
        return GetResult(
            status,
            offset + gatherer.examined,
            least,
            most,
            gatherer.body() if gatherer.count else b"",
            gatherer.count,
            is_far_behind,
        )

    def try_gather(
        self, topic: str, queue_id: int, offset: int, max_count: int, codes: set[int] | None
    ) -> tuple[int, int, int, bool] | None:
        """`get` for the hot path: the messages stay in `gatherer`.

        (next offset, lowest, one after the highest, whether to suggest a slave); None if there are no messages,
        or they may have to be read from disk.
        """
        found = self._queues.published(topic, queue_id, offset)
        wrote_offset = self._control.wrote_offset
        if found is None or self._may_fault(found.physical_offset, wrote_offset):
            return None
        gatherer = self.gatherer
        is_far_behind = self._gather(
            topic, queue_id, offset, found.view, found.begin, found.end, max_count, codes, wrote_offset
        )
        if not gatherer.count:
            return None
        return offset + gatherer.examined, found.least, found.most, is_far_behind

    def _gather(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        view: memoryview,
        begin: int,
        end: int,
        max_count: int,
        codes: set[int] | None,
        wrote_offset: int,
    ) -> bool:
        """Gathers from the entries in these bytes. Returns whether the last examined one is far behind the end of the log."""
        limits = self._limits
        in_memory_from = wrote_offset - self._sources.in_memory_bytes
        gatherer = self.gatherer
        gatherer.gather(
            view,
            begin,
            min(end, begin + max(_ENTRIES_BYTES, max_count * ENTRY_SIZE)),
            codes,
            max_count,
            wrote_offset,
            in_memory_from,
            limits.max_transfer_bytes_on_message_in_memory,
            limits.max_transfer_count_on_message_in_memory,
            limits.max_transfer_bytes_on_message_in_disk,
            limits.max_transfer_count_on_message_in_disk,
        )
        for number, physical_offset in gatherer.unreadable:
            self._unreadable.met(topic, queue_id, offset + number, physical_offset)
        return gatherer.last_physical_offset < in_memory_from

    def release_deleted(self) -> None:
        """Releases the file that was read last."""
        self.gatherer.release()

    def _nothing(self, status: GetMessageStatus, offset: int, corrected: int, least: int, most: int) -> GetResult:
        if not self._config.corrects_offsets:
            corrected = offset
        return GetResult(status, corrected, least, most)

    def physical_offset_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Where the message of this queue offset is in the log; -1 if there is no such entry."""
        least, most = self._queues.bounds(topic, queue_id)
        if not least <= queue_offset < most:
            return -1
        entries = self._queues.entries(topic, queue_id, queue_offset)
        return -1 if entries is None or len(entries) < ENTRY_SIZE else ENTRY.unpack_from(entries)[0]

    def is_far_behind(self, physical_offset: int) -> bool:
        """Whether a message counts as no longer in memory, by RocketMQ's rule (store spec, 3.5)."""
        return self._control.wrote_offset - physical_offset > self._sources.in_memory_bytes

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether the next messages may have to be read from disk: `warm` them first.

        Asks the kernel whether the page of the first one is in memory, without waiting for the disk.
        """
        return self._may_fault(self.physical_offset_at(topic, queue_id, offset), self._control.wrote_offset)

    def _may_fault(self, physical_offset: int, wrote_offset: int) -> bool:
        if not 0 <= physical_offset < wrote_offset - _WARM_WINDOW:
            return False
        file = self._log.file_for(physical_offset)
        if file is None:
            return False
        try:
            os.preadv(file.fd, (self._one_byte,), physical_offset - file.start_offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # not supported by the file system: assume that it is cold
                raise
            return True
        return False

    def plan_warming(
        self, topic: str, queue_id: int, offset: int, max_count: int, most_bytes: int | None = None
    ) -> list[tuple[int, int, int]]:
        """What `warm` must read: separate descriptors (`warm` closes them), positions, lengths. Adjacent ranges are merged.

        `most_bytes`: by default the maximum of a pull from recent messages.
        """
        entries = self._queues.entries(topic, queue_id, offset)
        limit = self._limits.max_transfer_bytes_on_message_in_memory if most_bytes is None else most_bytes
        ranges: list[list[int]] = []
        total = 0
        for at in range(0, min(len(entries or b""), max_count * ENTRY_SIZE), ENTRY_SIZE):
            physical_offset, size, _ = ENTRY.unpack_from(entries or b"", at)
            if physical_offset < 0 or not 0 < size <= self._log.file_size:
                continue  # a filler, or damaged: there is nothing to read
            total += size
            if ranges and total > limit:
                break
            file_end = physical_offset - physical_offset % self._log.file_size + self._log.file_size
            if ranges and 0 <= physical_offset - ranges[-1][1] <= _GAP and physical_offset + size <= ranges[-1][2]:
                ranges[-1][1] = physical_offset + size
            else:
                ranges.append([physical_offset, physical_offset + size, file_end])
        plan = []
        for start, end, _ in ranges:
            file = self._log.file_for(start)
            if file is not None:
                plan.append((os.dup(file.fd), start - file.start_offset, end - start))
        return plan


def warm(plan: list[tuple[int, int, int]]) -> None:
    """Reads parts of files into memory. Called on a thread: the interpreter lock is free while the kernel reads."""
    for fd, position, length in plan:
        try:
            os.pread(fd, length, position)
        finally:
            os.close(fd)
