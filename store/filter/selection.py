"""Chooses, among the ConsumeQueue entries of a pull, those whose messages a filter lets pass.

What is chosen is a list of entries again, and goes to the gatherer as if it were all that there is: so the hot code of pulls knows
nothing of filters. The limits of a pull (store spec, 3.5) are counted here, because what a filter leaves out does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass

from store.commit_log.record_check import check_record
from store.consume_queue.ext_reader import ExtUnit
from store.consume_queue.layout import ENTRY, ENTRY_SIZE, is_ext_address
from store.filter.message_filter import MessageFilter

ReadUnit = Callable[[int], ExtUnit | None]
"""The unit at an address of the queue's extension."""


@dataclass(frozen=True, slots=True)
class PullLimits:
    """How much a pull may carry: of records from `in_memory_from` on, and of those before."""

    max_count: int
    in_memory_from: int
    memory_bytes: int
    memory_count: int
    disk_bytes: int
    disk_count: int


class Selector:
    """Selects for one pull after the other. `view_around(offset)` maps the CommitLog file around an offset; None: it is gone."""

    def __init__(self, view_around: Callable[[int], memoryview | None], file_size: int) -> None:
        self._view_around = view_around
        self._file_size = file_size

    def select(
        self,
        entries: memoryview,
        message_filter: MessageFilter,
        read_unit: ReadUnit,
        limits: PullLimits,
        wrote_offset: int,
    ) -> tuple[bytes, int]:
        """(the entries to gather, how many were looked at). An entry whose record is gone is among them: the gatherer says so."""
        selected = bytearray()
        reads_units = message_filter.reads_units
        file_size = self._file_size
        view: memoryview | None = None
        file_start = -1
        next_file = taken_bytes = count = at = 0
        for at in range(0, len(entries), ENTRY_SIZE):
            physical_offset, size, code = ENTRY.unpack_from(entries, at)
            if physical_offset < next_file:
                continue
            if count and _is_full(limits, count, taken_bytes, size, physical_offset):
                break
            if reads_units and not message_filter.match_entry(code, read_unit(code) if is_ext_address(code) else None):
                continue
            position = physical_offset % file_size
            if physical_offset - position != file_start:
                file_start = physical_offset - position
                view = self._view_around(physical_offset)
            limit = min(file_size, wrote_offset - file_start)
            if view is None or check_record(view, position, limit, physical_offset, False) != size:
                next_file = file_start + file_size
            elif message_filter.match_record(view, position):
                count += 1
                taken_bytes += size
            else:
                continue
            selected += entries[at : at + ENTRY_SIZE]
        else:
            at += ENTRY_SIZE if len(entries) else 0
        return bytes(selected), at // ENTRY_SIZE


def _is_full(limits: PullLimits, count: int, taken_bytes: int, size: int, physical_offset: int) -> bool:
    """Whether a message more is too much. # compat: an entry that is not wanted may be the one that ends a pull."""
    if count >= limits.max_count:
        return True
    if physical_offset < limits.in_memory_from:
        return taken_bytes + size > limits.disk_bytes or count > limits.disk_count - 1
    return taken_bytes + size > limits.memory_bytes or count > limits.memory_count - 1
