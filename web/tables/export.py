"""Tables as CSV and JSON Lines."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from web.tables.table import Column, Kind, with_below

EXPORT_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
"""The types of the formats, for HTTP."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212")
"""Also what spreadsheets take for the same signs: their full-width forms."""


def to_csv(columns: Sequence[Column[Any]], rows: Sequence[msgspec.Struct]) -> Iterator[bytes]:
    """A line with the names of the fields, then one for each row. Texts that a spreadsheet would run as formulas begin with an apostrophe."""
    columns = with_below(columns)
    yield _line([column.key for column in columns], csv.QUOTE_MINIMAL)
    for row in rows:
        # Every cell is quoted: spreadsheets of some languages separate cells at semicolons too.
        yield _line([_cell(column, getattr(row, column.key)) for column in columns], csv.QUOTE_ALL)


def to_json_lines(rows: Sequence[msgspec.Struct]) -> Iterator[bytes]:
    """One JSON object a line."""
    encoder = msgspec.json.Encoder()
    for row in rows:
        yield encoder.encode(row) + b"\n"


def _cell(column: Column[Any], value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _harmless(" ".join(f"{key}={one}" for key, one in value.items()))
    if column.kind is Kind.LIST:
        return _harmless(" ".join(map(str, value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _harmless(value) if isinstance(value, str) else str(value)


def _harmless(text: str) -> str:
    return f"'{text}" if text.lstrip(" \xa0\u3000").startswith(_FORMULA) else text


def _line(cells: Sequence[str], quoting: Literal[0, 1]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n", quoting=quoting).writerow(cells)
    return line.getvalue().encode()
