import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from ipc import role_context
from ipc.health_row import monotonic_ms
from ipc.instance import Instance
from ipc.publish.log import LogPublisher
from ipc.role_context import MISSED_RINGS, RoleContext

Fork = Callable[[Callable[[], object]], Any]
Eventually = Callable[[Callable[[], object]], None]


class Pipe:
    """The signal pipe of a role."""

    def __init__(self) -> None:
        self.stop_fd, self.write_fd = os.pipe()

    def stop(self, *_: object) -> None:
        os.write(self.write_fd, b"x")


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.stop_fd)
    os.close(made.write_fd)


@pytest.fixture
def context(instance: Instance, pipe: Pipe) -> RoleContext:
    return RoleContext("flush", instance, instance.bells["flush"], pipe.stop_fd)


def never() -> bool:
    return False


def test_role_reports_readiness(context: RoleContext, instance: Instance) -> None:
    before = monotonic_ms()
    context.running()
    health = instance.health.read()["flush"]
    assert health.state == "running"
    assert before <= health.heartbeat_ms <= monotonic_ms()


def test_heartbeats_are_stored_at_most_four_times_a_second(context: RoleContext, instance: Instance) -> None:
    seen: list[tuple[int, int, int]] = []
    while len(seen) < 3:
        before = monotonic_ms()
        context.beat()
        after, stored = monotonic_ms(), instance.health.read()["flush"].heartbeat_ms
        if not seen or stored != seen[-1][1]:
            seen.append((before, stored, after))
        else:
            assert before < stored + 250, "it is due, and was not stored"
    assert all(before <= stored <= after for before, stored, after in seen)
    assert all(later - earlier >= 250 for (_, earlier, _), (_, later, _) in pairwise(seen))


def test_long_call_is_announced_while_it_lasts(context: RoleContext, instance: Instance) -> None:
    before = monotonic_ms()
    with context.long_call("fdatasync", 5_000):
        begun = monotonic_ms()
        outer = instance.health.read()["flush"]
        with context.long_call("unlink", 60_000):
            assert instance.health.read()["flush"].long_call == "unlink"
        assert instance.health.read()["flush"].long_call_until_ms == outer.long_call_until_ms
    assert outer.long_call == "fdatasync"
    assert before + 5_000 <= outer.long_call_until_ms <= begun + 5_000
    assert instance.health.read()["flush"].long_call is None


def test_failed_long_call_is_no_longer_announced(context: RoleContext, instance: Instance) -> None:
    with pytest.raises(OSError, match="no space"), context.long_call("write", 5_000):
        raise OSError("no space")
    assert instance.health.read()["flush"].long_call is None


def test_role_receives_the_stop_order_through_its_pipe(context: RoleContext, instance: Instance, pipe: Pipe) -> None:
    seen = [context.take_stop_order()]
    pipe.stop()
    seen += [context.take_stop_order(), context.take_stop_order()]
    assert seen == [False, True, True]
    assert instance.health.read()["flush"].state == "stopping"


def test_stop_order_ends_a_wait(context: RoleContext, pipe: Pipe) -> None:
    pipe.stop()
    assert context.wait(never, 60_000)
    assert context.take_stop_order()


def test_stop_order_ends_a_nap(context: RoleContext, pipe: Pipe) -> None:
    assert not context.nap(1)
    pipe.stop()
    assert context.nap(60_000)
    assert context.take_stop_order()


def test_draining_role_waits_as_before(context: RoleContext, instance: Instance, pipe: Pipe) -> None:
    pipe.stop()
    assert context.take_stop_order()
    assert not context.wait(never, 5)
    assert not context.nap(5)
    bell = instance.bells["flush"]
    bell.prepare_sleep()
    bell.ring()
    assert context.wait(never, 60_000)


def test_work_that_arrives_before_the_sleep_is_not_missed(context: RoleContext) -> None:
    assert context.wait(lambda: True, 60_000)


def test_only_a_waiting_role_asks_to_be_rung(context: RoleContext, instance: Instance) -> None:
    asleep = []

    def look() -> bool:
        asleep.append(instance.control.asleep_flush)
        return True

    context.wait(look, 0)
    assert asleep == [1]
    assert instance.control.asleep_flush == 0


def test_bell_ends_the_wait_and_is_drained(context: RoleContext, instance: Instance) -> None:
    bell = instance.bells["flush"]
    looks = []

    def look() -> bool:
        looks.append(bell.ring())  # the bell is rung right after the second check
        return False

    assert context.wait(look, 60_000)
    assert looks == [True]
    assert not context.wait(never, 0)
    assert context.counters.read()[MISSED_RINGS] == 0


