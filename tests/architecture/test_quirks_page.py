"""Every quirk in docs/protocol/quirks.md names existing code and an existing test that pins it."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "protocol" / "quirks.md"
PACKAGES = ("headrace", "broker", "store", "nameserver")


class Row(NamedTuple):
    """A row of one of the page's tables."""

    what: str
    where: str
    pinned_by: str


def rows() -> list[Row]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    # Tags are separated by `||`, which does not end a cell.
    cells = [[cell.strip() for cell in line.strip("|").replace("||", "").split("|")] for line in lines]
    assert all(len(row) == 3 for row in cells), [row for row in cells if len(row) != 3]
    return [Row(*row) for row in cells if row[2] != "pinned by" and not row[0].startswith("---")]


@cache
def named_in(file_name: str) -> set[str]:
    """The names of the tests in the only test file with this name."""
    [path] = (ROOT / "tests").rglob(file_name)
    return set(re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))


@cache
def sources() -> list[str]:
    return [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def problems_of(row: Row) -> list[str]:
    """What is missing from the row."""
    pins = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row.pinned_by)
    missing = [f"{file_name} has no {test}" for file_name, test in pins if test not in named_in(file_name)]
    places = re.findall(r"`([^`]+)`", row.where)
    lost = [f"there is no {place}" for place in places if not any(f"/{one}".endswith(f"/{place}") for one in sources())]
    return [
        *(["no test is named, as `test_file.py::test_name`"] if not pins else missing),
        *(["no code is named"] if not places else lost),
    ]


def test_every_quirk_names_existing_code_and_test() -> None:
    found = rows()
    assert len(found) > 60
    assert [(row.what, problem) for row in found for problem in problems_of(row)] == []
