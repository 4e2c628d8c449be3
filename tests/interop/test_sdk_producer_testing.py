"""`headrace.testing`, as somebody else's test suite uses it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
        capture_output=True, text=True, timeout=110, cwd=tmp_path, env=environment, check=False,
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
        timeout=60,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert "install the appliance" in done.stdout
