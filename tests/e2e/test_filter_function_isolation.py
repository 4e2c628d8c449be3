"""Filter functions in a running appliance: what they select, and that a failing function affects no other consumer."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.response_code import ResponseCode
from ipc.control_socket import ask
from store.filter.python.functions import REPORT, FunctionFolder, read_report
from support.headrace_process import HeadraceProcess, headrace
from support.plain_puller import PlainPuller, bodies
from support.plain_sender import PlainSender
from support.servers import wait_until

pytestmark = pytest.mark.slow

SMALL = ("--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000")
DEADLINE_S = 60
QUEUES = 4

FAILS_OVER_MESSAGES = {
    "hungry": ("return bool(bytearray(1 << 30))", "MemoryError"),
    "reader": ("return bool(open('/etc/passwd').read())", "PermissionError"),
    "caller": ("import socket\nsocket.create_connection(('127.0.0.1', 9))\nreturn True", "Error"),
    "raiser": ("raise ValueError('dear me')", "ValueError: dear me"),
    "babbler": ("return 'yes'", "it returned str, not True or False"),
}
FAILS_AS_A_PROCESS = {
    "looper": ("try:\n    while True: pass\nexcept BaseException:\n    while True: pass", "took longer than 2 s"),
    "liar": ("import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'x' * 1000)\n    except OSError: pass\nreturn True", "sent an invalid response"),
    "quitter": ("import os\nos._exit(0)", "crashed: its worker process exited"),
}  # fmt: skip


def function(body: str) -> str:
    return "def wants(message):\n" + "".join(f"    {line}\n" for line in body.splitlines())


class OtherConsumer:
    """Continuously sends to its own topic and pulls its messages. `longest_s` is the longest time one message took."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.messages = 0
        self.longest_s = 0.0
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            with PlainSender(self._port, "Calm") as sender, PlainPuller(self._port) as puller:
                while not self._is_over.is_set():
                    number = self.messages * QUEUES  # one queue
                    began = time.monotonic()
                    sender.send(number)
                    answer = puller.pull("Calm", offset=self.messages, hold_ms=15_000)
                    assert [int(body.split()[0]) for body in bodies(answer)] == [number]
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    self.messages += 1
                    self._is_over.wait(0.005)
        except BaseException as error:  # noqa: BLE001  (the test's own thread says it)
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(
            lambda: self.messages > 0 or self.error is not None, DEADLINE_S, "the other consumer's first message"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., HeadraceProcess]]:
    with contextlib.ExitStack() as stack:

        def start(workers: int, *settings: str) -> HeadraceProcess:
            arguments = (*SMALL, "--set", f"pythonFilterWorkers={workers}", *settings)
            return stack.enter_context(HeadraceProcess(tmp_path / "data", *arguments)).wait_ready()

        yield start


def role(appliance: HeadraceProcess, name: str) -> dict[str, Any]:
    """One role's part of the status, without the second that the command takes."""
    said: dict[str, Any] = ask(appliance.data / "control.sock", {"command": "status"}, 10)["status"]["roles"][name]
    return said


def kill(appliance: HeadraceProcess, name: str) -> None:
    """Kills a role and waits until it is back."""
    before = role(appliance, name)
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        now = role(appliance, name)
        return bool(now["state"] == "running" and now["restarts"] > before["restarts"])

    wait_until(is_back, DEADLINE_S, f"{name} is back")


def calls(appliance: HeadraceProcess, name: str) -> int:
    return int(read_report(appliance.data / "store" / "config" / REPORT).get(name, {}).get("calls", 0))


def fill(appliance: HeadraceProcess, count: int) -> None:
    """Fills the only queue of topic T."""
    with PlainSender(appliance.ports[1], "T") as sender, PlainPuller(appliance.ports[1]) as puller:
        for number in range(count):
            sender.send(number * QUEUES)
        wait_until(lambda: len(bodies(puller.pull("T"))) >= min(count, 32), DEADLINE_S, "the messages can be pulled")


