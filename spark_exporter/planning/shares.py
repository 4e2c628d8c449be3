"""Computes into how many parts to divide ranges so that all workers get similar shares.

Engines assign ranges in log order, each to the first free worker. So a few large ones may leave workers idle at the end: slightly more than three segments
on two workers take as long as two segments, not as one and a half. As few segments as possible are cut, at the end of the log, because uncut ones
make large files and need no check. With fewer than two per worker, all are cut alike.

The result depends only on sizes and the number of workers: the same plan always has the same ranges. A run with other workers, or of a longer
log, may cut elsewhere; this duplicates no row, because it begins where the target's last commit ended, and
decided commits are published as recorded, not planned again (`export`).
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

_TOLERANCE: Final = 1.05
"""# limit: by how much the longest share may be more than the mean."""
_RANGES_EACH: Final = 2
"""# limit: for ranges of one size, if one worker is slower."""
_SURELY_EVEN: Final = 20
"""With so many ranges of one size per worker, shares are even within the tolerance."""
_EVEN: Final = (0.0, 0)


def longest_share(sizes: Sequence[int], workers: int) -> int:
    """Bytes of the busiest worker, if each range is assigned to the first free one."""
    loads = [0] * max(1, min(workers, len(sizes)))
    for size in sizes:
        heapq.heapreplace(loads, loads[0] + size)
    return max(loads)


def even_parts(sizes: Sequence[int], workers: int, least_bytes: int) -> list[int]:
    """The number of equal parts of each range of these sizes; no part has less than `least_bytes`, except uncut ranges."""
    whole = [1] * len(sizes)
    score = _score(sizes, whole, workers)
    if score[:2] == _EVEN or len(sizes) >= _SURELY_EVEN * workers:
        return whole
    best, found = score, whole
    tail = 1 if len(sizes) >= _RANGES_EACH * workers else len(sizes)
    while tail <= min(len(sizes), 2 * _RANGES_EACH * workers):
        for parts in _ways(sizes, tail, workers, max(1, least_bytes)):
            score = _score(sizes, parts, workers)
            if score < best:
                best, found = score, parts
            if score[:2] == _EVEN:
                break  # what follows for this tail has more ranges
        tail *= 2
    return found


def _ways(sizes: Sequence[int], tail: int, workers: int, least_bytes: int) -> Iterator[list[int]]:
    """Ever smaller parts of the last ranges."""
    last = sizes[-tail:]
    largest = max(last)
    for count in range(2, min(largest // least_bytes, _SURELY_EVEN * workers) + 1):
        parts = [max(1, min(-(-size * count // largest), size // least_bytes)) for size in last]
        yield [1] * (len(sizes) - tail) + parts


def _score(sizes: Sequence[int], parts: Sequence[int], workers: int) -> tuple[float, int, int]:
    """Lower is better: the excess of the longest share in bytes, the number of missing ranges, the number of ranges."""
    cut = [size // count for size, count in zip(sizes, parts, strict=True) for _ in range(count)]
    excess = longest_share(cut, workers) - sum(sizes) / workers * _TOLERANCE
    return max(0.0, excess), max(0, _RANGES_EACH * workers - len(cut)), len(cut)
