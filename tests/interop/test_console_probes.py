"""What machines ask a running console: the official client for name servers, Prometheus for metrics, probes for health."""

import contextlib
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.appliance import Appliance
from support.console import Page, get, is_up
from support.java import QUICK_START, Java
from support.sdk import await_registered
from support.servers import free_port, wait_until


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Appliance]:
    small = {"mappedFileSizeCommitLog": str(16 << 20)}
    with Appliance(tmp_path_factory.mktemp("probed") / "data", settings=small, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 60, "console")
        await_registered(appliance.name_server)
        yield appliance


def test_java_client_finds_the_name_server_through_the_console(appliance: Appliance, port: int, tmp_path: Path) -> None:
    domain = f"-Drocketmq.namesrv.domain=127.0.0.1:{port}"
    with Java(tmp_path / "java", flags=(*QUICK_START, domain)) as java:
        java.call("create-topic", namesrv=appliance.name_server, broker=appliance.broker, topic="Found", queues=1)
        assert len(java.call("send", namesrv=None, topic="Found", mode="sync", first=0, count=3)) == 3
        unit = java.call("send", namesrv=None, unit="blue", group="blue", topic="Found", mode="sync", first=3, count=2)
        assert len(unit) == 2


def test_every_unit_gets_the_name_servers_in_one_line(appliance: Appliance, port: int) -> None:
    for path in ("/rocketmq/nsaddr", "/rocketmq/nsaddr-blue?nofix=1"):
        answer = get(port, path)
        assert (answer.status, answer.text) == (200, appliance.name_server)
        assert answer.headers["content-type"].startswith("text/plain")
    assert get(port, "/rocketmq/other").status == 404


def test_metrics_need_a_token_through_a_proxy(appliance: Appliance, port: int) -> None:
    assert get(port, "/metrics").status == 200
    proxied = {"X-Forwarded-For": "203.0.113.9"}
    assert get(port, "/metrics", proxied).status == 401
    assert get(port, "/metrics", {**proxied, "Authorization": "Bearer "}).status == 401
    file = console_folder(appliance) / "metrics-token"
    file.write_text("s3cret\n")
    assert get(port, "/metrics", {**proxied, "Authorization": "Bearer wrong"}).status == 401
    answer = get(port, "/metrics", {**proxied, "Authorization": "Bearer s3cret"})
    assert answer.status == 200
    assert 'headrace_role_up{role="broker"} 1.0' in answer.text
    assert "headrace_broker_up{" in answer.text


def test_appliance_is_healthy_and_ready_until_its_broker_is_stopped(appliance: Appliance, port: int) -> None:
    def ready() -> Page:
        return get(port, "/readyz?verbose")

    wait_until(lambda: ready().status == 200, 60, "ready")
    assert get(port, "/healthz").text == "ok\n"
    assert {"name": "writes", "ok": True, "detail": "accepted"} in ready().json()["checks"]
    appliance.run("stop", "broker", "--data", str(appliance.data))
    # Brokers are asked and the status is read one after the other, so the first reports may have the one without the other.
    stopped = {"name": "role broker", "ok": False, "detail": "stopped"}
    wait_until(lambda: stopped in ready().json()["checks"], 60, "stopped")
    assert ready().status == 503
    assert get(port, "/healthz").status == 200  # an operator stopped it
    appliance.run("start", "broker", "--data", str(appliance.data))
    wait_until(lambda: ready().status == 200, 60, "ready again")


def test_history_is_recorded_and_open_to_users_only(appliance: Appliance, port: int) -> None:
    def series() -> set[str]:
        with contextlib.closing(
            sqlite3.connect(f"file:{console_folder(appliance)}/history.db?mode=ro", uri=True)
        ) as history:
            return {name for (name,) in history.execute("SELECT name FROM series")}

    wait_until(
        lambda: {f"broker.log/{socket.gethostname()}", "cluster.lag", "role.restarts/broker"} <= series(), 60, "samples"
    )
    assert get(port, "/api/v1/history?series=cluster.in").status == 401
    assert (console_folder(appliance) / "alerts.db").stat().st_mode & 0o777 == 0o600


def test_probe_answers_while_a_broker_hangs(appliance: Appliance, port: int) -> None:
    wait_until(lambda: get(port, "/readyz").status == 200, 60, "ready")
    broker = appliance.pid_of("broker")
    os.kill(broker, signal.SIGSTOP)
    try:
        assert get(port, "/healthz").status in {200, 503}
        wait_until(lambda: get(port, "/readyz").status == 503, 60, "not ready")
    finally:
        with contextlib.suppress(ProcessLookupError):  # killed by the supervisor
            os.kill(broker, signal.SIGCONT)
    wait_until(lambda: get(port, "/readyz").status == 200, 60, "ready again")


def console_folder(appliance: Appliance) -> Path:
    return appliance.data / "console"
