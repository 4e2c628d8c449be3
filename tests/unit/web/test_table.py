import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from web.errors import Invalid
from web.tables.export import to_csv, to_json_lines
from web.tables.table import Choice, Column, Kind, Table, TableView


class Row(msgspec.Struct, frozen=True):
    name: str
    size: int | None
    kind: str = "a"
    extra: str = ""


COLUMNS: tuple[Column[Row], ...] = (
    Column("name", "Name"),
    Column("size", "Size", Kind.NUMBER),
    Column("extra", "Extra", is_enriched=True),
)
ROWS = [Row("beta", 2), Row("Alpha", 30), Row("gamma", None, "b"), Row("delta", 7, "b")]


def table(rows: Sequence[Row] = ROWS, **more: Any) -> Table[Row]:
    return Table("things", Row, rows, COLUMNS, search=("name",), sort="name", **more)


def filled(one: Table[Row], **arguments: str) -> TableView[Row]:
    return asyncio.run(one.select(arguments).fill())


def names(view: TableView[Row]) -> list[str]:
    return [row.name for row in view.rows]


def test_rows_are_sorted_by_the_default_column_without_regard_to_case() -> None:
    assert names(filled(table())) == ["Alpha", "beta", "delta", "gamma"]


def test_missing_values_sort_as_the_smallest() -> None:
    assert names(filled(table(), sort="-size")) == ["Alpha", "delta", "beta", "gamma"]


def test_filter_ignores_case_and_looks_into_the_search_fields_only() -> None:
    view = filled(table(), filter="ALPHA")
    assert names(view) == ["Alpha"]
    assert names(filled(table(), filter="30")) == []


def test_choice_selects_rows_and_its_first_value_is_the_default() -> None:
    kinds = Choice("kind", "Kind", (("a", "A"), ("b", "B")))
    one = table(choices=(kinds,), choose=lambda row, chosen: row.kind == chosen["kind"])
    assert names(filled(one)) == ["Alpha", "beta"]
    assert names(filled(one, kind="b")) == ["delta", "gamma"]
    with pytest.raises(Invalid, match="kind='c' is not one of a, b"):
        one.select({"kind": "c"})


def test_only_the_rows_of_the_page_are_enriched() -> None:
    asked: list[str] = []

    async def enrich(rows: Sequence[Row]) -> Sequence[Row]:
        asked.extend(row.name for row in rows)
        return [msgspec.structs.replace(row, extra=row.name.upper()) for row in rows]

    rows = [Row(f"row-{number:04}", number) for number in range(1000)]
    view = filled(table(rows, enrich=enrich), page="3", size="25")
    assert asked == [f"row-{number:04}" for number in range(50, 75)]
    assert view.rows[0].extra == "ROW-0050"
    assert (view.first, view.last, view.total, view.page_count) == (51, 75, 1000, 40)
    assert len(asyncio.run(view.all_rows())) == 1000


def test_page_beyond_the_end_shows_the_last_page() -> None:
    view = filled(table(), page="99")
    assert view.page == 1
    assert len(view.rows) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"sort": "extra"},
        {"sort": "__class__"},
        {"page": "0"},
        {"page": "x"},
        {"size": "251"},
        {"page": "9" * 5000},
        {"page": "²"},
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        table().select(arguments)


def test_arguments_of_an_address_leave_defaults_out_and_keep_the_rest() -> None:
    view = filled(table(), sort="-size", filter="a", size="25")
    assert view.arguments() == {"sort": "-size", "filter": "a", "size": "25"}
    assert view.arguments(page=2) == {"sort": "-size", "filter": "a", "page": "2", "size": "25"}
    assert filled(table()).arguments() == {}


def test_second_click_on_a_heading_turns_the_order_round() -> None:
    view = filled(table())
    assert view.sorted_by(COLUMNS[1]) == {"sort": "-size"}
    assert filled(table(), sort="-size").sorted_by(COLUMNS[1]) == {"sort": "size"}
    assert view.sorted_by(COLUMNS[0]) == {"sort": "-name"}


def test_arguments_of_the_second_table_of_a_page_have_its_name_as_prefix() -> None:
    view = table().select({"things.sort": "-size", "sort": "name"}, "things.")
    assert view.selection.sort == "size"
    assert view.arguments() == {"sort": "name", "things.sort": "-size"}


def test_csv_quotes_texts_and_disarms_formulas() -> None:
    rows = [Row('=HYPERLINK("x")', 1), Row('a "b", c\nd;=1', None)]
    assert b"".join(to_csv(COLUMNS, rows)).decode() == (
        'name,size,extra\r\n"\'=HYPERLINK(""x"")","1",""\r\n"a ""b"", c\nd;=1","",""\r\n'
    )


def test_column_below_another_is_sorted_by_and_exported_as_its_own() -> None:
    columns = (replace(COLUMNS[0], below=(COLUMNS[1],)), COLUMNS[2])
    one = Table("things", Row, [Row("a", 2), Row("b", 1)], columns)
    assert [row.name for row in filled(one, sort="size").rows] == ["b", "a"]
    assert b"".join(to_csv(columns, one.rows[:1])).decode() == 'name,size,extra\r\n"a","2",""\r\n'


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@x", "\t=1", "\n=1", " =1", "\u3000=1", "\uff1d1", "\uff0b1", "\u22121"]
)
def test_csv_disarms_every_text_that_a_spreadsheet_takes_for_a_formula(text: str) -> None:
    assert b"".join(to_csv(COLUMNS, [Row(text, 1)])).decode().splitlines(keepends=True)[1].startswith("\"'")


def test_json_lines_have_one_object_a_line() -> None:
    lines = b"".join(to_json_lines([Row("a\nb", 1), Row("c", None)])).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"name": "a\nb", "size": 1, "kind": "a", "extra": ""},
        {"name": "c", "size": None, "kind": "a", "extra": ""},
    ]


def test_links_of_a_table_keep_what_the_rest_of_the_page_shows() -> None:
    given = {
        "sort": "-size",
        "topic": "Orders",
        "range": "7d",
        "other.page": "2",
        "format": "csv",
        "table": "x",
        "q": "",
    }
    kept = {"topic": "Orders", "range": "7d", "other.page": "2"}
    assert table().select(given).arguments(page=3) == {**kept, "sort": "-size", "page": "3"}
    assert table().select(given, "other.").arguments() == {"topic": "Orders", "range": "7d", "sort": "-size"}
