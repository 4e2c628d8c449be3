"""An appliance for a test, started as an operator starts it: `headrace run` in a separate process.

    with Appliance(tmp_path / "data", settings={"flushDiskType": "SYNC_FLUSH"}) as appliance:
        os.kill(appliance.pid_of("flush"), signal.SIGKILL)

Everything it is asked goes through the command line; only its own processes are ever killed, by pid.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from ipc.instance import Instance
from support.servers import free_ports, wait_until

HEADRACE = Path(sys.executable).with_name("headrace")
START_DEADLINE_S = 90
STOP_DEADLINE_S = 90


class Appliance:
    """A running appliance; it is ready when the constructor returns."""

    name = "headrace"

    def __init__(
        self,
        data: Path,
        *,
        settings: dict[str, str] | None = None,
        ports: tuple[int, int] | None = None,
        more: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        console_port: int | None = None,
    ) -> None:
        """`settings`: `--set` keys. `ports`: name server's and broker's, to start again where it was. `more`: further arguments.

        Without `console_port` it has no console, whose default port others may use.
        """
        self.data = data
        self.ports = ports or free_ports()
        self.console_port = console_port or 0
        data.mkdir(parents=True, exist_ok=True)
        self.log = data.with_name(data.name + ".log")
        self.command = [
            str(HEADRACE), "run", "--data", str(data), "--host", "127.0.0.1",
            "--nameserver-port", str(self.ports[0]), "--port", str(self.ports[1]),
            *(("--no-console",) if console_port is None else ("--console-port", str(console_port))),
            *(f"--set={key}={value}" for key, value in (settings or {}).items()), *more,
        ]  # fmt: skip
        began = time.monotonic()
        said_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        try:
            wait_until(lambda: self._has_said("headrace: ready", said_before), START_DEADLINE_S, f"ready in {self.log}")
        except BaseException:
            self.kill()
            raise
        self.started_in_s = time.monotonic() - began

    def _has_said(self, word: str, after: int) -> bool:
        has_ended = self.process.poll() is not None  # first, so that all that it has written is read
        said = self.log.read_bytes()[after:].decode(errors="replace")
        if has_ended:
            message = f"headrace run ended with {self.process.returncode}:\n{said[-4000:]}"
            raise AssertionError(message)
        return word in said

    @property
    def name_server(self) -> str:
        """HOST:PORT of the name server."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def broker(self) -> str:
        """HOST:PORT of the broker."""
        return f"127.0.0.1:{self.ports[1]}"

    @property
    def store(self) -> Path:
        """The store's root."""
        return self.data / "store"

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `headrace ARGUMENTS` to its end."""
        return subprocess.run([str(HEADRACE), *arguments], check=check, capture_output=True, text=True, timeout=120)

    def status(self) -> dict[str, Any]:
        """The output of `headrace status --json`."""
        said: dict[str, Any] = json.loads(self.run("status", "--data", str(self.data), "--json").stdout)
        return said

    def pid_of(self, role: str) -> int:
        """The current process id of a role."""
        return int(self.status()["roles"][role]["pid"])

    def wait_restarted(self, role: str, old_pid: int, deadline_s: float = 60) -> int:
        """Waits until a role runs in a process other than `old_pid` and returns its pid."""
        wait_until(lambda: self._runs_anew(role, old_pid), deadline_s, f"{role} restarted after pid {old_pid}")
        return self.pid_of(role)

    def _runs_anew(self, role: str, old_pid: int) -> bool:
        said = self.status()["roles"][role]
        return said["state"] == "running" and said["pid"] not in (None, 0, old_pid) and psutil.pid_exists(said["pid"])

    def pids(self) -> list[int]:
        """The supervisor and all its running descendants."""
        try:
            supervisor = psutil.Process(self.process.pid)
            return [supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """Sends SIGTERM and waits. AssertionError if it does not end, or not with 0."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            stuck = [" ".join(psutil.Process(pid).cmdline()) for pid in self.pids()]
            self.kill()
            message = (
                f"headrace run did not end within {STOP_DEADLINE_S} s of SIGTERM; still there: {stuck}; see {self.log}"
            )
            raise AssertionError(message) from None
        assert code == 0, f"headrace run ended with {code}:\n{self.log.read_text(errors='replace')[-4000:]}"

    def kill(self) -> None:
        """Sends SIGKILL to all its processes at once, as in a machine crash, and waits until they are gone.

        Removes their shared memory too, as in such a crash: there may be no successor to clean it up.
        """
        processes = []
        for pid in self.pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(pid))
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(processes, timeout=60)
        for store in (self.store, *self.data.glob("*/store")):
            Instance.remove_stale(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
