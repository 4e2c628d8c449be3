"""`headrace.testing`, as somebody else's test suite uses it."""

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

def test_an_order_is_sent(headrace_server):
    with Producer("orders", headrace_server.name_server) as producer:
        assert producer.send(Message("Orders", b"x")).ok

def test_the_server_is_the_same(headrace_server):
    with Producer("orders", headrace_server.name_server) as producer:
        assert producer.send(Message("Orders", b"y")).ok
"""


@pytest.mark.slow
def test_other_peoples_tests_get_a_real_server(tmp_path: Path) -> None:
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
def test_without_the_appliance_the_error_says_what_to_install(tmp_path: Path) -> None:
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
def test_a_server_whose_ports_are_taken_at_the_last_moment_takes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_server_that_never_gets_its_ports_says_who_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with pytest.raises(StateError, match="is taken by"):
            testing.HeadraceServer(tmp_path / "server").start()
        assert tries == 2


@pytest.mark.slow
def test_a_server_that_cannot_start_for_another_reason_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def counted() -> tuple[int, int]:
        nonlocal tries
        tries += 1
        return free_ports()

    monkeypatch.setattr(testing, "_free_ports", counted)
    (tmp_path / "data").write_text("a file in the folder's place")
    with pytest.raises(StateError, match="did not get ready"):
        testing.HeadraceServer(tmp_path).start()
    assert tries == 1
