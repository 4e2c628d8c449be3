"""The shared memory page of the manual matches the cells in the code."""

import pytest

from ipc.control_layout import CELLS
from ipc.manual import BEGIN, END, PAGE, renew


def test_shared_memory_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renew(page), "stale: run `python -m ipc.manual`"


def test_page_lists_every_cell() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for cell in CELLS:
        assert f"| {cell.word} | `{cell.name}` | {cell.meaning} | {cell.writer} |" in page


def test_renew_changes_only_the_text_between_the_markers() -> None:
    renewed = renew(f"before\n{BEGIN}\nSTALE\n{END}\nafter\n")
    assert renewed.startswith(f"before\n{BEGIN}\n| word |")
    assert renewed.endswith(f"|\n{END}\nafter\n")
    assert "STALE" not in renewed


def test_renew_rejects_a_page_without_markers() -> None:
    with pytest.raises(ValueError, match="markers"):
        renew("a page")
