"""Cells: the rows of a table as HTML.

A page has up to some thousand cells; as macros of a template they took most of its time. Everything that is not markup of this file is escaped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from markupsafe import Markup, escape
from msgspec import Struct

from web.tables.formats import (
    LONG,
    breakable,
    format_bytes,
    format_number,
    format_percent,
    format_share,
    format_utc,
    format_whole,
    in_parts,
    tone,
)
from web.tables.table import Column, Kind
from web.translations.durations import format_duration

_EMPTY: Final[tuple[Any, ...]] = ("", [], {})
_NOTHING: Final = '<span class="none">–</span>'
_SECONDS: Final = len("2026-11-23T09:00:00")


class Cells(Struct, frozen=True):
    """Writes cells in the language of `t`; `url` completes the address of a link."""

    t: Callable[..., str]
    url: Callable[[str], str]

    def rows(self, columns: Sequence[Column[Any]], rows: Iterable[Any]) -> Markup:
        """The rows of a table's body. The first cell that is no choice is the heading of its row."""
        heading = next((column for column in columns if column.kind is not Kind.CHOICE), None)
        heads = [("th", ' scope="row"') if column is heading else ("td", "") for column in columns]
        labels = [escape(self.t(column.label)) for column in columns]
        parts: list[str] = []
        for row in rows:
            parts.append("<tr>")
            for column, (tag, scope), label in zip(columns, heads, labels, strict=True):
                classes = _classes(column, row)
                parts.append(
                    f'<{tag}{scope} class="{classes}" data-label="{label}">{self._content(column, row)}</{tag}>'
                )
            parts.append("</tr>\n")
        return Markup("".join(parts))  # noqa: S704  (each part is escaped)

    def time(self, milliseconds: int | None) -> Markup:
        """A time, which the browser shows in the user's zone."""
        if milliseconds is None or milliseconds <= 0:
            return Markup(f'<span class="none">{escape(self.t("never"))}</span>')  # noqa: S704  (escaped)
        moment = format_utc(milliseconds)
        return Markup(f'<time datetime="{moment}">{moment[:_SECONDS].replace("T", " ")} UTC</time>')  # noqa: S704  (digits only)

    def _content(self, column: Column[Any], row: Any) -> str:
        notes = [
            self._note(one, row)
            for one in column.below
            if getattr(row, one.key) not in (None, "", []) or (one.says and one.says(row))
        ]
        return "\n".join([self._main(column, row), *notes])

    def _note(self, column: Column[Any], row: Any) -> str:
        label = f' data-label="{escape(self.t(column.label))}"' if column.label else ""
        title = f' title="{escape(self.t(column.help))}"' if column.help else ""
        return f'<span class="note"{label}{title}>{self._content(column, row)}</span>'

    def _main(self, column: Column[Any], row: Any) -> str:
        value = getattr(row, column.key)
        said = column.says(row) if column.says else None
        if not said and value in _EMPTY:
            return _NOTHING
        if column.kind is Kind.LIST and value is not None:
            return self._list(column, row, value)
        if column.kind is Kind.CHOICE:
            return (
                f'<input type="checkbox" form="chosen" name="message" value="{escape(value)}" '
                f'aria-label="{escape(self.t(column.label))}">'
            )
        if not said and value is None:
            return self._nothing_known(column)
        shown = breakable(self.t(said[0], **said[1])) if said else self._shown(column, value)
        link = column.link(row) if column.link else None
        if not link:
            return shown
        mark = tone(value) if said and column.kind is Kind.WORD else ""
        return f'<a href="{escape(self.url(link))}"{_class(mark)}>{shown}</a>'

    def _nothing_known(self, column: Column[Any]) -> str:
        if column.none:
            return f'<span class="none">{escape(self.t(column.none))}</span>'
        return f'<span class="none" title="{escape(self.t("unknown"))}">–</span>'

    def _list(self, column: Column[Any], row: Any, value: Sequence[str]) -> str:
        if not column.links:
            return " ".join(f'<span class="item">{breakable(text)}</span>' for text in value)
        return " ".join(
            f'<a class="item" href="{escape(self.url(link))}">{breakable(self.t(text) if text in column.words else text)}</a>'
            for text, link in column.links(row)
        )

    def _shown(self, column: Column[Any], value: Any) -> str:
        match column.kind:
            case Kind.NUMBER:
                return format_whole(value)
            case Kind.RATE:
                return format_number(value)
            case Kind.SHARE:
                return escape(format_share(value, self.t))
            case Kind.PERCENT:
                return format_percent(value)
            case Kind.BYTES:
                return f'<span title="{format_number(value)}">{format_bytes(value)}</span>'
            case Kind.TIME:
                return self.time(value)
            case Kind.ID:
                return in_parts(value)
            case Kind.DURATION:
                return escape(format_duration(value, self.t))
            case Kind.YES_NO:
                return escape(self.t("yes") if value else self.t("no"))
        if column.kind is Kind.WORD or column.is_word:
            word, mark = escape(self.t(value)), tone(value)
            return f"<span{_class(mark)}>{word}</span>" if mark else word
        if isinstance(value, str):
            return breakable(self.t(value) if value in column.words else value)
        return escape(value)


def _classes(column: Column[Any], row: Any) -> str:
    """The classes of a cell: long texts wrap, others do not; a small screen leaves out empty cells."""
    value = getattr(row, column.key)
    classes = column.kind.value
    if column.kind in {Kind.TEXT, Kind.LIST} and len(str(value)) > LONG:
        classes += " long"
    if value in _EMPTY or (column.says and column.says(row) == ("–", {})):
        classes += " blank"
    return classes


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
