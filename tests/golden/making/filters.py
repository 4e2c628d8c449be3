"""Regenerates `sql92.jsonl.xz` and `bloom.jsonl` with RocketMQ's own filter classes.

python tests/golden/making/filters.py [FILE.jsonl]

FILE: additional cases, one {"expression": …, "properties": {…}} per line. Needs Java and the jars of bench/reference.
Sql92.java beside this file computes the answers.
"""

import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parents[2] / "bench" / "reference" / "reference"


def ask(classes: str, verb: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of Apache's classes for the cases."""
    given = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases).encode()
    command = [sys.executable, str(REFERENCE), "java", "-cp", classes, "Sql92", verb]
    done = subprocess.run(command, input=given, capture_output=True, check=True)
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    assert len(answers) == len(cases), done.stderr.decode()
    return answers


def main() -> None:
    """Writes both files."""
    table, bloom = HERE.parent / "sql92.jsonl.xz", HERE.parent / "bloom.jsonl"
    cases = [json.loads(line) for line in lzma.decompress(table.read_bytes()).splitlines()] if table.exists() else []
    cases += [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    distinct = {json.dumps([case["expression"], case["properties"]], sort_keys=True): case for case in cases}
    names = [json.loads(line) for line in bloom.read_text().splitlines()]
    jars = subprocess.run([sys.executable, str(REFERENCE), "classpath"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as classes:
        source = str(HERE / "Sql92.java")
        subprocess.run(["javac", "-d", classes, "-cp", jars.stdout.strip(), source], check=True)
        outcomes = ask(classes, "outcomes", list(distinct.values()))
        vectors = ask(classes, "bloom", names)
    lines = "".join(json.dumps(case, ensure_ascii=False, sort_keys=True) + "\n" for case in outcomes)
    table.write_bytes(lzma.compress(lines.encode(), preset=9))
    bloom.write_text("".join(json.dumps(case, ensure_ascii=False, sort_keys=True) + "\n" for case in vectors))


if __name__ == "__main__":
    main()
