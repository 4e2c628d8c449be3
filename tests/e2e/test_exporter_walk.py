"""The walkthrough of the exporter's page, typed literally: from three topics to an answer in SQL."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.headrace_process import HeadraceProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exporter" / "overview.md"
FIVE_MINUTES_S = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(FIVE_MINUTES_S + 100)]


def test_five_minute_walkthrough_works_as_documented(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## Five minutes")[2].partition("\n## ")[0]
    assert "    make install-export\n    make run\n" in section
    found = re.search(r"```sh\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL)
    assert found is not None
    typed, shown = found.groups()
    began = time.monotonic()
    # What `make run` does in the repository: an appliance whose data is in ./data.
    with HeadraceProcess(tmp_path / "data").wait_ready() as appliance:
        (tmp_path / ".venv").symlink_to(sys.prefix)
        typed = typed.replace("127.0.0.1:9876", f"127.0.0.1:{appliance.ports[0]}")
        done = subprocess.run(
            ["sh", "-e"], input=typed, capture_output=True, text=True, cwd=tmp_path, timeout=FIVE_MINUTES_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert appliance.stop() == 0
    summary, _, tables = done.stdout.partition("\n")
    assert summary.startswith("lake: exported 503 of 503 records")
    assert tables.split() == shown.split()
    assert time.monotonic() - began < FIVE_MINUTES_S
