"""The local engine: a few processes on this machine, without Spark or Java.

Workers are started again (not forked: the driver has threads), and the kernel kills them should the driver die, so that nobody writes into staging
after the target's lock is free. A worker that is killed is replaced and its range written again.

Each worker has a pipe of its own and shares no lock with others: its death is the end of that pipe, whatever it was doing. The pool of the
standard library (3.11) is not used, because it waits for ever when a worker dies while another is being started.
"""

import ctypes
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from spark_exporter.errors import ExportError
from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.segments import Segment
from spark_exporter.storage.location import Location
from spark_exporter.writing.range_files import WriteTask, write_range
from spark_exporter.writing.range_result import RangeResult

_SMALL_BYTES: Final = 16 << 20  # limit: read sooner than a worker has started
_DEATHS: Final = 10
_REPORT_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1


class LocalEngine:
    """A few processes, each with one range at a time."""

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
            yield from self._write_in_workers(ranges, task, report)

    def check_paths(self, segments: Sequence[Segment], target: Location) -> None:
        """They are on this machine."""

    def close(self) -> None:
        """Workers live as long as one call of `write`."""

    @staticmethod
    def _write_here(
        ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        before = 0
        for byte_range in ranges:
            yield write_range(byte_range, task, lambda done, before=before: report(before + done))  # type: ignore[misc]
            before += byte_range.size_bytes

    def _write_in_workers(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        done_bytes = _SPAWN.RawArray("q", len(ranges))
        left = deque(range(len(ranges)))
        deaths = 0
        workers: dict[Connection, _Worker] = {}
        try:
            while left or workers:
                while left and len(workers) < self.workers:
                    worker = _Worker(task, done_bytes)
                    workers[worker.connection] = worker
                    worker.give(left.popleft(), ranges)
                for ready in wait(list(workers), _REPORT_S):
                    worker = workers[ready]  # type: ignore[index]
                    result = worker.take()
                    if result is None:
                        deaths += 1
                        left.appendleft(worker.number)
                    if result is None or not left:
                        del workers[worker.connection]
                        worker.end()
                    else:
                        worker.give(left.popleft(), ranges)
                    if isinstance(result, Exception):
                        raise result
                    if result is not None:
                        yield RangeResult.from_json(result)
                report(sum(done_bytes))
                if deaths >= _DEATHS:
                    raise ExportError(
                        f"workers were killed repeatedly, with {len(left) + len(workers)} ranges left; if memory is short, "
                        "use fewer --workers; then run the command again"
                    )
        finally:
            for worker in workers.values():
                worker.kill()


_SPAWN: Final = multiprocessing.get_context("spawn")


class _Worker:
    """One process, seen by the driver. `number`: the range that it has, or had last."""

    def __init__(self, task: WriteTask, done_bytes: Any) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.number = -1
        # order: the driver releases the worker's end, so that the worker's death is the end of what can be read.
        with theirs:
            # Arrow's allocator gives memory back and faults it in again for every batch, unless it is told to wait.
            os.environ.setdefault("MIMALLOC_PURGE_DELAY", "20000")
            self._process = _SPAWN.Process(target=_work, args=(theirs, os.getpid(), done_bytes, task), daemon=True)
            # Ctrl-C is for the driver: a worker does not hear of it from its first moment on.
            # (Where the tracker does not run yet, `start` would begin it, which lets signals through.)
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def give(self, number: int, ranges: Sequence[ByteRange]) -> None:
        """Have a range written."""
        self.number = number
        try:
            self.connection.send((number, ranges[number]))
        except OSError:
            pass  # it has died: `take` says so

    def take(self) -> dict[str, Any] | Exception | None:
        """What became of the range; None: the worker has died."""
        try:
            result: dict[str, Any] | Exception = self.connection.recv()
        except (EOFError, OSError):
            return None
        return result

    def kill(self) -> None:
        """What it has is of no use any more."""
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Let it finish what it has, and wait for its end."""
        self.connection.close()
        self._process.join()
        self._process.close()


def _work(driver: Connection, driver_pid: int, done_bytes: Any, task: WriteTask) -> None:
    """A worker's whole life: ranges come, results go."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver_pid:
        os._exit(1)
    while True:
        try:
            number, byte_range = driver.recv()
        except EOFError:
            return
        result = _write(byte_range, task, done_bytes, number)
        try:
            driver.send(result)
        except BrokenPipeError:
            return


def _write(byte_range: ByteRange, task: WriteTask, done_bytes: Any, number: int) -> dict[str, Any] | Exception:
    def report(done: int) -> None:
        done_bytes[number] = done

    try:
        result = write_range(byte_range, task, report)
    except Exception as error:  # noqa: BLE001  raised by the driver
        if not isinstance(error, ExportError):
            error.add_note(traceback.format_exc())
        return error
    report(byte_range.size_bytes)
    return result.as_json()
