"""The mapped files of one directory, as one long stream of bytes.

    start = offset - offset % file_size          name = start in 20 digits

Files have exactly one length and follow each other without gaps. Mappings are made when they are first asked for and the
least recently used are released, so a directory may hold more files than a process may map. Another process reserves and
deletes files; a file that has gone is not found, one that has come is.
"""

import itertools
import os
from collections import OrderedDict
from pathlib import Path

from store.errors import UnexpectedFile, WrongFileLength
from store.mapped_file import MappedFile
from store.paths import DIGITS_OF_A_NAME, file_name

MAPPINGS_KEPT = 64  # limit: a process may have 65,530 mappings; a CommitLog of 64 GiB stays mapped whole


class MappedFileQueue:
    """Finds and maps the files of a directory; never makes, cuts or deletes one."""

    def __init__(
        self,
        directory: Path,
        file_size: int,
        writable: bool = False,
        max_open: int = MAPPINGS_KEPT,
        size_option: str = "its file size",
    ) -> None:
        """`size_option` is the setting that an error about a file of another length shall name."""
        self.directory = directory
        self.file_size = file_size
        self.writable = writable
        self._max_open = max_open
        self._size_option = size_option
        self._starts: list[int] = []
        self._mapped: OrderedDict[int, MappedFile] = OrderedDict()

    def refresh(self) -> None:
        """Lists the directory again; a missing one is empty.

        Raises WrongFileLength and UnexpectedFile as RocketMQ refuses to load (store spec, 1.2), and UnexpectedFile for a gap.
        """
        self._starts = list_starts(self.directory, self.file_size, self._size_option)
        for start in [start for start in self._mapped if start not in self._starts]:
            self._mapped.pop(start).close()

    @property
    def first_offset(self) -> int:
        """Where the first listed file begins; 0 if there is none."""
        return self._starts[0] if self._starts else 0

    @property
    def end_offset(self) -> int:
        """Where the last listed file ends; 0 if there is none."""
        return self._starts[-1] + self.file_size if self._starts else 0

    def names(self) -> list[str]:
        """The names of the listed files in order."""
        return [file_name(start) for start in self._starts]

    def starts(self) -> list[int]:
        """The offsets at which the listed files begin."""
        return list(self._starts)

    def file_for(self, offset: int) -> MappedFile | None:
        """The file that contains this offset, mapped; None if there is no such file now.

        Finds files that came after the last `refresh`. Raises WrongFileLength.
        """
        start = offset - offset % self.file_size
        file = self._mapped.get(start)
        if file is not None:
            self._mapped.move_to_end(start)
            return file
        if offset < 0:
            return None
        try:
            file = MappedFile(
                self.directory / file_name(start), start, self.file_size, self.writable, self._size_option
            )
        except FileNotFoundError:
            return None
        self._mapped[start] = file
        while len(self._mapped) > self._max_open:
            _, oldest = self._mapped.popitem(last=False)
            oldest.close()
        return file

    def forget_before(self, offset: int) -> None:
        """Releases files that end at or before this offset; they may have been deleted."""
        for start in [start for start in self._mapped if start + self.file_size <= offset]:
            self._mapped.pop(start).close()
        self._starts = [start for start in self._starts if start + self.file_size > offset]

    def close(self) -> None:
        """Releases all mappings."""
        for file in self._mapped.values():
            file.close()
        self._mapped.clear()


def list_starts(directory: Path | str, file_size: int, size_option: str) -> list[int]:
    """The start offsets of a directory's files in order. Raises WrongFileLength, UnexpectedFile; changes nothing."""
    starts = list_lengths(directory, file_size, size_option)
    for before, start in itertools.pairwise(starts):
        if start != before + file_size:
            raise UnexpectedFile(
                f"{directory}/{file_name(start)} does not follow {file_name(before)}: a file is missing; restore "
                f"{file_name(before + file_size)}, or move away the files before the gap (nothing was changed)"
            )
    return starts


def list_lengths(directory: Path | str, file_size: int, size_option: str) -> list[int]:
    """As `list_starts`, but files need not follow each other."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    starts: list[int] = []
    for entry in entries:
        name = entry.name
        if not (len(name) == DIGITS_OF_A_NAME and name.isascii() and name.isdigit() and entry.is_file()):
            raise UnexpectedFile(
                f"unexpected file {entry.path}: this directory may contain only files named with {DIGITS_OF_A_NAME} digits; "
                f"move it away (nothing was changed)"
            )
        length = entry.stat().st_size
        if length != file_size:
            raise WrongFileLength(Path(entry.path), length, file_size, size_option)
        start = int(name)
        if start % file_size:
            raise UnexpectedFile(
                f"the name of {entry.path} is not a multiple of {size_option}={file_size}; correct {size_option} (nothing was changed)"
            )
        starts.append(start)
    return starts
