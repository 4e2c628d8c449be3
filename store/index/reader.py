"""Finds messages with a key in the IndexFiles, newest first.

Files may grow, be created and be deleted meanwhile: an entry is reached only through its slot, which is stored last. Two keys may have the
same hash, and the record of an entry may be deleted; callers check the record.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.model.java_hash import string_hash
from store.config import StoreConfig
from store.index.key_chain import KeyChain
from store.index.layout import HEADER, HEADER_SIZE, NAME_DIGITS, file_size, fold_hash
from store.mapped_file import MappedFile
from store.paths import StorePaths

_MAPPINGS_MAX = 64  # limit: 27 GB of address space; older files are rarely queried
_SETTLED_NS = 1_000_000_000  # limit: file systems record the time of a change to 10 ms or better


class IndexHeader(NamedTuple):
    """The header of an IndexFile; timestamps in ms."""

    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int
    slots_used: int
    next_number: int
    """Of the entry to come."""


class IndexReader:
    """The IndexFiles of a store. One for each process; not for several threads."""

    def __init__(self, paths: StorePaths, config: StoreConfig) -> None:
        self._directory = paths.index
        self._directory_name = str(paths.index)  # `stat` takes longer for a Path
        self._slots = config.max_hash_slot_num
        self._entries = config.max_index_num
        self._size = file_size(self._slots, self._entries)
        self._mapped: dict[str, MappedFile] = {}
        self._names: list[str] = []
        self._changed_ns = -1
        """When the directory had last been changed when `_names` were listed; -1 if that was too recent to tell a later change by its time."""

    def refresh(self) -> None:
        """Learns of files that were made or deleted; called before a search.

        The names are read again only if the directory has changed: reading them takes longer than finding a key.
        """
        try:
            changed_ns = os.stat(self._directory_name).st_mtime_ns
        except FileNotFoundError:
            changed_ns = -1
        if changed_ns != self._changed_ns or changed_ns < 0:
            self._changed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1
            self._names = list_names(self._directory)
            self._forget_all_but(self._names)

    def find(self, topic: str, key: str, begin: int, end: int) -> Iterator[int]:
        """Physical offsets of messages that may have this key, stored between `begin` and `end` (ms); newest file first.

        Within a second: an entry knows its time in whole seconds after the file's begin.
        """
        key_hash = fold_hash(string_hash(f"{topic}#{key}"))
        for file in self._files():
            chain = KeyChain(file.view, self._slots, self._entries, key_hash, begin, end)
            while (offset := chain.next()) >= 0:
                yield offset
            if chain.begin_timestamp < begin:
                return

    def last_update(self) -> tuple[int, int]:
        """(end timestamp, end physical offset) of the newest file; (0, 0) if there is none."""
        for file in self._files():
            header = read_header(file.view)
            return header.end_timestamp, header.end_physical_offset
        return 0, 0

    def release_deleted(self) -> None:
        """Releases files that have been deleted."""
        if self._mapped:
            self.refresh()

    def close(self) -> None:
        """Releases all mappings."""
        for file in self._mapped.values():
            file.close()
        self._mapped.clear()

    def _files(self) -> Iterator[MappedFile]:
        """The files of the configured length, newest first."""
        for name in reversed(self._names):
            file = self._mapped.get(name)
            if file is None:
                file = self._map(self._directory / name)
                if file is None:
                    continue
                if len(self._mapped) >= _MAPPINGS_MAX:
                    self._mapped.pop(min(self._mapped)).close()
                self._mapped[name] = file
            yield file

    def _forget_all_but(self, names: Iterable[str]) -> None:
        for name in set(self._mapped) - set(names):
            self._mapped.pop(name).close()

    def _map(self, path: Path) -> MappedFile | None:
        try:
            if path.stat().st_size != self._size:
                return None  # created with other settings: it cannot be read
            return MappedFile(path, 0, self._size, writable=False)
        except FileNotFoundError:
            return None


def read_header(view: memoryview | bytes) -> IndexHeader:
    """The header at the beginning of a file's bytes; a count of 0 is read as 1."""
    # order: one copy, then unpack: the struct module reads a mapping byte by byte, and might see half of a field.
    header = IndexHeader(*HEADER.unpack(bytes(view[:HEADER_SIZE])))
    return header if header.next_number >= 1 else header._replace(next_number=1)


def list_names(directory: Path) -> list[str]:
    """The names of the IndexFiles, oldest first; other names are skipped."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if len(name) == NAME_DIGITS and name.isdecimal())
