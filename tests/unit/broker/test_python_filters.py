"""Filter functions in Python: what they select; failures affect no other client, and errors name the function."""

import asyncio
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.filtering.python_filters import PythonFilterFailed, PythonFilterWorker
from headrace.protocol.record import encode_record
from support.descriptors import settled_descriptors

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
MEMORY = 256 << 20
START_S = 60.0
"""A worker's start on a busy machine."""


class Starter:
    """Starts workers as the supervisor does: a listening socket, and a fresh interpreter that inherits nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> Path:
        path = self.folder / f"filter-{len(self.processes)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(1)
            fd = listening.fileno()
            code = f"import sys; sys.path[:0] = {[str(ROOT)]!r}; from store.filter.python import worker; worker.main({fd}, {MEMORY})"
            self.processes.append(subprocess.Popen([sys.executable, "-I", "-B", "-c", code], pass_fds=[fd]))
        return path

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    made = Starter(tmp_path)
    yield made
    made.close()


def records(*prices: int) -> list[bytes]:
    return [encode_record(topic="T", body=b"%d" % price, properties=f"price\x01{price}") for price in prices]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def matching(starter: Starter, body: str, *prices: int, deadline_s: float = 60) -> tuple[list[bool], str]:
    """The answers of the function with this body, and its last error."""
    source = "def wants(message):\n" + "".join(f"    {line}\n" for line in body.splitlines())

    async def within() -> tuple[list[bool], str]:
        worker = await PythonFilterWorker.call("mine", source, starter.start(), START_S)
        try:
            return await worker.match(records(*prices), deadline_s), worker.last_error
        finally:
            worker.close()

    answers: tuple[list[bool], str] = run(within())
    assert starter.processes[-1].wait(60) is not None
    return answers


def test_function_can_use_every_field_of_a_message(starter: Starter) -> None:
    body = "import json, re\nreturn int(message.properties['price']) > 10 and json.loads(message.body) % 2 == 0 and message.topic == 'T'"
    assert matching(starter, body, 5, 50, 51, 70) == ([False, True, False, True], "")


MISDEEDS = [
    ("raise ValueError('dear')", "ValueError: dear (line"),
    ("return 1 / 0", "ZeroDivisionError"),
    ("return 'yes'", "it returned str"),
    ("return None", "it returned NoneType"),
    ("return misdeed4(message)", "RecursionError"),
    ("raise SystemExit(3)", "SystemExit"),
    ("x = bytearray(1 << 30)\nreturn True", "MemoryError"),
    ("return bool([0] * 10 ** 9)", "MemoryError"),
    ("return bool(open('/etc/passwd').read())", "PermissionError"),
    ("open('/tmp/mine', 'w').write('x')\nreturn True", "PermissionError"),
    ("import os\nos.unlink('/tmp/mine')\nreturn True", "PermissionError"),
    ("import os\nos.listdir('/')\nreturn True", "PermissionError"),
    ("import socket\nsocket.socket()\nreturn True", "PermissionError"),
    ("import socket\nsocket.create_connection(('127.0.0.1', 80))\nreturn True", "Error"),
    ("import os\nos.fork()\nreturn True", "PermissionError"),
    ("import os\nos.execv('/bin/sh', ['sh'])\nreturn True", "PermissionError"),
    ("import os\nos.kill(os.getppid(), 9)\nreturn True", "PermissionError"),
    ("import threading\nthreading.Thread(target=print).start()\nreturn True", "Error"),
    ("import xml.dom\nreturn True", "Error"),
    ("class E(Exception):\n    def __str__(self): raise self\nraise E", "an error without a text"),
]  # fmt: skip


def test_forbidden_operation_fails_in_the_function_and_is_reported(starter: Starter) -> None:
    # One worker for all: none of them hinders it from answering the next message.
    functions = [
        f"def misdeed{number}(message):\n" + "".join(f"    {line}\n" for line in body.splitlines())
        for number, (body, _) in enumerate(MISDEEDS)
    ]
    source = (
        "".join(functions) + "def wants(message):\n    return globals()[f'misdeed{message.body.decode()}'](message)\n"
    )

    async def within() -> list[tuple[list[bool], str]]:
        worker = await PythonFilterWorker.call("mine", source, starter.start(), START_S)
        said = [(await worker.match(records(number), 60), worker.last_error) for number in range(len(MISDEEDS))]
        worker.close()
        return said

    for (body, error), (answers, told) in zip(MISDEEDS, run(within()), strict=True):
        assert answers == [False], body
        assert error in told, (body, told)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("while True: pass", "took longer than 0.3 s"),
        ("try:\n    while True: pass\nexcept BaseException:\n    while True: pass", "took longer"),
        ("import time\ntime.sleep(60)", "took longer"),
        ("return bool(9 ** 9 ** 9)", "took longer"),
        ("import os\nos._exit(0)", "crashed: its worker process exited"),
        ("import ctypes\nreturn bool(ctypes.string_at(0))", "crashed: its worker process exited"),
        ("import os\nfor fd in range(3, 100):\n    try: os.close(fd)\n    except OSError: pass\nreturn True", "crashed: its worker process exited"),
        ("import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'x' * 1000)\n    except OSError: pass\nreturn True", "sent an invalid response"),
        ("import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'\\0\\0\\0\\2M\\7\\7')\n    except OSError: pass\nreturn True", "sent an invalid response"),
    ],
)  # fmt: skip
def test_function_that_cannot_be_interrupted_is_killed(starter: Starter, body: str, reason: str) -> None:
    deadline_s = 0.3 if "longer" in reason else 60  # what is to come before the deadline may come slowly
    with pytest.raises(PythonFilterFailed, match="the filter function mine " + reason):
        matching(starter, body, 1, 2, deadline_s=deadline_s)
    assert starter.processes[-1].wait(60) is not None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are those of x86-64")
def test_direct_system_calls_of_a_function_are_refused(starter: Starter) -> None:
    calls = {
        "open": "2, b'/etc/passwd', 0",
        "openat": "257, -100, b'/etc/passwd', 0",
        "socket": "41, 2, 1, 0",
        "fork": "57",
        "ptrace": "101, 0, 0, 0",
    }
    asked = " or ".join(f"libc.syscall({arguments}) != -1" for arguments in calls.values())
    body = (
        f"import ctypes\nlibc = ctypes.CDLL(None)\nif libc.syscall(39) <= 0: raise ValueError('no pid')\nreturn {asked}"
    )
    assert matching(starter, body, 1) == ([False], "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def wants(message", "SyntaxError"),
        ("x = 5", "no function wants"),
        ("wants = True", "no function wants"),
        ("open('/etc/passwd')", "PermissionError"),
        ("import xml.dom", "Error"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_source_without_a_function_is_refused(starter: Starter, source: str, reason: str) -> None:
    with pytest.raises(PythonFilterFailed, match=f"cannot be used: .*{reason}"):
        run(PythonFilterWorker.call("mine", source, starter.start(), START_S))


def test_source_that_does_not_finish_loading_is_killed(starter: Starter) -> None:
    path = starter.start()
    with pytest.raises(PythonFilterFailed, match="took longer"):
        run(PythonFilterWorker.call("mine", "while True: pass", path, START_S, load_s=0.3))


def test_missing_worker_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PythonFilterFailed, match="has no worker"):
        run(PythonFilterWorker.call("mine", "", tmp_path / "nobody", 1))


def test_worker_exits_when_the_broker_disconnects_and_leaks_no_descriptor(starter: Starter) -> None:
    before = len(settled_descriptors())
    call: Callable[[], Any] = lambda: matching(starter, "return True", 1)  # noqa: E731
    assert call() == ([True], "")
    assert len(os.listdir("/proc/self/fd")) == before
