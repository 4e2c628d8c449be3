"""The engine without Spark or Java: a few processes of this machine.

Workers are started anew (not forked: the driver has threads), and the kernel kills them should the driver die, so that nobody writes into staging
after the target's lock is free. A worker that is killed is replaced and its range written again.
"""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

from spark_exporter.errors import ExportError
from spark_exporter.range_files import WriteTask, write_range
from spark_exporter.range_result import RangeResult
from spark_exporter.range_scan import ByteRange

_SMALL_BYTES: Final = 16 << 20  # limit: read sooner than a worker has started
_BROKEN_POOLS: Final = 3
_REPORT_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1

_done_bytes: Any = None
"""In a worker: an array shared with the driver, a number for each range. Each is written by the one task that has the range."""


class LocalEngine:
    """A pool of processes."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        """`workers`: processes; None: one a core."""
        self.workers = workers or len(os.sched_getaffinity(0))

    def write(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        """See `Engine.write`."""
        if len(ranges) == 1 or sum(each.size_bytes for each in ranges) <= _SMALL_BYTES or self.workers == 1:
            yield from self._write_here(ranges, task, report)
        else:
            yield from self._write_in_pool(ranges, task, report)

    def close(self) -> None:
        """A pool lives as long as one call of `write`."""

    @staticmethod
    def _write_here(
        ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        before = 0
        for byte_range in ranges:
            yield write_range(byte_range, task, lambda done, before=before: report(before + done))  # type: ignore[misc]
            before += byte_range.size_bytes

    def _write_in_pool(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        context = multiprocessing.get_context("spawn")
        done_bytes = context.RawArray("q", len(ranges))
        left = set(range(len(ranges)))
        for _ in range(_BROKEN_POOLS):
            pool = ProcessPoolExecutor(
                min(self.workers, len(left)), context, initializer=_begin, initargs=(os.getpid(), done_bytes)
            )
            try:
                waiting = {pool.submit(_write, number, ranges[number], task): number for number in sorted(left)}
                for future in _as_done(set(waiting), lambda: report(sum(done_bytes))):
                    yield RangeResult.from_json(future.result())
                    left.discard(waiting[future])
                return
            except BrokenProcessPool:
                continue
            finally:
                pool.shutdown(cancel_futures=True)
        raise ExportError(f"workers were killed again and again; {len(left)} ranges are left")


def _as_done(waiting: set[Future[Any]], report: Callable[[], None]) -> Iterator[Future[Any]]:
    while waiting:
        done, waiting = wait(waiting, timeout=_REPORT_S, return_when=FIRST_COMPLETED)
        report()
        yield from done


def _begin(driver: int, done_bytes: Any) -> None:
    global _done_bytes
    _done_bytes = done_bytes
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its workers


def _write(number: int, byte_range: ByteRange, task: WriteTask) -> dict[str, Any]:
    def report(done: int) -> None:
        _done_bytes[number] = done

    result = write_range(byte_range, task, report)
    report(byte_range.size_bytes)
    return result.as_json()
