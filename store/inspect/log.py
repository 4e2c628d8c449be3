"""The CommitLog under inspection: its records in order, and any one of them by its offset."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.model.message import MessageExt
from headrace.protocol.big_endian import load_i32
from headrace.protocol.record import decode_record
from headrace.protocol.record_layout import TOTAL_SIZE_AT
from store.commit_log.record_check import store_timestamp_of
from store.commit_log.scanner import BLANK, REASONS, WRONG_CRC, check_record
from store.inspect.agreement import Agreement
from store.inspect.files import START_MAX, StoredFile, commit_log_directory, find_file, is_zero, list_files
from store.inspect.finding import Finding, Progress
from store.paths import DIGITS_OF_A_NAME, file_name

_PART = "commitlog"
_STEP_BYTES = 1 << 22  # limit: of reading between two reports of progress


class InspectedLog:
    """The files between `min_offset` and the end. To be opened when all that was built from the log is known."""

    def __init__(self, store: Path) -> None:
        self._directory = commit_log_directory(store)
        self.limit: int | None = None
        """Where a running store's published log ends; None if it is stopped."""
        self._names: dict[str, None] = {}
        self.file_size = 0
        self.min_offset = 0
        self.end = 0
        """After `read`: where the valid records end."""
        self.last_timestamp = -1
        """After `read`: store timestamp of the last record, ms; -1 without one."""
        self._view: memoryview | None = None
        self._view_start = -1

    def open(self, limit: int | None) -> None:
        """Lists the files."""
        self.limit = limit
        files = list_files(self._directory)
        self._names = dict.fromkeys(file.name for file in files)
        if files:
            self.file_size = files[0].size
            self.min_offset = self.end = files[0].start
        elif limit is not None:
            self.min_offset = self.end = limit  # all were deleted while they were listed

    def check_files(self) -> Iterator[Finding]:
        """Names, lengths and gaps."""
        expected = self.min_offset
        for entry in sorted(os.listdir(self._directory) if self._directory.is_dir() else []):
            if not (entry.isdecimal() and len(entry) == DIGITS_OF_A_NAME and int(entry) < START_MAX):
                yield Finding(_PART, entry, "not a CommitLog file; brokers refuse to open a directory with other files")
        for name in self._names:
            file = find_file(self._directory / name)
            if file is not None and file.size != self.file_size:
                yield Finding(_PART, name, f"{file.size} bytes long, the first file has {self.file_size}")
            if int(name) > expected:
                yield Finding(_PART, name, f"does not follow the file before it: {file_name(expected)} is missing")
            expected = int(name) + self.file_size

    def read(self, agreement: Agreement) -> Iterator[MessageExt | Finding | Progress]:
        """The records to be looked at, in physical order, and what is wrong between them; those that agree with all entries are only walked over."""
        total = len(self._names) * self.file_size
        has_ended = False
        for number, name in enumerate(self._names):
            file = find_file(self._directory / name)
            view = file.map() if file is not None else None
            if file is None or view is None:  # deleted by a running store
                self.end = int(name) + self.file_size
                if self.limit is not None:
                    self.end = min(self.end, self.limit)
                continue
            if has_ended:
                if not self._is_beyond_limit(file.start) and not is_zero(file, 0):
                    yield Finding(_PART, name, f"not empty, although the log ends before it, at {self.end}", file.start)
                continue
            has_ended = yield from self._read_file(file, view, agreement, number * self.file_size, total)
        yield Progress(_PART, total, total)

    def record_at(self, physical_offset: int, size: int) -> MessageExt | None:
        """The record of this size that begins here; None if there is none. Bodies are not checked again."""
        if size <= 0 or not self.file_size or not self.min_offset <= physical_offset < self.end:
            return None
        start = physical_offset - physical_offset % self.file_size
        if self._view is None or self._view_start != start:
            self._view = StoredFile(self._directory / file_name(start), start, self.file_size).map()
            self._view_start = start
        if self._view is None:
            return None
        view, at = self._view, physical_offset - start
        if check_record(view, at, len(view), physical_offset, check_crc=False) != size:
            return None
        try:
            return decode_record(view[at : at + size])
        except HeadraceError:
            return None

    def is_gone(self, physical_offset: int) -> bool:
        """Whether a record at this offset was deleted before we looked."""
        return physical_offset < self.min_offset

    def has_vanished(self, physical_offset: int) -> bool:
        """Whether the file of this offset was there when we began, and a broker has deleted it since."""
        if not self.file_size:
            return False
        name = file_name(physical_offset - physical_offset % self.file_size)
        return name in self._names and not (self._directory / name).exists()

    def _read_file(
        self, file: StoredFile, view: memoryview, agreement: Agreement, before: int, total: int
    ) -> Generator[MessageExt | Finding | Progress, None, bool]:
        """One file's records; returns whether the log ends in it."""
        at, next_report = 0, _STEP_BYTES
        limit = len(view) if self.limit is None else min(len(view), self.limit - file.start)
        while at < limit:
            at = agreement.walk(view, at, min(limit, next_report), limit, file.start)
            if agreement.last >= 0:
                self.last_timestamp = store_timestamp_of(view, agreement.last)
                self.end = file.start + at
            if at >= next_report:
                yield Progress(_PART, before + at, total)
                next_report = at + _STEP_BYTES
                continue
            if at >= limit:
                break
            offset = file.start + at
            size = check_record(view, at, limit, offset, check_crc=True)
            if size == BLANK:
                yield from self._check_blank(file, view, at)
                self.end = file.end
                return False
            if size == WRONG_CRC:
                size = load_i32(view, at + TOTAL_SIZE_AT)
                yield Finding(_PART, file.name, f"the record at {offset}: {REASONS[WRONG_CRC]}", offset)
            elif size < 0:
                self.end = offset
                yield from self._check_tail(file, at, REASONS[size])
                return True
            message = decode_record(view[at : at + size])
            self.last_timestamp = message.store_timestamp
            at += size
            self.end = file.start + at
            yield message
        if self.limit is None:
            yield Finding(_PART, file.name, "no blank record at the end of the file", file.end)
        return self._is_beyond_limit(self.end)

    def _check_blank(self, file: StoredFile, view: memoryview, at: int) -> Iterator[Finding]:
        size = load_i32(view, at + TOTAL_SIZE_AT)
        if size != len(view) - at:
            what = f"blank record at {file.start + at} has size {size}, {len(view) - at} bytes remain"
            yield Finding(_PART, file.name, what, file.start + at)

    def _check_tail(self, file: StoredFile, at: int, reason: str) -> Iterator[Finding]:
        offset = file.start + at
        if self.limit is not None and offset < self.limit:
            yield Finding(_PART, file.name, f"published, but no valid record at {offset}: {reason}", offset)
        elif self.limit is None and not is_zero(file, at):
            what = f"the bytes after the last record, at {offset}, are neither a record nor zeros: {reason}"
            yield Finding(
                _PART, file.name, f"{what} (torn by a crash, or left over from a RocketMQ broker's recovery)", offset
            )

    def _is_beyond_limit(self, offset: int) -> bool:
        return self.limit is not None and offset >= self.limit
