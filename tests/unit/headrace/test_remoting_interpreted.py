"""The SDK's wheel contains the Python form of the modules that the appliance compiles: the same tests pass with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.interpreted import ROOT

_HERE = Path(__file__).parent
_PROGRAM = """
import sys
import pytest
from support.interpreted import sources_only
sources_only()
from headrace.remoting import channel
assert channel.__file__.endswith("channel.py"), channel.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("name", ["channel", "connection", "limits"])
def test_connections_without_compiled_modules(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(_HERE / f"test_remoting_{name}.py")],
        cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
