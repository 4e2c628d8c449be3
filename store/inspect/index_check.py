"""Checks IndexFiles against themselves and the log: chains and headers, each entry's record, each record's keys.

Not wrong, because RocketMQ does it too: keys of deleted records; a record's keys twice after its recovery; an empty newest file;
the first time of a file counted from the end of the file before.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.model import properties as names
from headrace.model import sys_flag as sys_flags
from headrace.model.java_hash import string_hash
from headrace.model.message import MessageExt
from store.index.layout import ENTRY, TIME_DIFF_MAX, entry_position, file_size, fold_hash, slot_position
from store.index.reader import IndexHeader, read_header
from store.inspect.files import StoredFile, list_files
from store.inspect.finding import Finding, Progress
from store.inspect.log import InspectedLog

_PART = "index"


class _Key(NamedTuple):
    """One entry on its way to be compared with the log."""

    name: str
    number: int
    key_hash: int
    physical_offset: int
    seconds: int
    begin_timestamp: int
    """From which `seconds` count; -1: not known, the file before is gone."""


class IndexCheck:
    """All IndexFiles. `check_files` first, then `see` each record in the order of the log, then `finish`."""

    def __init__(self, store: Path, log: InspectedLog, slots: int, entries: int, is_running: bool) -> None:
        self._log = log
        self._slots = slots
        self._capacity = entries
        self._is_running = is_running
        self._files: list[tuple[StoredFile, IndexHeader]] = []
        self._strangers: list[StoredFile] = []
        for file in list_files(store / "index"):
            if len(file.view) == file_size(slots, entries):
                self._files.append((file, read_header(file.view)))
            else:
                self._strangers.append(file)
        self._first_offset = -1
        self._last_offset = -1
        for file, header in self._files:
            if header.next_number > 1:
                if self._first_offset < 0:
                    self._first_offset = self._entry(file, 1)[1]
                self._last_offset = header.end_physical_offset
        self._keys = self._read_keys()
        self._ahead: _Key | None = next(self._keys, None)
        self._disorder = False

    def check_files(self) -> Iterator[Finding | Progress]:
        """What can be seen without the log."""
        for file in self._strangers:
            wanted = f"{file_size(self._slots, self._capacity)} with maxHashSlotNum={self._slots}, maxIndexNum={self._capacity}"
            yield Finding(_PART, file.name, f"skipped: {len(file.view)} bytes long, not {wanted}")
        total = sum(len(file.view) for file, _ in self._files)
        done = 0
        for file, header in self._files:
            yield from self._check_file(file, header)
            done += len(file.view)
            yield Progress(_PART, done, total)

    def see(self, record: MessageExt) -> Iterator[Finding]:
        """One record of the log: are its keys there, and nothing else?"""
        offset = record.physical_offset
        yield from self._skip_before(offset)
        found: list[_Key] = []
        while self._ahead is not None and self._ahead.physical_offset == offset:
            found.append(self._ahead)
            self._ahead = next(self._keys, None)
        wanted = _hashes_of(record)
        for key in found:
            if key.key_hash not in wanted:
                what = f"entry {key.number} points to the record at {offset}, which does not have this key"
                yield Finding(_PART, key.name, what, offset)
            elif not _is_time_right(key, record.store_timestamp):
                what = f"entry {key.number} has a different timestamp from its record at {offset}"
                yield Finding(_PART, key.name, what, offset)
        # The first file may begin, and the last one end, in the middle of a record's keys.
        is_whole = self._first_offset < offset < self._last_offset
        missing = set(wanted) - {key.key_hash for key in found}
        if is_whole and missing and not self._disorder:
            what = f"{len(missing)} keys of the record at {offset} are not indexed"
            yield Finding(_PART, "all files", what, offset, len(missing))

    def finish(self) -> Iterator[Finding]:
        """The entries that lead beyond the log's end."""
        yield from self._skip_before(1 << 62)

    def _check_file(self, file: StoredFile, header: IndexHeader) -> Iterator[Finding]:
        count = header.next_number
        if count > self._capacity:
            yield Finding(_PART, file.name, f"header has {count} entries, but the capacity is {self._capacity}")
            return
        newest = array("i", bytes(4 * self._slots))
        used = 0
        for number in range(1, count):
            key_hash, _, _, previous = self._entry(file, number)
            if key_hash < 0:
                yield Finding(_PART, file.name, f"entry {number} has an invalid hash: {key_hash}")
                continue
            slot = key_hash % self._slots
            used += newest[slot] == 0
            if previous != newest[slot]:
                what = f"entry {number} follows entry {previous} in its slot's chain instead of {newest[slot]}"
                yield Finding(_PART, file.name, what)
            newest[slot] = number
        yield from self._check_slots(file, newest, count)
        if count > 1:
            yield from self._check_header(file, header, used)

    def _check_slots(self, file: StoredFile, newest: "array[int]", count: int) -> Iterator[Finding]:
        for slot in range(self._slots):
            at = slot_position(slot)
            value = int.from_bytes(file.view[at : at + 4], "big", signed=True)
            if value != newest[slot] and not (self._is_running and value >= count - 1):
                yield Finding(
                    _PART,
                    file.name,
                    f"slot {slot} points to entry {value}, but the newest of its chain is {newest[slot]}",
                )

    def _check_header(self, file: StoredFile, header: IndexHeader, used: int) -> Iterator[Finding]:
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

    def _read_keys(self) -> Iterator[_Key]:
        """All entries of all files, oldest first."""
        before: IndexHeader | None = None
        for file, header in self._files:
            for number in range(1, min(header.next_number, self._capacity)):
                key_hash, offset, seconds, _ = self._entry(file, number)
                begin = header.begin_timestamp
                if number == 1:
                    begin = before.end_timestamp if before is not None else -1
                yield _Key(file.name, number, key_hash, offset, seconds, begin)
            before = header

    def _skip_before(self, offset: int) -> Iterator[Finding]:
        while self._ahead is not None and self._ahead.physical_offset < offset:
            key = self._ahead
            self._ahead = next(self._keys, None)
            if self._ahead is not None and self._ahead.physical_offset < key.physical_offset and not self._disorder:
                self._disorder = True
                yield Finding(
                    _PART, self._ahead.name, f"entry {self._ahead.number} points to a lower offset than its predecessor"
                )
            if not self._log.is_gone(key.physical_offset) and not self._log.has_vanished(key.physical_offset):
                what = f"entry {key.number} points to {key.physical_offset}, where no record begins"
                yield Finding(_PART, key.name, what, key.physical_offset)

    def _entry(self, file: StoredFile, number: int) -> tuple[int, int, int, int]:
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


def _is_time_right(key: _Key, store_timestamp: int) -> bool:
    if key.begin_timestamp < 0:
        return True
    seconds = 0
    if key.begin_timestamp > 0:
        seconds = min(max(0, (store_timestamp - key.begin_timestamp) // 1000), TIME_DIFF_MAX)
    return key.seconds == seconds
