"""Damage at rest: bytes of a CommitLog lost by the disk."""

from pathlib import Path

from store.mapped_file import path_of


def damage(commit_log: Path, file_size: int, physical_offset: int, length: int) -> None:
    """Zeroes `length` bytes of a CommitLog from a physical offset, within one file."""
    start = physical_offset - physical_offset % file_size
    with path_of(commit_log, start).open("r+b") as file:
        file.seek(physical_offset - start)
        file.write(bytes(length))
