"""ExportRuns: the exports that administrators start in the console, each in a process of its own (`export_process`), one at a time.

The supervisor starts them because they must survive the console, which may be restarted at any time, and end with the appliance. A run
that ended is not started again: exports are exactly once, so the next one continues where it ended. The last runs are kept
in memory for the console; log file and target have the rest.
"""

import logging
import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, field

from appliance.errors import ExportRefused
from appliance.export_order import ExportOrder
from ipc.health_row import monotonic_ms

STOP_MS: Final = (
    10_000  # limit: SIGKILL loses no more than the work since the last commit, and the next run repeats that
)
_KEPT_RUNS: Final = 20
_KEPT_LINES: Final = 10
_LINE_BYTES: Final = 500
_READ_BYTES: Final = 65_536
_PROGRESS: Final = re.compile(rb"progress done_bytes=(\d{1,18}) total_bytes=(\d{1,18})")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")

logger = logging.getLogger(__name__)


class ExportRun(Struct):
    """One run and its process."""

    id: int
    """When it was started (ms since 1970); later runs have greater ones."""
    order: ExportOrder
    process: subprocess.Popen[bytes]
    state: str = "running"
    """`running`, `stopping`, then `done`, `failed` or `stopped`."""
    ended_ms: int | None = None
    done_bytes: int = 0
    total_bytes: int = 0
    output: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """The last lines that it printed."""
    unread: bytes = b""
    began_at_ms: int = field(default_factory=monotonic_ms)
    kill_at_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For answers."""
        return {
            "id": self.id, **self.order.as_json(), "pid": self.process.pid, "state": self.state, "ended_ms": self.ended_ms,
            "done_bytes": self.done_bytes, "total_bytes": self.total_bytes, "output": list(self.output),
        }  # fmt: skip

    def take(self, data: bytes) -> None:
        """Take what it has printed: progress and other lines."""
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.unread = self.unread[:_LINE_BYTES]
        for line in lines:
            if progress := _PROGRESS.fullmatch(line):
                self.done_bytes, self.total_bytes = int(progress[1]), int(progress[2])
            elif line.strip():
                self.output.append(_UNPRINTABLE.sub("\ufffd", line[:_LINE_BYTES].decode("utf-8", "replace")))


class ExportRuns:
    """Starts, watches and stops runs. `command` makes the command line of an order, or raises ExportRefused."""

    def __init__(
        self,
        folder: str,
        brokers: Sequence[str],
        command: Callable[[ExportOrder], list[str]],
        environment: Callable[[], dict[str, str]],
    ) -> None:
        self._folder = folder
        self._brokers = list(brokers)
        self._command = command
        self._environment = environment
        self._runs: deque[ExportRun] = deque(maxlen=_KEPT_RUNS)
        self._current: ExportRun | None = None
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._current is not None

    def as_json(self) -> dict[str, Any]:
        """The answer to `exports`; the newest run first."""
        return {
            "folder": self._folder,
            "brokers": self._brokers,
            "runs": [run.as_json() for run in reversed(self._runs)],
        }

    def start(self, request: dict[str, Any]) -> ExportRun:
        """Start the export that a request describes. Raises ExportRefused."""
        order = ExportOrder.from_request(request)
        if order.broker not in (self._brokers or [""]):
            known = (
                f"existing brokers: {', '.join(self._brokers)}" if self._brokers else "this appliance has one broker"
            )
            raise ExportRefused(f"broker {order.broker[:80]!r} not found; {known}")
        if self._is_closed:
            raise ExportRefused("the appliance is stopping")
        if self._current is not None:
            raise ExportRefused(
                f"the export to {self._current.order.target} is running; wait until it has ended, or stop it"
            )
        try:
            process = subprocess.Popen(
                self._command(order),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd="/",
                start_new_session=True,  # an interrupt of the terminal is the supervisor's to handle
            )
        except OSError as error:
            raise ExportRefused(f"the export could not start: {error.strerror}") from error
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        last = self._runs[-1].id if self._runs else 0
        run = ExportRun(max(time.time_ns() // 1_000_000, last + 1), order, process)
        self._runs.append(run)
        self._current = run
        logger.info(
            "export started target=%s format=%s topics=%s pid=%d",
            order.target,
            order.format,
            ",".join(order.topics) or "all",
            process.pid,
        )
        return run

    def stop(self, run_id: object) -> ExportRun:
        """Ask a run to end; after STOP_MS it is killed. Raises ExportRefused if it does not run."""
        if self._current is None or self._current.id != run_id:
            raise ExportRefused("this export is not running")
        self._end(self._current)
        return self._current

    def close(self) -> None:
        """Start no more runs, and ask the running one to end."""
        self._is_closed = True
        if self._current is not None:
            self._end(self._current)

    def step(self, now_ms: int) -> None:
        """Called in every round of the supervisor."""
        run = self._current
        if run is None:
            return
        code = run.process.poll()
        _read_output(run)
        if code is not None:
            self._current = None
            _close(run, code, now_ms)
        elif run.kill_at_ms is not None and now_ms >= run.kill_at_ms:
            run.process.kill()

    @staticmethod
    def _end(run: ExportRun) -> None:
        if run.kill_at_ms is None:
            run.state = "stopping"
            run.kill_at_ms = monotonic_ms() + STOP_MS
            run.process.send_signal(signal.SIGTERM)


def _read_output(run: ExportRun) -> None:
    """At most one buffer: a process that prints more waits for the next round."""
    assert run.process.stdout is not None
    try:
        run.take(os.read(run.process.stdout.fileno(), _READ_BYTES))
    except BlockingIOError:
        return


def _close(run: ExportRun, code: int, now_ms: int) -> None:
    assert run.process.stdout is not None
    run.process.stdout.close()
    run.take(b"\n")
    was_asked = run.state == "stopping"
    run.state = "done" if code == 0 else "stopped" if was_asked else "failed"
    run.ended_ms = time.time_ns() // 1_000_000
    if code < 0 and not was_asked:
        run.output.append(f"killed by {signal.Signals(-code).name}")
    logger.log(
        logging.WARNING if run.state == "failed" else logging.INFO,
        "export ended target=%s state=%s exit_code=%d uptime_ms=%d output=%r",
        run.order.target,
        run.state,
        code,
        now_ms - run.began_at_ms,
        run.output[-1] if run.output else "",
    )
