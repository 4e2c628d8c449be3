import os
import subprocess
import sys
from pathlib import Path

import pytest

from store import fault_point

PROGRAM = """
from store.fault_point import fault_point
for number in range(5):
    fault_point("other.place")
    print(number, flush=True)
    fault_point("this.place")
"""


@pytest.mark.parametrize(
    ("setting", "printed", "code"),
    [
        ("this.place", ["0"], -9),
        ("this.place:3", ["0", "1", "2"], -9),
        ("other.place:2", ["0"], -9),
        ("this.place:4,other.place:3", ["0", "1"], -9),
        ("nowhere", ["0", "1", "2", "3", "4"], 0),
        ("", ["0", "1", "2", "3", "4"], 0),
    ],
)
def test_process_dies_at_the_chosen_pass_of_the_chosen_fault_point(setting: str, printed: list[str], code: int) -> None:
    environment = {**os.environ, fault_point.ENVIRONMENT: setting}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.stdout.split() == printed
    assert ended.returncode == code


def test_process_dies_only_once_at_each_fault_point_if_requested(tmp_path: Path) -> None:
    environment = {
        **os.environ, fault_point.ENVIRONMENT: "this.place:2,other.place:4", fault_point.ONCE: str(tmp_path)
    }  # fmt: skip
    ends = []
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        ends.append((ended.stdout.split()[-1], ended.returncode, sorted(path.name for path in tmp_path.iterdir())))
    assert ends == [
        ("1", -9, ["this.place"]),
        ("2", -9, ["other.place", "this.place"]),
        ("4", 0, ["other.place", "this.place"]),
    ]
