import os
import subprocess
import sys

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
        ("nowhere", ["0", "1", "2", "3", "4"], 0),
        ("", ["0", "1", "2", "3", "4"], 0),
    ],
)
def test_a_process_dies_at_the_chosen_pass_of_the_chosen_place(setting: str, printed: list[str], code: int) -> None:
    environment = {**os.environ, fault_point.ENVIRONMENT: setting}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.stdout.split() == printed
    assert ended.returncode == code
