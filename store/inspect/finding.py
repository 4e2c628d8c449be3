"""Results of `verify`: progress and findings."""

from msgspec import Struct


class Progress(Struct, frozen=True):
    """So many bytes of a part of the store have been read."""

    part: str
    done_bytes: int
    total_bytes: int


class Finding(Struct, frozen=True):
    """A violation. `part` is commitlog, consumequeue, index, checkpoint or offsets; `where` is a file or a queue."""

    part: str
    where: str
    what: str
    physical_offset: int = -1
    """Of the first record concerned; -1: none is."""
    count: int = 1
    """The number of affected records, entries or files."""

    def __str__(self) -> str:
        return f"{self.part} {self.where}: {self.what}"
