"""The man page and the completion scripts of the packages."""

import runpy
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "packaging" / "write_manuals.py"


@pytest.fixture(scope="module")
def manuals() -> dict[str, Any]:
    return runpy.run_path(str(PROGRAM))


def test_man_page_has_every_command_and_the_date_of_the_sources(manuals: dict[str, Any]) -> None:
    page: str = manuals["format_man_page"](0.0)
    assert page.startswith('.TH HEADRACE 1 "1970-01-01"')
    for command in ("run", "status", "acl add", "store verify"):
        assert f'.SS "headrace {command}"' in page
    assert page == manuals["format_man_page"](0.0)


def test_no_line_of_help_is_taken_for_a_macro(manuals: dict[str, Any]) -> None:
    page: str = manuals["format_man_page"](0.0)
    macros = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert macros <= {".TH", ".SH", ".SS", ".B", ".I", ".TP", ".nf", ".fi"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_asks_the_command_itself(manuals: dict[str, Any], shell: str) -> None:
    script: str = manuals["format_completion"](shell)
    assert f"_HEADRACE_COMPLETE={shell}_complete" in script
    assert "headrace" in script