def test_failing_function_affects_no_other_consumer_and_is_reported_by_name(
    start: Callable[..., HeadraceProcess],
) -> None:
    everyone = FAILS_OVER_MESSAGES | FAILS_AS_A_PROCESS
    appliance = start(len(everyone) + 1, "--set", "pythonFilterTimeout=2000")
    fill(appliance, 3)
    folder = FunctionFolder(appliance.data / "store" / "config" / "filters")
    for name, (body, _) in everyone.items():
        folder.put(name, function(body))
    folder.put("good", function("return message.body.startswith(b'4 ')"))

    with OtherConsumer(appliance.ports[1]) as other, PlainPuller(appliance.ports[1]) as puller:
        for name in FAILS_OVER_MESSAGES:
            answer = puller.pull("T", name, "PYTHON")
            assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "3"), (
                answer.remark
            )
        for name, (_, reason) in FAILS_AS_A_PROCESS.items():
            for _ in range(3):
                answer = puller.pull("T", name, "PYTHON")
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert f"the filter function {name} {reason}" in str(answer.remark)
            assert f"the filter function {name} is disabled" in str(puller.pull("T", name, "PYTHON").remark)
        assert bodies(puller.pull("T", "good", "PYTHON"))[0].startswith(b"4 ")
        assert other.error is None
        seen = other.messages
        wait_until(
            lambda: other.messages > seen or other.error is not None, DEADLINE_S, "one more for the other consumer"
        )
    assert other.error is None
    assert other.longest_s < DEADLINE_S / 2
    wait_until(lambda: calls(appliance, "good") == 1, DEADLINE_S, "the report")
    status = appliance.status()
    said = status["filter_functions"]
    for name, (_, reason) in everyone.items():
        assert reason in said[name]["last_reason"], name
        assert bool(said[name]["disabled_reason"]) is (name in FAILS_AS_A_PROCESS)
        assert f"name={name} " in appliance.log
    text = headrace("status", "--data", appliance.data).stdout
    listed = headrace("filter", "list", "--data", appliance.data).stdout
    for name, (_, reason) in everyone.items():
        for shown in (text, listed):
            line = next(line for line in shown.splitlines() if line.startswith(name))
            assert reason in line
            assert ("disabled" in line) is (name in FAILS_AS_A_PROCESS)
    assert status["roles"]["broker"]["restarts"] == 0

    def restarts() -> int:
        roles = appliance.status()["roles"]
        return sum(one["restarts"] for name, one in roles.items() if name.startswith("filter-"))

    # A worker is restarted after its failure was answered.
    wait_until(lambda: restarts() >= 3 * len(FAILS_AS_A_PROCESS), DEADLINE_S, "all workers have been restarted")
    assert appliance.stop() == 0


def test_installed_replaced_and_removed_functions_apply_to_waiting_consumers(
    start: Callable[..., HeadraceProcess], tmp_path: Path
) -> None:
    appliance = start(1)
    fill(appliance, 40)
    file = tmp_path / "chosen.py"

    def put(body: str) -> None:
        file.write_text(function(body))
        done = headrace("filter", "put", file, "--data", appliance.data)
        assert done.returncode == 0, done.stderr

    with PlainPuller(appliance.ports[1]) as puller:

        def pull(**more: Any) -> RemotingCommand:
            return puller.pull("T", "chosen", "PYTHON", **more)

        assert "filter function chosen does not exist" in str(pull().remark)
        put("return int(message.body.split()[0]) % 16 == 0")
        wait_until(lambda: pull().code == ResponseCode.SUCCESS, DEADLINE_S, "the function is there")
        found: list[int] = []
        offset = 0
        while offset < 40:
            answer = pull(offset=offset, count=3)
            found += [int(body.split()[0]) for body in bodies(answer)]
            assert len(bodies(answer)) <= 3
            offset = int(answer.ext["nextBeginOffset"])
        assert found == list(range(0, 160, 16))

        # A held pull is not answered for unwanted messages.
        answers: list[RemotingCommand] = []
        waiting = threading.Thread(target=lambda: answers.append(pull(offset=40, hold_ms=30_000)))
        waiting.start()
        wait_until(lambda: appliance.status()["counters"]["broker"]["held_pulls"] == 1, DEADLINE_S, "it waits")
        with PlainSender(appliance.ports[1], "T") as sender:
            for number in range(160, 180, 4):
                sender.send(number + 4)
        waiting.join(DEADLINE_S)
        assert [int(body.split()[0]) for body in bodies(answers[0])] == [176]
        assert pull(offset=44, hold_ms=5_000).ext["nextBeginOffset"] == "45"

        # The worker is killed more often than any other role may be, and so is the broker; each is restarted.
        for _ in range(7):
            kill(appliance, "filter-0")
        assert len(bodies(pull())) > 0
        assert role(appliance, "filter-0")["heartbeat_age_ms"] is None
        worker = psutil.Process(role(appliance, "filter-0")["pid"])
        kill(appliance, "broker")
        wait_until(
            lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, DEADLINE_S, "the worker's end"
        )
    with PlainPuller(appliance.ports[1]) as puller:
        assert len(bodies(pull())) > 0
        put("return False")
        wait_until(lambda: pull().code == ResponseCode.PULL_RETRY_IMMEDIATELY, DEADLINE_S, "the new version")
        assert headrace("filter", "remove", "chosen", "--data", appliance.data).returncode == 0
        wait_until(lambda: "filter function chosen does not exist" in str(pull().remark), DEADLINE_S, "that it is gone")
    assert appliance.stop() == 0
    assert not (appliance.data / "store" / "abort").exists()
    assert not list(appliance.data.glob("filter-*.sock"))
