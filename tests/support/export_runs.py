"""Exports and compactions in processes forked from one that has everything imported, so that many can run at once.

    with ExportRun(server, "one", source, target) as run:
        run.pause_at(7)                      with its 7th request
        run.start()
        ...
        run.proceed()
        assert run.join() == BUSY

Their owners' leases are short: LEASE_S.
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Final, Self

from spark_exporter.errors import TargetBusy, TargetError
from spark_exporter.running.compact import compact
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.targets import reach, target_lock
from spark_exporter.targets.open_target import find_target
from support.exported import request
from support.s3_server import S3Server

DONE: Final = 0
BUSY: Final = 3
KILLED: Final = -signal.SIGKILL
FAILED: Final = 4
"""With a TargetError: a request of one that was paused may have run out of time meanwhile."""
LEASE_S: Final = 1.0
_WITHIN_S: Final = 120.0

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


class ExportRun:
    """One run, which the server knows by its name. A context manager that ends the run on exit."""

    def __init__(self, server: S3Server, name: str, source: Path, target: str, *, compacts: bool = False) -> None:
        self.name = name
        self.is_paused = threading.Event()
        self.was_paused = False
        self._server = server
        self._process = _CONTEXT.Process(
            target=_run, args=(str(source), target, server.environment(name), compacts), daemon=True
        )

    def start(self) -> None:
        """Starts the run."""
        self._process.start()

    def kill_at(self, number: int, *, after: bool = False) -> None:
        """Kills it with SIGKILL when the request with this number arrives, or after it was carried out."""
        (self._server.after if after else self._server.before)(self.name, number, lambda: self._signal(signal.SIGKILL))

    def pause_at(self, number: int, *, after: bool = False) -> None:
        """Pauses it with SIGSTOP."""

        def pause() -> None:
            self._signal(signal.SIGSTOP)
            self.was_paused = True
            self.is_paused.set()

        (self._server.after if after else self._server.before)(self.name, number, pause)

    def proceed(self) -> None:
        """Resumes it if it was paused."""
        if self._process.is_alive():
            self._signal(signal.SIGCONT)
        self.is_paused.clear()

    @property
    def is_at_work(self) -> bool:
        """Whether it is neither over nor paused."""
        return self._process.is_alive() and not self.is_paused.is_set()

    def join(self) -> int:
        """Waits for the end and returns the exit code."""
        self._process.join(_WITHIN_S)
        assert self._process.exitcode is not None, f"{self.name} does not end"
        return self._process.exitcode

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()


def _run(source: str, target: str, environment: dict[str, str], compacts: bool) -> None:
    os.environ.update(environment)
    target_lock.LEASE_S = LEASE_S  # type: ignore[misc]
    reach._reached.add(target)  # which would need another process
    try:
        if compacts:
            found = find_target(target)
            if found is not None:
                compact(found)
        else:
            with Export(request(Path(source), target, commit_every_s=0.0), LocalEngine(1)) as export:
                export.run_once()
    except TargetBusy:
        sys.exit(BUSY)
    except TargetError:
        traceback.print_exc()
        sys.exit(FAILED)
    except BaseException:
        traceback.print_exc()
        raise
