"""Counts the segments that exports hold in a store (see `segment_hold`), for `headrace status`.

Uses only the standard library, because the appliance calls it and may not have the exporter's packages.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "hold"
"""Beside the CommitLog's folder; `segment_hold` describes its contents."""


@dataclass(frozen=True, slots=True)
class HeldSegments:
    """How many segments are held, by how many runs, and how many bytes of them the broker has already deleted."""

    runs: int
    segments: int
    kept_bytes: int


def count_held(store: Path) -> HeldSegments:
    """The segments held in a store. A crashed run counts until the next one releases its segments."""
    runs: set[Path] = set()
    segments = 0
    kept: dict[int, int] = {}
    for link in (store / FOLDER).glob("*/" + "[0-9]" * 20):
        try:
            status = link.stat()
        except OSError:
            continue  # released after it was listed
        runs.add(link.parent)
        segments += 1
        if not (store / "commitlog" / link.name).exists():
            kept[status.st_ino] = status.st_size  # once, even if several runs hold it
    return HeldSegments(len(runs), segments, sum(kept.values()))
