"""The official Java client, driven by tests: one long-lived JVM that takes commands (`tests/interop/java`).

    with Java(tmp_path) as java:
        java.call("create-topic", namesrv=..., broker=..., topic="Orders", queues=4)
        sent = java.call("send", namesrv=..., topic="Orders", mode="async", first=0, count=100)

The commands and their arguments are documented at the methods of the Java classes. Several may run at once (`start`).
"""

import fcntl
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from support.reference import SCRIPT

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "interop" / "java"
BUILD = ROOT / "build" / "java"
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
IMPATIENT = ("-Drocketmq.client.rebalance.waitInterval=500",)
"""Looks every half second, not every 20 s, which queues are its own and whether it may lock them."""
TCNATIVE = "2.0.39.Final"
"""The version that belongs to the client's Netty, 4.1.65."""
LOCKED_S = 60
"""A broker keeps a queue's lock for so long. A client that renews all its locks while it lets a queue go may lock that again, for nobody."""


class JavaError(Exception):
    """The client threw an exception: its class and message."""


class Java:
    """A JVM with the official client. It ends when its input closes, so also when the test run dies."""

    def __init__(
        self,
        home: Path,
        *,
        serialize: str = "JSON",
        heap: str = "768m",
        flags: tuple[str, ...] = QUICK_START,
        jars: tuple[Path, ...] = (),
    ) -> None:
        """`home`: its logs and local offsets. `serialize`: header encoding, JSON or ROCKETMQ. `flags`: of the JVM. `jars`: added to the class path."""
        home.mkdir(parents=True, exist_ok=True)
        told = {
            "user.home": str(home),
            "rocketmq.client.logRoot": str(home / "logs"),
            "rocketmq.client.localOffsetStoreDir": str(home / "offsets"),
            "rocketmq.serialize.type": serialize,
        }
        self.log = home / "java.log"
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    "java", f"-Xmx{heap}", *flags,
                    *(f"-D{name}={value}" for name, value in told.items()),
                    "-cp", ":".join(map(str, (compile_program(), *jars, class_path()))), "Interop",
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8", start_new_session=True,
                cwd=home,  # mqadmin commands write files into the current directory
            )  # fmt: skip
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._process.pid

    def start(self, do: str, **arguments: Any) -> "Future[Any]":
        """Sends a command without waiting for its result."""
        answer: Future[Any] = Future()
        number = next(self._ids)
        with self._lock:
            self._waiting[number] = answer
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        return answer

    def call(self, do: str, *, timeout_s: float = 90, **arguments: Any) -> Any:
        """Runs a command and returns its result. JavaError if the client threw, TimeoutError if there was no answer."""
        try:
            return self.start(do, **arguments).result(timeout_s)
        except TimeoutError:
            message = f"no answer to {do} {arguments} within {timeout_s:g} s; see {self.log}"
            raise TimeoutError(message) from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            with self._lock:
                answer = self._waiting.pop(said["id"])
            if "error" in said:
                answer.set_exception(JavaError(said["error"]))
            else:
                answer.set_result(said["result"])
        with self._lock:
            for answer in self._waiting.values():
                answer.set_exception(JavaError(f"the JVM ended; see {self.log}"))
            self._waiting.clear()

    def close(self) -> None:
        """Ends the JVM without unregistering: stop consumers first if their offsets matter."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def kill(self) -> None:
        """Kills the JVM, as in a crash of the client."""
        self._process.kill()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def class_path() -> str:
    """The official client's jars; the first call ever fetches them with Maven."""
    done = subprocess.run([sys.executable, str(SCRIPT), "classpath"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def openssl_jar() -> Path:
    """Netty's OpenSSL for the official client, which uses it instead of Java's own TLS if it is on the class path. The first call fetches it with Maven."""
    folder = BUILD / "openssl"
    jar = folder / f"netty-tcnative-boringssl-static-{TCNATIVE}.jar"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            artifact = f"-Dartifact=io.netty:netty-tcnative-boringssl-static:{TCNATIVE}"
            command = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={folder}"]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert jar.exists(), done.stdout + done.stderr
    return jar


def compile_program() -> Path:
    """The folder with the compiled `tests/interop/java`; compiles it if a source has changed."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = BUILD / digest
    if target.exists():
        return target
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may compile at once
        if not target.exists():
            fresh = BUILD / f"{digest}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            done = subprocess.run(
                ["javac", "-encoding", "UTF-8", "-nowarn", "-d", str(fresh), "-cp", class_path(), *map(str, sources)],
                check=False, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            os.rename(fresh, target)
    return target
