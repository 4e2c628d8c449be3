"""A standalone Spark cluster on this machine: a master and two workers of one core each, on free ports.

    with SparkCluster(tmp_path) as cluster:
        subprocess.run([..., "--master", cluster.url], env=cluster.environment())

Made of what lies in the package pyspark. Everything is gone at its end, or with the process that made it.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

import psutil
import pyspark

WORKERS: Final = 2
_START_S: Final = 300
_SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_QUICK_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_NO_REST: Final = "-Dspark.master.rest.enabled=false"  # it would need a port of its own, one of a few
_PR_SET_PDEATHSIG: Final = 1


class SparkCluster:
    """A context manager. `url`: the argument of `--master`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "org.apache.spark.deploy.master.Master")
            self.url = self._await("master", r"(spark://127\.0\.0\.1:\d+)", 1)[0]
            for number in range(WORKERS):
                folder = self.work_folder(number)
                self._start(
                    f"worker-{number}", "org.apache.spark.deploy.worker.Worker",
                    "--cores", "1", "--memory", "1g", "--work-dir", str(folder), self.url,
                )  # fmt: skip
            self._await("master", r"Registering worker \S+", WORKERS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            for each in [*_children(process.pid), psutil.Process(process.pid)] if process.poll() is None else []:
                try:
                    each.kill()
                except psutil.NoSuchProcess:
                    pass
            process.wait()

    def work_folder(self, number: int) -> Path:
        """The folder in which a worker keeps one folder for each application that had an executor there."""
        return self._home / f"work-{number}"

    def executors(self) -> list[psutil.Process]:
        """The executors that are running now."""
        found = [child for process in self._processes[1:] for child in _children(process.pid)]
        return [each for each in found if is_executor(each)]

    def environment(self) -> dict[str, str]:
        """The environment for a driver: small executors that start quickly, no lookup of the host name."""
        options = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": _QUICK_START,
            "spark.executor.extraJavaOptions": _QUICK_START,
        }
        said = " ".join(f"--conf '{name}={value}'" for name, value in options.items())
        return {**_environment(), "PYSPARK_SUBMIT_ARGS": f"{said} pyspark-shell"}

    def _start(self, name: str, main: str, *arguments: str) -> None:
        with self._log(name).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [_SPARK_CLASS, main, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments],
                    env={
                        **_environment(),
                        "SPARK_DAEMON_MEMORY": "256m",
                        "SPARK_DAEMON_JAVA_OPTS": f"{_QUICK_START} {_NO_REST}",
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509
                )
            )

    def _await(self, name: str, wanted: str, count: int) -> list[str]:
        """Waits until a log contains a text this often."""
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            text = self._log(name).read_text(errors="replace")
            found = re.findall(wanted, text)
            if len(found) >= count:
                return found
            assert all(process.poll() is None for process in self._processes), text
            time.sleep(0.05)
        raise AssertionError(f"the {name} has not logged {wanted} {count} times: {text[-4000:]}")

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_executor(process: psutil.Process) -> bool:
    """Whether a process is one."""
    try:
        return "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline()
    except psutil.Error:
        return False


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
