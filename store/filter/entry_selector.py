# cython: wraparound=False, cdivision=True
"""Chooses, among the ConsumeQueue entries of a pull, those whose messages a filter lets pass.

What is chosen is a list of entries again, and goes to the gatherer as if it were all that there is: so the hot code of pulls knows
nothing of filters. The limits of a pull (store spec, 3.5) are counted here, because what a filter leaves out does not count.

Compiled where there is a compiler (types in the `.pxd`), and then an expression is evaluated without a call through Python.
"""

from collections.abc import Callable

import cython

from headrace.protocol.consume_queue_layout import EXT_ADDRESS_MAX
from store.commit_log.record_check import check_record
from store.consume_queue.ext_reader import ExtUnit
from store.filter.message_filter import ExpressionFilter, MessageFilter
from store.filter.program import Program
from store.filter.pull_limits import PullLimits

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32, load_i64
    from headrace.protocol.consume_queue_layout import (
        ENTRY_PHYSICAL_OFFSET_AT,
        ENTRY_RECORD_SIZE_AT,
        ENTRY_SIZE,
        ENTRY_TAGS_CODE_AT,
        FILLER_SIZE,
    )

ReadUnit = Callable[[int], ExtUnit | None]
"""The unit at an address of the queue's extension."""

_ADDRESS_MAX = EXT_ADDRESS_MAX
_TRUE = 1


class EntrySelector:
    """Selects for one pull after the other. `view_around(offset)` maps the CommitLog file around an offset; None: it is gone.

    `unreadable`: (number among the entries, physical offset) of those of the last pull whose records cannot be read, though the file is there.
    """

    def __init__(self, view_around: Callable[[int], memoryview | None], file_size: int) -> None:
        self._view_around = view_around
        self._file_size = file_size
        self.unreadable: list[tuple[int, int]] = []

    def select(
        self,
        entries_view: memoryview,
        message_filter: MessageFilter,
        read_unit: ReadUnit,
        limits: PullLimits,
        wrote_offset: int,
    ) -> tuple[bytes, int]:
        """(the entries to gather, how many were looked at). An entry whose file is gone is among them: the gatherer says so."""
        selected = bytearray()
        reads_units = message_filter.reads_units
        program: Program | None = message_filter.program if isinstance(message_filter, ExpressionFilter) else None
        max_count = limits.max_count
        in_memory_from = limits.in_memory_from
        memory_bytes = limits.memory_bytes
        memory_count = limits.memory_count
        disk_bytes = limits.disk_bytes
        disk_count = limits.disk_count
        entries = address_of(entries_view)
        end = len(entries_view) - len(entries_view) % ENTRY_SIZE
        file_size = self._file_size
        view: memoryview | None = None
        file_start = -1
        next_file = taken_bytes = count = at = 0
        self.unreadable = []
        while at < end:
            physical_offset = load_i64(entries, at + ENTRY_PHYSICAL_OFFSET_AT)
            size = load_i32(entries, at + ENTRY_RECORD_SIZE_AT)
            if 0 <= physical_offset < next_file:
                at += ENTRY_SIZE
                continue
            if count:
                # compat: an entry that is not wanted may be the one that ends a pull.
                is_old = physical_offset < in_memory_from
                if (
                    count >= max_count
                    or taken_bytes + size > (disk_bytes if is_old else memory_bytes)
                    or count >= (disk_count if is_old else memory_count)
                ):
                    break
            code = load_i64(entries, at + ENTRY_TAGS_CODE_AT)
            at += ENTRY_SIZE
            if reads_units and not message_filter.match_entry(code, read_unit(code) if code <= _ADDRESS_MAX else None):
                continue
            if not 0 <= physical_offset < wrote_offset:
                self.unreadable.append((at // ENTRY_SIZE - 1, physical_offset))
                continue
            position = physical_offset % file_size
            if physical_offset - position != file_start:
                file_start = physical_offset - position
                view = self._view_around(physical_offset)
            limit = min(file_size, wrote_offset - file_start)
            if view is None:
                next_file = file_start + file_size
            elif size <= 0 or check_record(view, position, limit, physical_offset, False) != size:
                if physical_offset != 0 or size != FILLER_SIZE:  # a filler never had a record
                    self.unreadable.append((at // ENTRY_SIZE - 1, physical_offset))
                continue
            else:
                if program is None:
                    matches = message_filter.match_record(view, position)
                else:
                    matches = program.outcome_of_record(view, position) == _TRUE
                if not matches:
                    continue
                count += 1
                taken_bytes += size
            selected += entries_view[at - ENTRY_SIZE : at]
        return bytes(selected), at // ENTRY_SIZE
