"""Replaces a small file atomically."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Writes `data` beside the file, syncs, and renames it over the file. Raises OSError, and then the old file is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)  # one that a kill left, or a link: nothing is written through it
    with temporary.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # order: the rename after the sync, or the name could lead to a file whose bytes are missing yet.
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
