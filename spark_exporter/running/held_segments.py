"""Counts the segments that exports hold in a store (see `segment_hold`), for `headrace status`.

It needs nothing but the standard library: the appliance asks here, and may have none of the exporter's packages.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "hold"
"""Beside the CommitLog's folder; `segment_hold` says what is in it."""


@dataclass(frozen=True, slots=True)
class HeldSegments:
    """How many segments are held, by how many runs, and how many bytes that keeps on disk though the broker has deleted them."""

    runs: int
    segments: int
    kept_bytes: int


def count_held(store: Path) -> HeldSegments:
    """What is held at a store's root. A run that died counts until the next one releases what it held."""
    runs: set[Path] = set()
    segments = 0
    kept: dict[int, int] = {}
    for link in (store / FOLDER).glob("*/" + "[0-9]" * 20):
        try:
            status = link.stat()
        except OSError:
            continue  # released between listing and looking
        runs.add(link.parent)
        segments += 1
        if not (store / "commitlog" / link.name).exists():
            kept[status.st_ino] = status.st_size  # once, however many runs hold it
    return HeldSegments(len(runs), segments, sum(kept.values()))
