"""How full a file system is, computed as RocketMQ does."""

import os
from pathlib import Path


def used_ratio(path: Path) -> float:
    """The used share of the file system under `path`, 0.00 to 1.00 in hundredths rounded up; -1 if it cannot be told.

    Used is everything that is not free; what only root may use counts as neither used nor usable (store spec, 8.2).
    """
    try:
        figures = os.statvfs(path)
    except OSError:
        return -1
    return ratio_of(figures.f_blocks - figures.f_bfree, figures.f_bavail)


def ratio_of(used_blocks: int, usable_blocks: int) -> float:
    """The used share of used and usable blocks, in hundredths rounded up; -1 for a file system without blocks."""
    total = used_blocks + usable_blocks
    if total <= 0:
        return -1
    return -(-used_blocks * 100 // total) / 100


def unused_bytes(path: Path) -> int:
    """Free bytes on the file system under `path`, including those reserved for root, which a deletion increases; 0 if unknown."""
    try:
        figures = os.statvfs(path)
    except OSError:
        return 0
    return figures.f_bfree * figures.f_frsize


def free_bytes(path: Path) -> int:
    """Bytes that can still be written under `path`; 0 if unknown."""
    try:
        figures = os.statvfs(path)
    except OSError:
        return 0
    return figures.f_bavail * figures.f_frsize
