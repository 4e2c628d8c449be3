"""Reads many files in as many processes as there are cores: with two, recovery of 50,000 queues takes a quarter less time.

    this process     first part            waits, part by part
    a child          second part ──────► a file in memory: slices of what it found, as `marshal` writes them
                                    └──► a pipe: one byte after each slice

A child only reads, and keeps no descriptor of its parent: no lock of the store outlives the process that holds it. If the parent dies, the next byte
finds nobody and the child ends. If a child dies, or finds an error, the parent does that part itself, and meets the same error.
"""

import logging
import marshal
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

FEWEST: Final = 4_096
"""Items for which a child pays: a fork takes milliseconds, an item some 30 us."""
_SLICE: Final = 128  # limit: seconds on a disk that is busy and cold
_HIGHEST_FD: Final = 1 << 20  # what the appliance may raise the limit of open files to


def shared_work(
    work: Callable[[Sequence[T]], list[Any]],
    items: Sequence[T],
    beat: Callable[[], None] = lambda: None,
    processes: int = 0,
) -> list[Any]:
    """The results of `work` for all items, in their order. Raises what `work` raises.

    `work` changes nothing, neither files nor what other items need, and returns one value for each item that `marshal` can write. `beat` is called in
    this process, at most some hundred items apart. `processes`: 0 for one a core; each gets at least FEWEST items.
    """
    count = max(1, min(processes or len(os.sched_getaffinity(0)), len(items) // FEWEST))
    size = max(1, -(-len(items) // count))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ExitStack() as running:
        children = [_start(work, part, running) for part in parts[1:]]
        results = list(_in_slices(work, parts[0], beat)) if parts else []
        for child, part in zip(children, parts[1:], strict=True):
            found = None if child is None else child.wait(len(part), beat)
            results += list(_in_slices(work, part, beat)) if found is None else found
    return results


def _in_slices(work: Callable[[Sequence[T]], list[Any]], items: Sequence[T], beat: Callable[[], None]) -> Iterator[Any]:
    for start in range(0, len(items), _SLICE):
        beat()
        yield from work(items[start : start + _SLICE])


def _start(work: Callable[[Sequence[T]], list[Any]], items: Sequence[T], running: ExitStack) -> "_Child | None":
    """A child that does this part until `running` ends; None if the system has no room for one."""
    try:
        return _Child(work, items, running)
    except OSError as error:
        logger.info("could not start a helper process, continuing without it error=%r", str(error))
        return None


class _Child:
    """A process that does one part."""

    def __init__(self, work: Callable[[Sequence[T]], list[Any]], items: Sequence[T], running: ExitStack) -> None:
        """Raises OSError."""
        self._results_fd = os.memfd_create("shared work")
        running.callback(os.close, self._results_fd)
        self._progress_fd, writing_fd = os.pipe2(os.O_CLOEXEC)
        running.callback(os.close, self._progress_fd)
        try:
            self._pid = os.fork()
        except OSError:
            os.close(writing_fd)
            raise
        running.callback(self._end)
        if self._pid == 0:
            code = 1
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # those of its parent are not for it
                _close_all_but(self._results_fd, writing_fd)
                for start in range(0, len(items), _SLICE):
                    _write(self._results_fd, marshal.dumps(work(items[start : start + _SLICE])))
                    os.write(writing_fd, b".")
                code = 0
            finally:
                os._exit(code)
        os.close(writing_fd)

    def wait(self, count: int, beat: Callable[[], None]) -> list[Any] | None:
        """Its results when it has ended; None unless there are `count`."""
        while os.read(self._progress_fd, 1):
            beat()
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        if status != 0:
            return None
        results: list[Any] = []
        with os.fdopen(os.dup(self._results_fd), "rb") as file:
            file.seek(0)
            while len(results) < count:
                results += marshal.load(file)  # noqa: S302  (our own process wrote it)
        return results

    def _end(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _close_all_but(*kept: int) -> None:
    start = 0
    for fd in sorted(kept):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, _HIGHEST_FD)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
