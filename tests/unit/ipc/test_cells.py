import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc import cells
from ipc.cells import full_fence, store_bytes, store_cell
from ipc.posix import anonymous_segment


@pytest.mark.parametrize("value", [0, 1, -1, (1 << 63) - 1, -(1 << 63)])
def test_cell_holds_any_signed_64_bit_number(value: int) -> None:
    segment = anonymous_segment(64)
    store_cell(segment.words, 3, value)
    assert segment.words[3] == value
    assert [segment.words[word] for word in (2, 4)] == [0, 0]


def test_bytes_are_copied_to_their_offset() -> None:
    segment = anonymous_segment(64)
    store_bytes(segment.view, 9, b"topic")
    assert bytes(segment.view[8:16]) == b"\0topic\0\0"


def test_fence_works_repeatedly_and_after_a_fork(fork: Callable[[Callable[[], object]], Any]) -> None:
    full_fence()
    full_fence()
    assert fork(full_fence).wait() == 0


@pytest.mark.slow
def test_cell_store_is_atomic(fork: Callable[[Callable[[], object]], Any]) -> None:
    segment = anonymous_segment(64)
    low, high = 0x0101010101010101, 0x7E7E7E7E7E7E7E7E

    def store() -> None:
        parent = os.getppid()
        while os.getppid() == parent:
            for _ in range(1000):
                store_cell(segment.words, 1, low)
                store_cell(segment.words, 1, high)

    fork(store)
    words = segment.words
    seen: set[int] = set()
    began = time.monotonic()
    while not {low, high} <= seen or time.monotonic() < began + 0.3:
        seen.update(words[1] for _ in range(1000))
    assert seen - {0} == {low, high}


@pytest.mark.slow
def test_fence_prevents_two_processes_from_missing_each_other(fork: Callable[[Callable[[], object]], Any]) -> None:
    # Each process stores its own word, then loads the other's. Without a fence, both loads preceded the other's store
    # 60,000 times in 5 million rounds on two processors. The lock is taken inline: a function call would take long
    # enough to hide the effect.
    words = anonymous_segment(1024).words
    fence = cells._fence
    flag, at_start, seen, at_end = 0, 16, 32, 48  # each a pair of words, 64 bytes apart
    over = 64

    def run(me: int, until: float) -> tuple[int, int]:
        mine, others = me * 8, (1 - me) * 8
        rounds = misses = 0
        while True:
            rounds += 1
            words[at_start + mine] = rounds
            while words[at_start + others] < rounds:
                if words[over]:
                    return rounds, misses
            words[flag + mine] = rounds
            with fence:
                pass
            loaded = words[flag + others]
            words[seen + mine] = loaded
            words[at_end + mine] = rounds
            while words[at_end + others] < rounds:
                if words[over]:
                    return rounds, misses
            misses += loaded < rounds and words[seen + others] < rounds
            if me == 0 and rounds > 10 and time.monotonic() > until:
                words[over] = 1
                return rounds, misses

    fork(lambda: run(1, 0))
    rounds, misses = run(0, time.monotonic() + 0.5)
    assert rounds > 10
    assert misses == 0
