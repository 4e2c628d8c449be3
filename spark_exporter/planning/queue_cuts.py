"""Finds beginnings of records in a segment through ConsumeQueue entries (`docs/spec/store.md` 3.1).

An entry has 20 bytes: physical offset, record size, tags code. The queues may lag behind the log, be deleted, or be damaged, so the reader
of a range checks that a record begins at the cut.
"""

import os
from pathlib import Path
from typing import Final

from headrace.protocol.consume_queue_layout import ENTRY

_MOST_QUEUES: Final = 256  # limit: any queue's entry is a cut equivalent to another's


class QueueCuts:
    """Finds beginnings of records through the ConsumeQueues of a store."""

    def __init__(self, consume_queue: Path) -> None:
        """`consume_queue`: the folder, which need not exist."""
        self._files: list[list[tuple[Path, int]]] = []
        for topic in _folders(consume_queue):
            for queue in _folders(topic):
                files = [(path, path.stat().st_size) for path in sorted(queue.iterdir()) if path.name.isdecimal()]
                if files:
                    self._files.append(files)
                if len(self._files) >= _MOST_QUEUES:
                    return

    def find(self, physical_offset: int, below: int) -> int | None:
        """The lowest offset of an entry at or after `physical_offset` and below `below`; None if there is none."""
        least = below
        for files in self._files:
            found = _find_in_queue(files, physical_offset)
            if found is not None and found < least:
                least = found
        return least if least < below else None


def _find_in_queue(files: list[tuple[Path, int]], physical_offset: int) -> int | None:
    # Search the last file whose first entry is not beyond; the result may be the first entry of the next.
    for place in range(len(files) - 1, -1, -1):
        path, size = files[place]
        try:
            with path.open("rb") as file:
                found, first = _find_in_file(file.fileno(), size // ENTRY.size, physical_offset)
        except OSError:
            return None
        if first is not None and first < physical_offset:
            if found is not None:
                return found
            return _first_entry(files[place + 1][0]) if place + 1 < len(files) else None
    return _first_entry(files[0][0])


def _first_entry(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            return _entry(file.fileno(), 0)
    except OSError:
        return None


def _find_in_file(descriptor: int, count: int, physical_offset: int) -> tuple[int | None, int | None]:
    """The first entry at or after the offset, and the file's first entry. Unwritten entries count as beyond all others."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        found = _entry(descriptor, middle)
        if found is not None and found < physical_offset:
            low = middle + 1
        else:
            high = middle
    return (_entry(descriptor, low) if low < count else None), _entry(descriptor, 0)


def _entry(descriptor: int, index: int) -> int | None:
    data = os.pread(descriptor, ENTRY.size, index * ENTRY.size)
    if len(data) < ENTRY.size:
        return None
    offset, size, _ = ENTRY.unpack(data)
    return int(offset) if size > 0 else None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
