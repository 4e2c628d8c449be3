"""The local engine: a few processes on this machine, without Spark or Java.

Workers are spawned (not forked, because the driver has threads). The kernel kills them if the driver dies, so that nothing is written to staging
after the target's lock is free. A killed worker is replaced, and its range is written again.

Each worker has its own pipe and shares no locks, so its death always appears as the end of that pipe. The process pool of the
standard library (3.11) is not used because it can hang if a worker dies while another one starts.
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

_SMALL_BYTES: Final = 16 << 20  # limit: a log this small is read before a worker has started
_DEATHS: Final = 10
_REPORT_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1


class LocalEngine:
    """Runs a few processes, each with one range at a time."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        """`workers`: number of processes; None: one per core."""
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
        """Nothing to check: workers run on this machine."""

    def close(self) -> None:
        """Workers live for one call of `write`."""

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
                        "reduce --workers; then run the command again"
                    )
        finally:
            for worker in workers.values():
                worker.kill()


_SPAWN: Final = multiprocessing.get_context("spawn")


class _Worker:
    """A worker process, as seen by the driver. `number`: its current or last range."""

    def __init__(self, task: WriteTask, done_bytes: Any) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.number = -1
        # order: the driver closes the worker's end of the pipe, so that the worker's death ends the stream.
        with theirs:
            # By default Arrow's allocator returns memory after every batch, and each batch pays for page faults.
            os.environ.setdefault("MIMALLOC_PURGE_DELAY", "20000")
            self._process = _SPAWN.Process(target=_work, args=(theirs, os.getpid(), done_bytes, task), daemon=True)
            # Ctrl-C is for the driver: workers ignore it from the start.
            # (`start` would start the resource tracker if it is not running yet, which unblocks signals.)
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def give(self, number: int, ranges: Sequence[ByteRange]) -> None:
        """Send a range to be written."""
        self.number = number
        try:
            self.connection.send((number, ranges[number]))
        except OSError:
            pass  # it has died: `take` reports that

    def take(self) -> dict[str, Any] | Exception | None:
        """The result of the range; None if the worker has died."""
        try:
            result: dict[str, Any] | Exception = self.connection.recv()
        except (EOFError, OSError):
            return None
        return result

    def kill(self) -> None:
        """Kill it; its range is not needed any more."""
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Let it finish its range, and wait until it has ended."""
        self.connection.close()
        self._process.join()
        self._process.close()


def _work(driver: Connection, driver_pid: int, done_bytes: Any, task: WriteTask) -> None:
    """The main loop of a worker: receive a range, send its result."""
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
