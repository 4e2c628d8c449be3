"""Checks IndexFiles against themselves and the log: chains and headers, each entry's record, each record's keys.

Not wrong, because RocketMQ does it too: keys of deleted records; a record's keys twice after its recovery; an empty newest file;
the first time of a file counted from the end of the file before.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.model import properties as names
from headrace.model import sys_flag as sys_flags
from headrace.model.java_hash import string_hash
from headrace.model.message import MessageExt
from store.index.layout import ENTRY, HEADER_SIZE, SLOT_SIZE, entry_position, file_size, fold_hash
from store.index.reader import IndexHeader, read_header
from store.inspect.files import StoredFile, list_files
from store.inspect.finding import Finding, Progress
from store.inspect.key_entries import KeyEntries, follow_chains
from store.inspect.log import InspectedLog

_PART = "index"
_EVERYTHING = (1 << 63) - 1
_SLOTS_AT_ONCE = 4096


class _IndexFile(NamedTuple):
    """An IndexFile, mapped, with its header as it was when it was opened."""

    name: str
    view: memoryview
    header: IndexHeader


class _Key(NamedTuple):
    """One entry, to be compared with a record."""

    name: str
    number: int
    key_hash: int
    is_time_right: bool


class IndexCheck:
    """All IndexFiles. `check_files` first, then `see` each record in the order of the log, or let an Agreement walk over it, then `finish`."""

    def __init__(self, store: Path, log: InspectedLog, slots: int, entries: int, is_running: bool) -> None:
        self._log = log
        self._slots = slots
        self._capacity = entries
        self._is_running = is_running
        self._files: list[_IndexFile] = []
        self._strangers: list[StoredFile] = []
        for file in list_files(store / "index"):
            view = file.map() if file.size == file_size(slots, entries) else None
            if view is not None and len(view) == file.size:
                self._files.append(_IndexFile(file.name, view, read_header(view)))
            elif file.path.exists():
                self._strangers.append(file)
            else:
                self._files.clear()  # deleted meanwhile, and those before it, too
        self.first_offset = -1
        self.last_offset = -1
        for one in self._files:
            if one.header.next_number > 1:
                if self.first_offset < 0:
                    self.first_offset = self._entry(one, 1)[1]
                self.last_offset = one.header.end_physical_offset
        # The first entry's seconds count from the end of the file before; without one it is not known from when.
        first_begins = [-1, *(one.header.end_timestamp for one in self._files)]
        self.keys = KeyEntries(
            [
                (one.view, min(one.header.next_number, entries), first_begin, one.header.begin_timestamp)
                for one, first_begin in zip(self._files, first_begins, strict=False)
            ],
            slots,
        )
        """At the first entry to which the log has not come."""
        self._disorder = False

    def check_files(self) -> Iterator[Finding | Progress]:
        """What can be seen without the log."""
        for file in self._strangers:
            wanted = f"{file_size(self._slots, self._capacity)} with maxHashSlotNum={self._slots}, maxIndexNum={self._capacity}"
            yield Finding(_PART, file.name, f"skipped: {file.size} bytes long, not {wanted}")
        total = sum(len(file.view) for file in self._files)
        done = 0
        for checked in self._files:
            yield from self._check_file(checked)
            done += len(checked.view)
            yield Progress(_PART, done, total)

    def see(self, record: MessageExt) -> Iterator[Finding]:
        """One record of the log: are its keys there, and nothing else?"""
        offset = record.physical_offset
        yield from self._skip_before(offset)
        found: list[_Key] = []
        keys = self.keys
        while keys.is_there and keys.physical_offset == offset:
            found.append(_Key(self._name, keys.number, keys.key_hash, keys.is_time_right(record.store_timestamp)))
            keys.go_to(keys.file, keys.number + 1)
        wanted = _hashes_of(record)
        for key in found:
            if key.key_hash not in wanted:
                what = f"entry {key.number} points to the record at {offset}, which does not have this key"
                yield Finding(_PART, key.name, what, offset)
            elif not key.is_time_right:
                what = f"entry {key.number} has a different timestamp from its record at {offset}"
                yield Finding(_PART, key.name, what, offset)
        # The first file may begin, and the last one end, in the middle of a record's keys.
        is_whole = self.first_offset < offset < self.last_offset
        missing = set(wanted) - {key.key_hash for key in found}
        if is_whole and missing and not self._disorder:
            what = f"{len(missing)} keys of the record at {offset} are not indexed"
            yield Finding(_PART, "all files", what, offset, len(missing))

    def finish(self) -> Iterator[Finding]:
        """The entries that lead beyond the log's end."""
        yield from self._skip_before(_EVERYTHING)

    def _check_file(self, file: _IndexFile) -> Iterator[Finding]:
        count = file.header.next_number
        if count > self._capacity:
            yield Finding(_PART, file.name, f"header has {count} entries, but the capacity is {self._capacity}")
            return
        newest = memoryview(bytearray(SLOT_SIZE * self._slots))
        number, used = follow_chains(file.view, self._slots, 1, count, newest)
        while number < count:
            key_hash, _, _, previous = self._entry(file, number)
            if key_hash < 0:
                yield Finding(_PART, file.name, f"entry {number} has an invalid hash: {key_hash}")
            else:
                slot = key_hash % self._slots
                expected = _load_slot(newest, slot)
                used += expected == 0
                what = f"entry {number} follows entry {previous} in its slot's chain instead of {expected}"
                yield Finding(_PART, file.name, what)
                newest[slot * SLOT_SIZE : (slot + 1) * SLOT_SIZE] = number.to_bytes(SLOT_SIZE, "big")
            number, more = follow_chains(file.view, self._slots, number + 1, count, newest)
            used += more
        yield from self._check_slots(file, newest, count)
        if count > 1:
            yield from self._check_header(file, used)

    def _check_slots(self, file: _IndexFile, newest: memoryview, count: int) -> Iterator[Finding]:
        table = file.view[HEADER_SIZE : HEADER_SIZE + SLOT_SIZE * self._slots]
        for first in range(0, self._slots, _SLOTS_AT_ONCE):
            last = min(first + _SLOTS_AT_ONCE, self._slots)
            stored = bytes(table[first * SLOT_SIZE : last * SLOT_SIZE])
            if stored == bytes(newest[first * SLOT_SIZE : last * SLOT_SIZE]):
                continue
            for slot in range(first, last):
                value, expected = _load_slot(stored, slot - first), _load_slot(newest, slot)
                if value != expected and not (self._is_running and value >= count - 1):
                    what = f"slot {slot} points to entry {value}, but the newest of its chain is {expected}"
                    yield Finding(_PART, file.name, what)

    def _check_header(self, file: _IndexFile, used: int) -> Iterator[Finding]:
        header = file.header
        first, last = self._entry(file, 1)[1], self._entry(file, header.next_number - 1)[1]
        if header.begin_physical_offset != first:
            yield Finding(
                _PART,
                file.name,
                f"header begins with offset {header.begin_physical_offset}, but the first entry has {first}",
                first,
            )
        if header.end_physical_offset != last and not self._is_running:
            yield Finding(
                _PART,
                file.name,
                f"header ends with offset {header.end_physical_offset}, but the last entry has {last}",
                last,
            )
        if header.slots_used != used and not self._is_running:
            yield Finding(_PART, file.name, f"header has {header.slots_used} used slots, but {used} were found")

    @property
    def _name(self) -> str:
        """Of the file that `keys` is in."""
        return self._files[self.keys.file].name

    def _skip_before(self, offset: int) -> Iterator[Finding]:
        keys = self.keys
        while keys.is_there and keys.physical_offset < offset:
            name, number, physical_offset = self._name, keys.number, keys.physical_offset
            has_next = keys.go_to(keys.file, number + 1)
            if has_next and keys.physical_offset < physical_offset and not self._disorder:
                self._disorder = True
                yield Finding(_PART, self._name, f"entry {keys.number} points to a lower offset than its predecessor")
            if not self._log.is_gone(physical_offset) and not self._log.has_vanished(physical_offset):
                what = f"entry {number} points to {physical_offset}, where no record begins"
                yield Finding(_PART, name, what, physical_offset)

    def _entry(self, file: _IndexFile, number: int) -> tuple[int, int, int, int]:
        key_hash, offset, seconds, previous = ENTRY.unpack_from(file.view, entry_position(self._slots, number))
        return key_hash, offset, seconds, previous


def _hashes_of(record: MessageExt) -> list[int]:
    if sys_flags.transaction_type(record.sys_flag) == sys_flags.TRANSACTION_ROLLBACK:
        return []
    keys = [
        record.properties.get(names.UNIQ_KEY, ""),
        *record.properties.get(names.KEYS, "").split(names.KEY_SEPARATOR),
    ]
    return [fold_hash(string_hash(f"{record.topic}#{key}")) for key in keys if key]


def _load_slot(table: memoryview | bytes, slot: int) -> int:
    return int.from_bytes(table[slot * SLOT_SIZE : (slot + 1) * SLOT_SIZE], "big", signed=True)
