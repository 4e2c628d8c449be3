"""The rows of tables as HTML: every kind of value, and nothing unescaped."""

import re
from typing import Any

import msgspec
import pytest

from web.tables.cells import Cells
from web.tables.table import Column, Kind
from web.translations import translator

HOSTILE = '"><script>alert(1)</script>'


class Row(msgspec.Struct, frozen=True):
    name: str = "a"
    value: Any = None


def cells() -> Cells:
    return Cells(translator("en"), lambda path: f"/base{path}")


def row_of(*columns: Column[Row], row: Row) -> str:
    return str(cells().rows(columns, [row]))


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (Kind.TEXT, "", '<span class="none">–</span>'),
        (Kind.TEXT, None, '<span class="none" title="unknown">–</span>'),
        (Kind.NUMBER, 12345, "12,345"),
        (Kind.RATE, 1.5, "1.5"),
        (Kind.SHARE, 0.403, "40.3 %"),
        (Kind.PERCENT, 39.0, "39"),
        (Kind.BYTES, 2048, '<span title="2,048">2.0 KiB</span>'),
        (Kind.TIME, 0, '<span class="none">never</span>'),
        (Kind.TIME, 1_000, '<time datetime="1970-01-01T00:00:01.000Z">1970-01-01 00:00:01 UTC</time>'),
        (Kind.ID, "0123456789abcdefghij", "0123456789abcdef<wbr>ghij"),
        (Kind.DURATION, 2_000, "2 s"),
        (Kind.YES_NO, False, "no"),
        (Kind.WORD, "online", "online"),
        (Kind.WORD, "offline", '<span class="warn">offline</span>'),
        (Kind.LIST, ["a", "b"], '<span class="item">a</span> <span class="item">b</span>'),
    ],
)
def test_each_kind_is_shown(kind: Kind, value: object, shown: str) -> None:
    text = row_of(Column("name", "Name"), Column("value", "Value", kind), row=Row(value=value))
    [found] = re.findall(r'<td class="[^"]*" data-label="Value">(.*)</td>', text)
    assert found == shown


def test_first_cell_that_is_no_choice_is_the_heading_of_its_row() -> None:
    text = row_of(Column("value", "Choose", Kind.CHOICE), Column("name", "Name"), row=Row(value=1))
    assert text.startswith('<tr><td class="choice"')
    assert '<th scope="row" class="text" data-label="Name">a</th>' in text


def test_long_texts_wrap_and_empty_cells_are_marked() -> None:
    text = row_of(Column("name", "Name"), Column("value", "Value"), row=Row("x" * 40, ""))
    assert ('class="text long"' in text, 'class="text blank"' in text) == (True, True)


def test_beginning_of_a_long_value_breaks_after_separators_too() -> None:
    column: Column[Row] = Column("value", "Value", says=lambda row: ("{beginning} …", {"beginning": row.value}))
    text = row_of(column, row=Row(value='{"queues":8,"permission":6,"order":false}'))
    assert "8,<wbr>&#34;permission" in text


def test_links_have_the_base_path_and_are_escaped() -> None:
    text = row_of(Column("name", "Name", link=lambda row: f"/topics/{row.name}"), row=Row("a&b"))
    assert '<a href="/base/topics/a&amp;b">a&amp;b</a>' in text


def test_notes_stand_below_the_value() -> None:
    below: tuple[Column[Row], ...] = (Column("value", "More", help="What it is."), Column("name", ""))
    text = row_of(Column("name", "Name", below=below), row=Row(value=""))
    assert '>a\n<span class="note">a</span></th>' in text
    text = row_of(Column("name", "Name", below=below[:1]), row=Row(value="b"))
    assert '>a\n<span class="note" data-label="More" title="What it is.">b</span></th>' in text


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.ID, Kind.WORD, Kind.LIST, Kind.CHOICE])
def test_every_text_is_escaped(kind: Kind) -> None:
    value = [HOSTILE] if kind is Kind.LIST else HOSTILE
    columns: list[Column[Row]] = [
        Column("value", HOSTILE, kind, help=HOSTILE),
        Column("value", "a", kind, link=lambda _: HOSTILE, says=lambda _: (HOSTILE, {})),
        Column("name", "b", kind=Kind.LIST, links=lambda _: [(HOSTILE, HOSTILE)]),
        Column("name", "c", none=HOSTILE, below=(Column("value", HOSTILE, kind, help=HOSTILE),)),
    ]
    text = row_of(*columns, row=Row(value=value)).replace("<wbr>", "")
    assert "<script" not in text
    assert "&#34;&gt;&lt;script&gt;" in text
    assert re.findall(r"</?([a-z0-9]+)", text) != []
    assert set(re.findall(r"</?([a-z0-9]+)", text)) <= {"tr", "td", "th", "span", "a", "input"}
