"""Into how many parts to divide ranges, so that all workers get similar shares.

Engines hand ranges out in the log's order, each to the first worker that is free. So a few large ones may leave workers idle at the end: three full segments and
a bit, on two workers, take as long as two segments, not as one and a half. As few are cut as will do, and those at the log's end: what is not cut
makes large files and has nothing to prove. Where there are not two for each worker, all are cut alike.

What comes out depends on sizes and workers alone: the same plan has the same ranges, whoever makes it. A run with other workers, or of a log that has
grown, may cut elsewhere; no row is there twice for that, because it begins where the target's last commit ended, and
commits that were decided are published as they were written down, not planned again (`export`).
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

_TOLERANCE: Final = 1.05
"""# limit: by how much the longest share may be more than the mean."""
_RANGES_EACH: Final = 2
"""# limit: of one size, for workers of which one may turn out to be slower."""
_SURELY_EVEN: Final = 20
"""So many ranges a worker are even within the tolerance, if they are of one size."""
_EVEN: Final = (0.0, 0)


def longest_share(sizes: Sequence[int], workers: int) -> int:
    """Bytes that the busiest worker is given, when each range goes to the first that is free."""
    loads = [0] * max(1, min(workers, len(sizes)))
    for size in sizes:
        heapq.heapreplace(loads, loads[0] + size)
    return max(loads)


def even_parts(sizes: Sequence[int], workers: int, least_bytes: int) -> list[int]:
    """Into how many equal parts each range of these bytes is to be cut; no part has less than `least_bytes`, but for ranges that are not cut."""
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
    """Less is better: by how many bytes the longest share is too long, how many ranges there are too few, how many there are."""
    cut = [size // count for size, count in zip(sizes, parts, strict=True) for _ in range(count)]
    excess = longest_share(cut, workers) - sum(sizes) / workers * _TOLERANCE
    return max(0.0, excess), max(0, _RANGES_EACH * workers - len(cut)), len(cut)
