"""Each program of bench/ can be started: what it imports exists."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
PROGRAMS = sorted(path.name for path in BENCH.glob("*.py") if "ArgumentParser(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_its_help(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, BENCH / name, "--help"], check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert "usage" in ran.stdout