def test_timed_out_wait_reports_it(context: RoleContext) -> None:
    assert not context.wait(never, 1)
    assert context.counters.read()[MISSED_RINGS] == 0


def test_work_found_after_a_timeout_counts_as_a_missed_ring(context: RoleContext) -> None:
    looks = iter([False, True])
    assert context.wait(lambda: next(looks), 1)
    assert context.counters.read()[MISSED_RINGS] == 1


def test_slightly_late_ring_is_not_missed(context: RoleContext, instance: Instance) -> None:
    bell = instance.bells["flush"]
    looks = iter([lambda: False, bell.ring])
    assert context.wait(lambda: bool(next(looks)()), 1)
    assert context.counters.read()[MISSED_RINGS] == 0


def test_role_killed_while_asleep_is_awake_after_its_restart(instance: Instance, pipe: Pipe) -> None:
    instance.bells["flush"].prepare_sleep()
    RoleContext("flush", instance, instance.bells["flush"], pipe.stop_fd)
    assert instance.control.asleep_flush == 0


def test_role_without_a_bell_can_nap_but_not_wait(instance: Instance, pipe: Pipe) -> None:
    context = RoleContext("logger", instance, None, pipe.stop_fd)
    assert not context.nap(1)
    with pytest.raises(ValueError, match="logger has no bell"):
        context.wait(never, 1)


def test_nap_does_not_begin_if_somebody_waits_and_there_is_work(instance: Instance, pipe: Pipe) -> None:
    context = RoleContext("dispatch", instance, instance.bells["dispatch"], pipe.stop_fd)
    instance.pull_bell().prepare_sleep()
    context.nap_unless_urgent(lambda: True, 60_000)
    assert instance.control.asleep_dispatch == 0
    began = time.monotonic()
    context.nap_unless_urgent(never, 30)
    assert time.monotonic() >= began + 0.03
    pipe.stop()
    context.nap_unless_urgent(never, 60_000)


def test_waiting_role_keeps_sending_heartbeats(
    context: RoleContext, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_context, "_LONGEST_POLL_MS", 5)
    monkeypatch.setattr(role_context, "_BEAT_MS", 1)
    before = monotonic_ms()
    context.nap(30)
    assert instance.health.read()["flush"].heartbeat_ms > before + 20


@pytest.mark.slow
def test_role_process_follows_the_log_and_stops_on_sigterm(
    instance: Instance, pipe: Pipe, fork: Fork, eventually: Eventually
) -> None:
    def run() -> None:
        signal.signal(signal.SIGTERM, pipe.stop)
        context = RoleContext("flush", instance, instance.bells["flush"], pipe.stop_fd)
        followed = context.counters.index_of("followed")
        context.running()
        seen = 0

        def ready() -> bool:
            return context.control.wrote_offset != seen

        while not context.take_stop_order():
            context.wait(ready, 60_000)
            wrote = context.control.wrote_offset
            context.counters.add_at(followed, wrote - seen)
            seen = wrote

    child = fork(run)
    eventually(lambda: instance.health.read()["flush"].state == "running")
    log = LogPublisher(instance.control)
    visitor = Instance.open(instance.store_path)

    def has_followed(end: int) -> bool:
        return visitor.counters("flush").read().get("followed") == end

    for offset in range(1, 200):
        log.wrote(offset, 0)
        instance.bells["flush"].ring()
        if offset % 20 == 0:
            eventually(partial(has_followed, offset))
    eventually(partial(has_followed, 199))
    started = time.monotonic()
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait() == 0
    assert time.monotonic() - started < 50  # not at the end of its wait
    assert instance.health.read()["flush"].state == "stopping"
    assert visitor.counters("flush").read() == {MISSED_RINGS: 0, "followed": 199}
    visitor.close()


def test_role_continues_after_the_stop_order_until_it_may_stop(instance: Instance, pipe: Pipe) -> None:
    answers = iter([False, False, True])
    context = RoleContext("flush", instance, instance.bells["flush"], pipe.stop_fd, lambda: next(answers))
    assert not context.take_stop_order()
    pipe.stop()
    assert context.wait(never, 60_000)  # ended early by the stop order
    assert instance.health.read()["flush"].state == "stopping"
    began = time.monotonic()
    while not context.take_stop_order():
        context.wait(never, 60_000)  # short from now on, to check again
    assert time.monotonic() - began < 50
    assert context.take_stop_order()
    assert next(answers, None) is None


def test_bell_wakes_a_role_that_may_not_stop_yet(instance: Instance, pipe: Pipe) -> None:
    context = RoleContext("flush", instance, instance.bells["flush"], pipe.stop_fd, never)
    pipe.stop()
    assert not context.take_stop_order()
    rung = iter([False, True])
    assert context.wait(lambda: next(rung), 0)
