"""The manual's table of cells is the one in the code."""

import pytest

from ipc.control_layout import CELLS
from ipc.manual import BEGIN, END, PAGE, renew


def test_the_page_of_shared_memory_is_fresh() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renew(page), "stale: run `python -m ipc.manual`"


def test_every_cell_is_in_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for cell in CELLS:
        assert f"| {cell.word} | `{cell.name}` | {cell.meaning} | {cell.writer} |" in page


def test_only_what_stands_between_the_markers_is_renewed() -> None:
    renewed = renew(f"before\n{BEGIN}\nSTALE\n{END}\nafter\n")
    assert renewed.startswith(f"before\n{BEGIN}\n| word |")
    assert renewed.endswith(f"|\n{END}\nafter\n")
    assert "STALE" not in renewed


def test_a_page_without_markers_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="markers"):
        renew("a page")
