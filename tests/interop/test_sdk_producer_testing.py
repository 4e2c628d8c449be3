"""`headrace.testing` as used by another project's test suite."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import testing
from headrace.errors import StateError
from headrace.sync import Message, Producer
from headrace.sync.engine import shared_engine
from support.sdk import PATIENCE_S
from support.sdk_cluster import Cluster
from support.servers import free_ports

ROOT = Path(__file__).resolve().parents[2]

TEST = """
from headrace.sync import Message, Producer

def test_order_is_sent(headrace_server):
    with Producer("orders", headrace_server.name_server) as producer:
        assert producer.send(Message("Orders", b"x")).ok

def test_server_is_shared_by_all_tests(headrace_server):
    with Producer("orders", headrace_server.name_server) as producer:
        assert producer.send(Message("Orders", b"y")).ok
"""


@pytest.mark.slow
def test_testing_server_serves_a_foreign_test_suite(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["headrace.testing"]\n')
    (tmp_path / "test_orders.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, timeout=240, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.slow
def test_error_names_the_package_to_install_when_the_appliance_is_missing(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from headrace.testing import HeadraceServer\n"
        "sys.executable = '/nowhere/python'\n"
        "try: HeadraceServer(Path('x')).start()\n"
        "except Exception as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert "install the appliance" in done.stdout


@pytest.mark.slow
def test_server_takes_other_ports_when_its_ports_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    foreign = Cluster("somebody-elses")

    def too_late() -> tuple[int, int]:
        given.append(free_ports())
        if len(given) == 1:
            # A name server, which answers like one.
            shared_engine().run(foreign.add_name_server(given[-1][0]))
        elif len(given) == 2:
            takers.enter_context(socket.create_server(("127.0.0.1", given[-1][1] - 2)))
        return given[-1]

    monkeypatch.setattr(testing, "_free_ports", too_late)
    with contextlib.ExitStack() as takers:
        takers.callback(lambda: shared_engine().run(foreign.__aexit__(None, None, None)))
        with (
            testing.HeadraceServer(tmp_path / "server") as server,
            Producer("orders", server.name_server, send_timeout=PATIENCE_S) as producer,
        ):
            assert server.name_server == f"127.0.0.1:{given[2][0]}"
            assert producer.send(Message("Orders", b"x")).ok
    assert len(given) == 3


@pytest.mark.slow
def test_error_names_the_holder_when_no_ports_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as takers:
        tries = 0

        def too_late() -> tuple[int, int]:
            nonlocal tries
            tries += 1
            ports = free_ports()
            takers.enter_context(socket.create_server(("127.0.0.1", ports[0])))
            return ports

        monkeypatch.setattr(testing, "_free_ports", too_late)
        monkeypatch.setattr(testing, "TRIES", 2)
        with pytest.raises(StateError, match="is in use by"):
            testing.HeadraceServer(tmp_path / "server").start()
        assert tries == 2


@pytest.mark.slow
def test_server_start_is_not_retried_for_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def counted() -> tuple[int, int]:
        nonlocal tries
        tries += 1
        return free_ports()

    monkeypatch.setattr(testing, "_free_ports", counted)
    (tmp_path / "data").write_text("a file in the folder's place")
    with pytest.raises(StateError, match="did not become ready"):
        testing.HeadraceServer(tmp_path).start()
    assert tries == 1
