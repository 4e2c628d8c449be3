"""Runs of exports, with small programs in place of the exporter."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.errors import ExportRefused
from appliance.export_order import ExportOrder
from appliance.export_runs import STOP_MS, ExportRun, ExportRuns
from ipc.control_socket import MAX_LINE_BYTES, encode
from ipc.health_row import monotonic_ms
from support.servers import wait_until

WAITS = "import signal, sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); signal.pause()"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
REQUEST: dict[str, Any] = {"command": "start-export", "target": "orders"}


class World:
    """ExportRuns whose exports run `program`."""

    def __init__(self) -> None:
        self.program = "pass"
        self.orders: list[ExportOrder] = []
        self.runs = ExportRuns("/exports", [], self._command, dict)

    def _command(self, order: ExportOrder) -> list[str]:
        self.orders.append(order)
        return [sys.executable, "-S", "-c", self.program]

    def start(self, program: str, **more: Any) -> ExportRun:
        self.program = program
        return self.runs.start({**REQUEST, **more})

    def is_ended(self) -> bool:
        self.runs.step(monotonic_ms())
        return not self.runs.is_running

    def has_said(self, run: ExportRun, line: str) -> bool:
        self.runs.step(monotonic_ms())
        return line in run.output

    def finish(self, program: str) -> ExportRun:
        run = self.start(program)
        wait_until(self.is_ended, 30, "the end of the run")
        return run


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.runs.close()
    for _ in range(2):
        world.runs.step(monotonic_ms() + STOP_MS)
        wait_until(world.is_ended, 30, "the end of the run")


def test_run_that_succeeds_is_done_with_its_progress_and_output(world: World) -> None:
    run = world.finish(
        "print('progress done_bytes=5 total_bytes=10\\nto Orders: 3 rows\\nprogress done_bytes=10 total_bytes=10')"
    )
    [shown] = world.runs.as_json()["runs"]
    assert shown["state"] == "done"
    assert (shown["done_bytes"], shown["total_bytes"], shown["output"]) == (10, 10, ["to Orders: 3 rows"])
    assert (shown["id"], shown["pid"]) == (run.id, run.process.pid)
    assert run.id <= shown["ended_ms"]


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("import sys; sys.exit('headrace: no space left')", ["headrace: no space left"]),
        ("import os; os.write(1, b'last words'); os.abort()", ["last words", "killed by SIGABRT"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ["killed by SIGKILL"]),
    ],
)
def test_run_that_ends_badly_has_failed_with_its_last_words(
    world: World, caplog: pytest.LogCaptureFixture, program: str, output: list[str]
) -> None:
    run = world.finish(program)
    assert (run.state, list(run.output)) == ("failed", output)
    [logged] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert logged.startswith("export ended target=orders state=failed exit_code=")


def test_only_one_run_at_a_time(world: World) -> None:
    run = world.start(WAITS)
    with pytest.raises(ExportRefused, match="export to orders is running"):
        world.start(WAITS, target="others")
    world.runs.stop(run.id)
    wait_until(world.is_ended, 30, "the end of the run")
    assert world.finish("pass").state == "done"
    assert [one["state"] for one in world.runs.as_json()["runs"]] == ["done", "stopped"]


def test_run_that_ignores_the_request_to_stop_is_killed(world: World) -> None:
    run = world.start(IGNORES)
    wait_until(lambda: world.has_said(run, "ready"), 30, "ready")
    world.runs.stop(run.id)
    assert run.state == "stopping"
    world.runs.step(monotonic_ms())
    assert world.runs.is_running
    world.runs.step(monotonic_ms() + STOP_MS)
    wait_until(world.is_ended, 30, "the end of the run")
    assert (run.state, run.process.returncode) == ("stopped", -signal.SIGKILL)


def test_second_request_to_stop_does_not_extend_the_time(world: World) -> None:
    run = world.start(IGNORES)
    world.runs.stop(run.id)
    first = run.kill_at_ms
    world.runs.stop(run.id)
    world.runs.close()
    assert run.kill_at_ms == first


@pytest.mark.parametrize("run_id", [None, 0, -1, 1.5, "1", [], {}, True, 1 << 70])
def test_stop_of_anything_else_is_refused(world: World, run_id: object) -> None:
    world.start(WAITS)
    with pytest.raises(ExportRefused, match="not running"):
        world.runs.stop(run_id)


def test_nothing_starts_while_the_appliance_stops(world: World) -> None:
    world.runs.close()
    with pytest.raises(ExportRefused, match="appliance is stopping"):
        world.start("pass")
    assert world.orders == []


@pytest.mark.parametrize(("brokers", "asked"), [((), "a"), (("a", "b"), ""), (("a", "b"), "c")])
def test_unknown_broker_is_refused(brokers: tuple[str, ...], asked: str) -> None:
    runs = ExportRuns("/exports", brokers, lambda _: [], dict)
    with pytest.raises(ExportRefused, match="not found"):
        runs.start({**REQUEST, "broker": asked})


def test_program_that_does_not_exist_is_an_error() -> None:
    runs = ExportRuns("/exports", (), lambda _: ["/nowhere/python"], dict)
    with pytest.raises(ExportRefused, match="could not start: No such file"):
        runs.start(REQUEST)
    assert not runs.is_running


def test_output_is_bounded_and_has_no_control_characters(world: World) -> None:
    run = world.finish("import os; os.write(1, b'x' * 60_000); os.write(1, b'\\n\\x1b[2Jevil\\x07\\xff\\r\\n' * 20)")
    assert len(run.output) == 10
    assert set(run.output) == {"\ufffd[2Jevil\ufffd\ufffd\ufffd"}
    run.take(b"y" * 100_000)
    run.take(b"\n")
    assert run.output[-1] == "y" * 500


@pytest.mark.parametrize(
    "line", ["progress done_bytes=-1 total_bytes=2", "progress done_bytes=1 total_bytes=" + "9" * 40, "progress", " progress done_bytes=1 total_bytes=2"]
)  # fmt: skip
def test_line_that_only_resembles_progress_is_output(line: str, world: World) -> None:
    run = world.finish(f"print({line!r})")
    assert (run.done_bytes, list(run.output)) == (0, [line])


@pytest.mark.slow
def test_last_runs_fit_into_one_answer(world: World) -> None:
    topics = ["T" * 250 + str(number) for number in range(100)]
    for _ in range(22):
        world.start("pass", topics=topics)
        wait_until(world.is_ended, 30, "the end of the run")
    answer = world.runs.as_json()
    assert len(answer["runs"]) == 20
    ids = [one["id"] for one in answer["runs"]]
    assert ids == sorted(set(ids), reverse=True)
    for one in answer["runs"]:
        one["output"] = ["\u4e2d" * 500] * 10
    assert len(encode({"ok": True, **answer})) < MAX_LINE_BYTES
    json.dumps(answer)


def test_child_has_no_descriptor_of_the_supervisor(world: World) -> None:
    read_fd, write_fd = os.pipe()
    os.set_inheritable(write_fd, False)
    try:
        run = world.finish("import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))")
    finally:
        os.close(read_fd)
        os.close(write_fd)
    assert list(run.output) == ["[0, 1, 2, 3]"]  # 3 lists the folder
