"""Instructions of the hot paths for each message, counted by valgrind. Unlike times they do not depend on what else the machine does.

Two runs differ in nothing but the number of repetitions, so the difference is what the repetitions cost. Runs are equal within 0.1 %. A change that
needs more instructions raises LIMITS, and says why in its commit.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.hot_cost import KINDS, MESSAGES

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
FEW, MANY = 100, 300
LIMITS = {"sends": 4_700, "reads": 16_520, "batch": 950, "pull": 1_230, "dispatch": 7_900}
"""Instructions a message, with Python 3.11 and GCC 12 on x86-64."""
SPARE = 1.05
"""For other processors, for which libraries choose other code. Other interpreters and compilers need more."""


def instructions(kind: str, repeats: int) -> int:
    """All instructions of a process that does the work of a kind so often."""
    ran = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-m", "support.hot_cost", kind, str(repeats)],
        cwd=TESTS, env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}, check=False,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", ran.stderr)
    assert ran.returncode == 0, ran.stderr
    assert found, ran.stderr
    return int(found[1])


@pytest.mark.parametrize("kind", KINDS)
def test_message_takes_no_more_instructions_than_before(kind: str) -> None:
    taken = (instructions(kind, MANY) - instructions(kind, FEW)) / ((MANY - FEW) * MESSAGES)
    spare = SPARE if sys.version_info[:2] == (3, 11) else 1.5
    assert taken <= LIMITS[kind] * spare, f"{taken:,.0f} instructions a message"
