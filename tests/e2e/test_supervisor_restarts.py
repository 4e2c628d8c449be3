"""What the supervisor does when a role dies, hangs, cannot start or does not stop: real processes with toy roles."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from appliance import exit_code
from appliance.restart_policy import MAX_START_FAILURES
from support.headrace_process import headrace
from support.servers import wait_until
from support.watched import WatchedProcess as HeadraceProcess

RECOVER_KILLS = 3  # as in the toy's scenario

pytestmark = pytest.mark.slow


def test_killed_role_restarts_while_others_keep_running(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        before = appliance.status()["roles"]
        for role in ("worker", "sink", "logger"):
            os.kill(before[role]["pid"], signal.SIGKILL)
            again = appliance.wait_restarted(role)
            assert again["pid"] != before[role]["pid"]
        after = appliance.status()["roles"]
        assert [after[role]["restarts"] for role in ("worker", "sink", "logger")] == [1, 1, 1]
        assert after["recover"]["state"] == "ended"
        assert appliance.stop() == 0


def test_appliance_ends_when_a_role_must_be_restarted_after_the_program_was_replaced(tmp_path: Path) -> None:
    record = tmp_path / "headrace_appliance-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("store/errors.py,sha256=a,1")
    with HeadraceProcess(
        tmp_path / "data", toy="is-installed", prefix=["env", f"--chdir={tmp_path}"]
    ).wait_ready() as appliance:
        worker, sink = appliance.pid_of("worker"), appliance.pid_of("sink")
        record.write_text("store/errors.py,sha256=b,1")
        assert (appliance.pid_of("worker"), appliance.pid_of("sink")) == (worker, sink)
        os.kill(worker, signal.SIGKILL)
        assert appliance.wait_end() == exit_code.PROGRAM_REPLACED
        assert "headrace: the installed program was replaced while it was running" in appliance.err
        assert not psutil.pid_exists(sink)


def test_role_that_raises_is_restarted_and_its_traceback_logged(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        appliance.tell("worker", "raise")
        appliance.wait_restarted("worker")
        appliance.wait_log("RuntimeError: a toy broke")
        assert appliance.stop() == 0


def test_appliance_exits_with_one_line_when_a_role_cannot_start(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="worker-cannot-start") as appliance:
        assert appliance.wait_end() == 3
        assert appliance.err == "headrace: worker could not start: its port is taken\n"
        assert "ready" not in appliance.out
        assert not (tmp_path / "data" / "store" / "abort").exists()


def test_appliance_exits_when_recovery_fails_before_other_roles_start(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="recover-fails") as appliance:
        assert appliance.wait_end() == 3
        assert appliance.err == "headrace: recover could not start: the disk is on fire\n"
        assert "lives" not in appliance.log


def test_appliance_exits_with_the_exit_code_of_a_role_that_never_gets_ready(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="worker-dies-before-it-is-ready") as appliance:
        assert appliance.wait_end() == 4
        assert "headrace: worker crashed 6 times before it became ready (last: exited with code 9)" in appliance.err
        assert (tmp_path / "data" / "store" / "abort").exists()


def test_role_that_was_ready_is_restarted_however_often_it_dies(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="worker-dies-once-it-is-ready").wait_ready() as appliance:
        sink = appliance.pid_of("sink")
        wait_until(
            lambda: appliance.role("worker")["restarts"] > MAX_START_FAILURES, 60, "more deaths than are forgiven"
        )
        appliance.wait_log("role restart scheduled role=worker early_exits=7 backoff_ms=3200")
        assert appliance.pid_of("sink") == sink
        # The worker is dead or dies again, and the store is left for recovery; a worker that has just been forked ends well.
        exit_code = appliance.stop()
        assert exit_code == int((tmp_path / "data" / "store" / "abort").exists())


def test_role_that_was_ready_is_restarted_when_it_cannot_start_again(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="worker-cannot-start-again").wait_ready() as appliance:
        os.kill(appliance.pid_of("worker"), signal.SIGKILL)
        wait_until(lambda: appliance.role("worker")["restarts"] > 3, 60, "several attempts")
        appliance.wait_log("role died role=worker cause='exited with code 3 (its port is taken)'")
        assert appliance.process.poll() is None


def test_role_ended_by_a_signal_without_a_name_is_restarted(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        os.kill(appliance.pid_of("worker"), signal.SIGRTMIN + 1)
        appliance.wait_restarted("worker")
        appliance.wait_log(f"role died role=worker cause='killed by signal {signal.SIGRTMIN + 1}'")


def test_recovery_is_restarted_after_a_kill(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="recover-is-killed").wait_ready() as appliance:
        said = appliance.role("recover")
        assert (said["state"], said["restarts"]) == ("ended", RECOVER_KILLS)
        assert appliance.log.count("role died role=recover cause='killed by SIGKILL'") == RECOVER_KILLS
        assert appliance.stop() == 0


def test_appliance_exits_when_recovery_keeps_crashing(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="recover-crashes-always") as appliance:
        assert appliance.wait_end() == 4
        assert "headrace: recover crashed 6 times before it became ready (last: killed by SIGSEGV" in appliance.err
        assert "lives" not in appliance.log


def test_hung_role_dumps_its_stacks_and_is_restarted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, "--set", "heartbeatTimeout=3000", toy="ok").wait_ready() as appliance:
        appliance.tell("worker", "hang")
        appliance.wait_restarted("worker")
        assert "in do" in (data / "logs" / "stacks.log").read_text()
        assert "role heartbeat timed out role=worker" in appliance.log
        assert appliance.role("sink")["restarts"] == 0


def test_hung_role_that_cannot_dump_its_stacks_is_killed(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", "--set", "heartbeatTimeout=1000", toy="ok").wait_ready() as appliance:
        os.kill(appliance.pid_of("worker"), signal.SIGSTOP)
        appliance.wait_restarted("worker")
        appliance.wait_log("role died role=worker cause='killed by SIGKILL'")


def test_announced_long_call_is_not_a_hang(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, "--set", "heartbeatTimeout=2000", toy="ok").wait_ready() as appliance:
        pid = appliance.pid_of("worker")
        appliance.tell("worker", "long call")
        wait_until(lambda: appliance.role("worker")["long_call"] == "a toy's long call", 60, "the long call")
        wait_until(lambda: appliance.role("worker")["heartbeat_age_ms"] > 3000, 60, "a silence longer than is allowed")
        (data / "worker.do.end").touch()
        wait_until(lambda: appliance.role("worker")["long_call"] is None, 60, "its end")
        assert appliance.pid_of("worker") == pid


def test_role_that_does_not_stop_is_killed_and_the_store_left_for_recovery(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with HeadraceProcess(data, "--set", "roleStopTimeout=500", toy="worker-never-stops").wait_ready() as appliance:
        assert appliance.stop() == 1
        assert "unclean shutdown" in appliance.err
        assert "role stop timed out role=worker timeout_ms=500" in appliance.log
        assert (data / "store" / "abort").exists()


def test_role_that_stops_with_an_error_leaves_the_store_for_recovery(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="sink-stops-badly").wait_ready() as appliance:
        assert (tmp_path / "data" / "store" / "abort").exists()
        assert headrace("stop", "--data", tmp_path / "data").returncode == 1
        assert appliance.wait_end() == 1
        assert (tmp_path / "data" / "store" / "abort").exists()


def test_children_stop_in_order_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        children = appliance.processes()[1:]
        assert {child.name() for child in children} >= {"headrace: logger", "headrace: worker", "headrace: sink"}
        appliance.process.kill()
        _gone, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []
        # They ended as when told to stop, and the logger wrote all their records.
        assert "ends: name=worker" in appliance.log
        assert "ends: name=sink" in appliance.log


def test_log_records_of_a_burst_are_written_or_counted_as_dropped(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="logger-sleeps").wait_ready() as appliance:
        appliance.tell("worker", "flood")
        wait_until(lambda: not (tmp_path / "data" / "worker.do").exists(), 60, "the flood")
        # Nobody reads, and no role is blocked by that.
        wait_until(lambda: appliance.role("worker")["heartbeat_age_ms"] < 500, 60, "a beat after the flood")
        assert appliance.stop() == 0


def test_records_logged_while_the_logger_is_dead_are_written_after_its_restart(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", toy="ok").wait_ready() as appliance:
        headrace("stop", "logger", "--data", tmp_path / "data")
        appliance.tell("worker", "said into the void")
        wait_until(lambda: not (tmp_path / "data" / "worker.do").exists(), 60, "it to be said")
        assert "said into the void" not in appliance.log
        headrace("start", "logger", "--data", tmp_path / "data")
        appliance.wait_log("said into the void")


def test_warnings_also_go_to_standard_error_one_line_each(tmp_path: Path) -> None:
    with HeadraceProcess(tmp_path / "data", "--set", "logFormat=json", toy="ok").wait_ready() as appliance:
        appliance.tell("worker", "shout")
        appliance.wait_log("ValueError: inside")
        wait_until(lambda: "caught" in appliance.err, 60, "standard error")
        assert len(appliance.err.splitlines()) == 2
        assert '"event":"a line\\nthat is two"' in appliance.err
