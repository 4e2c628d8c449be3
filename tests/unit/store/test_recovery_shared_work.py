"""shared_work: the same results with any number of processes, whatever happens to them."""

import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from store import recovery
from store.recovery.shared_work import shared_work
from support.servers import wait_until

COUNT = 1_000


def doubles(part: Sequence[int]) -> list[tuple[int, bytes | None]]:
    return [(2 * number, None if number % 3 else b"x") for number in part]


def pids(part: Sequence[int]) -> list[int]:
    return [os.getpid()] * len(part)


@pytest.fixture(autouse=True)
def _any_number_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.shared_work, "FEWEST", 1)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were forked."""
    pids: list[int] = []
    fork = os.fork

    def counted() -> int:
        pid = fork()
        pids.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", counted)
    return pids


def is_left(forked: list[int]) -> bool:
    """Whether the one process that was forked still exists, if only as one that nobody has waited for."""
    [pid] = forked
    return Path("/proc", str(pid)).exists()


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 127, 128, 129, COUNT])
def test_results_are_those_of_one_process(processes: int, count: int) -> None:
    items = range(count)
    assert shared_work(doubles, items, processes=processes) == doubles(items)


def test_each_process_does_a_part() -> None:
    done = shared_work(pids, range(COUNT), processes=2)
    assert done[0] == os.getpid()
    assert [done.count(pid) for pid in dict.fromkeys(done)] == [COUNT // 2, COUNT // 2]


def test_few_items_take_no_further_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.shared_work, "FEWEST", 501)
    assert set(shared_work(pids, range(COUNT), processes=2)) == {os.getpid()}


def test_error_of_a_part_is_raised(forked: list[int]) -> None:
    def fail(part: Sequence[int]) -> list[int]:
        if COUNT - 1 in part:
            raise ValueError("the last item")
        return list(part)

    with pytest.raises(ValueError, match="the last item"):
        shared_work(fail, range(COUNT), processes=2)
    assert not is_left(forked)


def test_error_here_ends_the_other_process(forked: list[int]) -> None:
    def fail(part: Sequence[int]) -> list[int]:
        if 0 in part:
            raise ValueError("the first item")
        signal.pause()
        return list(part)

    with pytest.raises(ValueError, match="the first item"):
        shared_work(fail, range(COUNT), processes=2)
    assert not is_left(forked)


def test_part_of_a_killed_process_is_done_here() -> None:
    here = os.getpid()

    def work(part: Sequence[int]) -> list[int]:
        if os.getpid() != here and COUNT - 1 in part:
            os.kill(os.getpid(), signal.SIGKILL)
        return [os.getpid()] * len(part)

    assert shared_work(work, range(COUNT), processes=2) == [here] * COUNT


def test_parts_are_done_here_if_the_system_has_no_room_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    descriptors = os.listdir("/proc/self/fd")
    assert shared_work(pids, range(COUNT), processes=3) == [os.getpid()] * COUNT
    assert os.listdir("/proc/self/fd") == descriptors


def test_this_process_beats_while_it_waits() -> None:
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    shared_work(doubles, range(COUNT), beat, processes=1)
    alone, beats = beats, 0
    shared_work(doubles, range(COUNT), beat, processes=2)
    assert beats >= alone == -(-COUNT // 128)


def test_other_process_keeps_no_descriptor_and_ends_with_this_one(tmp_path: Path) -> None:
    """A lock of the store must not outlive the process that holds it."""
    report = tmp_path / "descriptors"
    pid = os.fork()
    if pid == 0:
        here = os.getpid()

        def work(part: Sequence[int]) -> list[int]:
            if os.getpid() != here:
                links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
                text = "\n".join([str(os.getpid()), *(os.readlink(link) for link in links if os.path.islink(link))])
                (tmp_path / "new").write_text(text)
                (tmp_path / "new").rename(report)
            else:
                wait_until(report.exists, 30, "report of the other process")
                os.kill(here, signal.SIGKILL)
            return list(part)

        shared_work(work, range(100_000), processes=2)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    other, *descriptors = report.read_text().split("\n")
    kinds = sorted(name.partition(":")[0] for name in descriptors if not name.startswith("/proc/"))
    assert kinds == ["/memfd", "pipe"]
    wait_until(lambda: not Path("/proc", other).exists(), 30, "end of the other process")
