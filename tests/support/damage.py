"""Damage at rest: bytes of a CommitLog that the disk has lost."""

from pathlib import Path

from store.mapped_file import path_of


def damage(commit_log: Path, file_size: int, physical_offset: int, length: int) -> None:
    """Makes `length` bytes of a CommitLog zero, from a physical offset on, within one file."""
    start = physical_offset - physical_offset % file_size
    with path_of(commit_log, start).open("r+b") as file:
        file.seek(physical_offset - start)
        file.write(bytes(length))
