"""Compares SQL92 evaluations per second on one core: RocketMQ's filter classes and ours, alternating in one run.

    python bench/filters.py [--seconds 2] [--rounds 3]

Both evaluate the property string of a stored message, as a broker does on a pull. RocketMQ's classes first parse it into a map; ours
evaluate it in place. Java is warmed up: its first rounds are discarded. The best round counts. Time is CPU time, so that other load
on the machine matters little. Needs Java, the jars of bench/reference, and compiled modules (`make compile`).
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from store.filter.program import Program  # noqa: E402  (bench/ is no package)
from store.filter.sql_compile import compile_expression  # noqa: E402

REFERENCE = ROOT / "bench" / "reference" / "reference"
SOURCE = ROOT / "tests" / "golden" / "making" / "Sql92.java"
STORED = "a=7;b=x;price=12.5;KEYS=order-17;TAGS=TagA;UNIQ_KEY=7F000001000018B4AAC2000000010001;WAIT=true"
EXPRESSIONS = (
    "a > 5 AND b = 'x'",
    "price BETWEEN 10.5 AND 20.5 OR b IN ('y', 'z')",
    "TAGS IS NOT NULL AND TAGS IN ('TagA', 'TagB') AND NOT (a = 3)",
)


def rate_of(work: Callable[[Any], int], given: Any, seconds: float) -> float:
    """Calls per second of CPU time."""
    calls, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for _ in range(1000):
            work(given)
        calls += 1000
    return calls / (time.process_time() - began)


def ours(expression: str, seconds: float) -> float:
    """Evaluations per second by our filters."""
    program = compile_expression(expression)
    assert isinstance(program, Program)
    stored = STORED.replace("=", "\x01").replace(";", "\x02").encode()
    return rate_of(program.outcome_of_stored, stored, seconds)


def apaches(classes: str, expression: str, seconds: float) -> float:
    """Evaluations per second by Apache's filters."""
    command = [
        sys.executable,
        str(REFERENCE),
        "java",
        "-cp",
        classes,
        "Sql92",
        "time",
        expression,
        STORED,
        str(seconds),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return max(float(rate) for rate in re.findall(r"round=\d+ rate=(\d+)", said)[2:])


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    jars = subprocess.run([sys.executable, str(REFERENCE), "classpath"], capture_output=True, text=True, check=True)
    print("| expression | Apache, million/s | Headrace, million/s | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-d", classes, "-cp", jars.stdout.strip(), str(SOURCE)], check=True)
        for expression in EXPRESSIONS:
            theirs = max(apaches(classes, expression, options.seconds / 2) for _ in range(options.rounds)) / 1e6
            own = max(ours(expression, options.seconds) for _ in range(options.rounds)) / 1e6
            print(f"| `{expression}` | {theirs:.2f} | {own:.2f} | **{own / theirs:.2f}** |", flush=True)


if __name__ == "__main__":
    main()
