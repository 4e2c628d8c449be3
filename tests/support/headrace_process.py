"""`headrace run` in a separate process, with its output and exit code, for tests of the appliance itself.

`toy` runs the same program with the roles of `support.toy_appliance` instead of the real ones.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from ipc.instance import Instance
from support.servers import free_ports, wait_until

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 60


def headrace(*arguments: str | os.PathLike[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `headrace ARGUMENTS` to its end; never raises for an exit code."""
    command = [sys.executable, "-m", "appliance.cli.main", *(os.fspath(argument) for argument in arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=cwd, env=_environment(), check=False
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}


class HeadraceProcess:
    """A started `headrace run`; the test checks whether it succeeds."""

    def __init__(
        self,
        data: Path,
        *arguments: str,
        toy: str | None = None,
        ports: tuple[int, int] | None = None,
        prefix: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.data = data
        self.ports = ports or free_ports()
        program = ["-m", "appliance.cli.main", "run"] if toy is None else ["-m", "support.toy_appliance", toy]
        self._out, self._err = (data.with_name(f"{data.name}.{name}") for name in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                # Tests may run under nohup, whose ignored SIGHUP would be inherited.
                [
                    "env", "--default-signal=HUP", *prefix, sys.executable, *program, "--data", str(data),
                    "--nameserver-port", str(self.ports[0]), "--port", str(self.ports[1]),
                    *(() if "--console-port" in arguments else ("--no-console",)), *arguments,
                ],
                stdin=stdin, stdout=out, stderr=err, env=_environment(), start_new_session=True,
            )  # fmt: skip
        self._known: dict[int, psutil.Process] = {}

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text()

    @property
    def log(self) -> str:
        """The log file so far."""
        path = self.data / "logs" / "headrace.log"
        return path.read_text() if path.exists() else ""

    def wait_ready(self) -> Self:
        """Waits until it is ready; AssertionError with its output if it ends before."""

        def is_ready() -> bool:
            if self.process.poll() is not None:
                message = f"ended with {self.process.returncode}:\n{self.out}{self.err}{self.log[-4000:]}"
                raise AssertionError(message)
            return "ready" in self.out

        wait_until(is_ready, DEADLINE_S, "ready")
        return self

    def wait_end(self) -> int:
        """Waits until it has ended and returns the exit code."""
        return self.process.wait(DEADLINE_S)

    def stop(self) -> int:
        """Sends SIGTERM, waits, and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def status(self) -> dict[str, Any]:
        """The output of `headrace status --json`."""
        said: dict[str, Any] = json.loads(headrace("status", "--json", "--data", self.data).stdout)
        return said

    def role(self, name: str) -> dict[str, Any]:
        """One role's part of the status."""
        said: dict[str, Any] = self.status()["roles"][name]
        return said

    def pid_of(self, name: str) -> int:
        """The pid of a running role."""
        return int(self.role(name)["pid"])

    def tell(self, role: str, what: str) -> None:
        """Makes a toy role do something (`support.toy_appliance`)."""
        path = self.data / f"{role}.do"
        path.with_suffix(".new").write_text(what)
        path.with_suffix(".new").rename(path)

    def wait_log(self, text: str) -> None:
        """Waits until the log file contains a text."""
        wait_until(lambda: text in self.log, DEADLINE_S, f"{text!r} in the log")

    def wait_restarted(self, role: str, restarts: int = 1) -> dict[str, Any]:
        """Waits until a role is running again after this many restarts and returns its status."""

        def is_again() -> bool:
            said = self.role(role)
            return said["state"] == "running" and int(said["restarts"]) >= restarts

        wait_until(is_again, DEADLINE_S, f"{role} running again")
        return self.role(role)

    def processes(self) -> list[psutil.Process]:
        """The supervisor and its children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(self.process.pid)
            return [supervisor, *supervisor.children()]
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        processes = self.processes()
        if self.process.poll() is None:
            self.process.kill()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(processes, timeout=10)
        # A killed process has no successor that would clean it up.
        for store in (self.data / "store", *self.data.glob("*/store")):
            Instance.remove_stale(store)
