import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc.cells import full_fence, store_bytes, store_cell
from ipc.posix import anonymous_segment


@pytest.mark.parametrize("value", [0, 1, -1, (1 << 63) - 1, -(1 << 63)])
def test_a_cell_takes_any_signed_64_bit_number(value: int) -> None:
    segment = anonymous_segment(64)
    store_cell(segment.words, 3, value)
    assert segment.words[3] == value
    assert [segment.words[word] for word in (2, 4)] == [0, 0]


def test_bytes_are_copied_to_their_place() -> None:
    segment = anonymous_segment(64)
    store_bytes(segment.view, 9, b"topic")
    assert bytes(segment.view[8:16]) == b"\0topic\0\0"


def test_a_fence_can_be_passed_again_and_again_and_after_a_fork(fork: Callable[[Callable[[], object]], Any]) -> None:
    full_fence()
    full_fence()
    assert fork(full_fence).wait() == 0


@pytest.mark.slow
def test_a_cell_is_never_seen_half_stored(fork: Callable[[Callable[[], object]], Any]) -> None:
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
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        seen.update(words[1] for _ in range(1000))
    assert seen - {0} == {low, high}
