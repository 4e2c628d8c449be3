import os
import select
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc.bells import Bell, create_eventfd
from ipc.cells import store_cell
from ipc.control_layout import ASLEEP, MIN_OFFSET, REPUT_OFFSET, SIZE_BYTES, WROTE_OFFSET
from ipc.posix import Segment, anonymous_segment
from support.interpreted import run_interpreted

ASLEEP_WORD = ASLEEP["flush"]
LOST = MIN_OFFSET


@pytest.fixture
def segment() -> Segment:
    return anonymous_segment(SIZE_BYTES)


@pytest.fixture
def bell(segment: Segment) -> Any:
    fd = create_eventfd()
    yield Bell(fd, segment.words, ASLEEP_WORD)
    os.close(fd)


def is_rung(bell: Bell) -> bool:
    return bool(select.select([bell.fd], [], [], 0)[0])


def test_bell_is_not_rung_for_an_awake_role(bell: Bell) -> None:
    assert not bell.ring()
    assert not is_rung(bell)


def test_bell_is_rung_for_a_sleeping_role(bell: Bell) -> None:
    bell.prepare_sleep()
    assert bell.ring()
    assert is_rung(bell)


def test_awakened_role_is_not_rung_again(bell: Bell) -> None:
    bell.prepare_sleep()
    bell.woke()
    assert not bell.ring()


def test_napping_role_is_rung_while_somebody_waits_for_it(segment: Segment, bell: Bell) -> None:
    urgent = Bell(bell.fd, segment.words, ASLEEP_WORD, urgent_word=ASLEEP["pulls"])
    urgent.prepare_nap()
    assert not urgent.ring()
    store_cell(segment.words, ASLEEP["pulls"], 1)
    assert urgent.ring()
    assert is_rung(urgent)


def test_sleeping_role_is_rung_even_if_nobody_waits_for_it(segment: Segment, bell: Bell) -> None:
    urgent = Bell(bell.fd, segment.words, ASLEEP_WORD, urgent_word=ASLEEP["pulls"])
    urgent.prepare_sleep()
    assert urgent.ring()


def test_drain_consumes_all_rings(bell: Bell) -> None:
    bell.prepare_sleep()
    bell.ring()
    bell.ring()
    assert bell.drain()
    assert not is_rung(bell)
    assert not bell.drain()


def test_ring_before_the_poll_is_kept(bell: Bell) -> None:
    bell.prepare_sleep()
    bell.ring()
    assert select.select([bell.fd], [], [], 5)[0]


def steps_of_both_sides(_: bytes) -> bytes:
    """What a sleeper and a ringer do, step by step, with interpreted modules."""
    steps: list[str] = []
    segment = anonymous_segment(SIZE_BYTES)

    class Words:
        def __getitem__(self, word: int) -> int:
            steps.append(f"load {word}")
            return int(segment.words[word])

        def __setitem__(self, word: int, value: int) -> None:
            steps.append(f"store {word}={value}")
            segment.words[word] = value

    words: Any = Words()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ipc.bells.full_fence", lambda: steps.append("fence"))
        patch.setattr("os.eventfd_write", lambda *_: steps.append("ring"))
        bell = Bell(-1, words, ASLEEP_WORD)
        bell.prepare_sleep()
        steps.append("second look")
        store_cell(words, WROTE_OFFSET, 7)
        bell.ring()
    return "; ".join(steps).encode()


def test_both_sides_fence_between_store_and_load() -> None:
    # The order in which no wake-up can be lost: see the drawing in ipc/bells.py. The compiled form has the same source.
    sleeper = f"store {ASLEEP_WORD}=1; fence; second look"
    ringer = f"store {WROTE_OFFSET}=7; fence; load {ASLEEP_WORD}; ring"
    assert run_interpreted("unit.ipc.test_bells", "steps_of_both_sides", b"").decode() == f"{sleeper}; {ringer}"


@pytest.mark.slow
def test_no_wake_up_is_lost_between_two_processes(
    segment: Segment, fork: Callable[[Callable[[], object]], Any]
) -> None:
    words = segment.words
    fd = create_eventfd()

    def sleep_and_follow() -> None:
        bell = Bell(fd, words, ASLEEP_WORD)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        seen = 0
        while True:
            bell.prepare_sleep()
            if words[WROTE_OFFSET] == seen and not poll.poll(10_000) and words[WROTE_OFFSET] != seen:
                store_cell(words, LOST, words[LOST] + 1)
            bell.woke()
            bell.drain()
            seen = words[WROTE_OFFSET]
            store_cell(words, REPUT_OFFSET, seen)

    fork(sleep_and_follow)
    bell = Bell(fd, words, ASLEEP_WORD)
    rings = rounds = 0
    began = time.monotonic()
    while rounds <= 100 or not rings or time.monotonic() < began + 0.8:
        rounds += 1
        for _ in range(rounds % 40):  # varies the distance from the moment when the sleeper goes to sleep
            pass
        store_cell(words, WROTE_OFFSET, rounds)
        rings += bell.ring()
        while words[REPUT_OFFSET] != rounds:
            assert not words[LOST], f"the ring of round {rounds} was lost"
            if time.monotonic() > began + 60:
                pytest.fail(f"round {rounds} was never seen")
    assert not words[LOST]
    os.close(fd)
