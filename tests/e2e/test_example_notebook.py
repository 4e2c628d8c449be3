"""The notebook in `examples/` runs from its first to its last cell, and its committed outputs are current."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "commitlog.ipynb"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_notebook_outputs_equal_the_committed_ones(tmp_path: Path) -> None:
    ran = tmp_path / "ran.ipynb"
    folders = {
        name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "TMPDIR")
    }
    (tmp_path / "TMPDIR").mkdir()
    execute = Path(sys.executable).with_name("jupyter-execute")
    done = subprocess.run(
        [execute, NOTEBOOK, f"--output={ran}", "--timeout=500"],
        env={**os.environ, **folders},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    now, committed = outputs_of(ran), outputs_of(NOTEBOOK)
    assert [kinds for kinds, _ in now] == [kinds for kinds, _ in committed]
    text = "\n".join(said for _, said in now)
    assert "in the table: 600  in the log: 700" in text
    assert "Alerts, Orders, Payments" in text
    assert "the broker ended with 0" in text
    assert any("image/png" in kinds for kinds, _ in committed)
    assert list((tmp_path / "TMPDIR").glob("headrace-notebook-*")) == []


def outputs_of(path: Path) -> list[tuple[list[str], str]]:
    """What each code cell shows: kinds and text. Output on standard error is ignored."""
    found = []
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            shown: list[dict[str, Any]] = [each for each in cell["outputs"] if each.get("name") != "stderr"]
            kinds = sorted({kind for each in shown for kind in each.get("data", {"text/plain": ""})})
            found.append((kinds, "".join("".join(each.get("text", "")) for each in shown)))
    return found
