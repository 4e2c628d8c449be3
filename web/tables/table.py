"""Table: rows, columns, and the part of them that an address selects.

    class TopicRow(msgspec.Struct, frozen=True):
        topic: str
        queues: int

    table = Table("topics", TopicRow, rows, (Column("topic", "Topic", link=lambda row: f"/topics/{row.topic}"), NUMBER("queues", "Queues")))

Rows hold cheap data: all of them are filtered and sorted. `enrich` adds what costs a request for each row; it is called only for rows
that are shown or exported. A column that `enrich` fills cannot be sorted by (`is_enriched`).
"""

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from web.errors import Invalid

R = TypeVar("R", bound=msgspec.Struct)

DEFAULT_SIZE: Final = 50
SIZES: Final = (25, 50, 100, 250)
_OWN: Final = ("sort", "filter", "page", "size")
_EXPORT: Final = frozenset({"format", "table"})
_BATCH: Final = 250  # limit: rows that an export enriches at a time


class Kind(enum.Enum):
    """How a value is shown."""

    TEXT = "text"
    ID = "id"
    """The id of a message, which may be shown on several lines."""
    WORD = "word"
    """One of few texts, English, a key of the translations."""
    NUMBER = "number"
    BYTES = "bytes"
    TIME = "time"
    """Milliseconds since 1970; 0 and less: never."""
    DURATION = "duration"
    """Milliseconds."""
    RATE = "rate"
    """Per second."""
    SHARE = "share"
    """0 to 1, shown as a percentage."""
    PERCENT = "percent"
    """0 to 100; the heading has the percent sign."""
    YES_NO = "yes-no"
    LIST = "list"
    """Several texts."""
    CHOICE = "choice"
    """A box to choose the row by its value, a field of the page's form with the id `chosen`."""


class Column(Struct, Generic[R], frozen=True):
    """One column: the row's field, its heading (English, a key of translations), how it is shown, and where it links to."""

    key: str
    label: str
    kind: Kind = Kind.TEXT
    link: Callable[[R], str | None] | None = None
    """The address of a page, without the base path."""
    is_enriched: bool = False
    is_word: bool = False
    """The value is a word of the console, which is translated, and not a name."""
    words: frozenset[str] = frozenset()
    """Values that are words of the console too, although others are names."""
    is_shown_if_any: bool = False
    """Left out on pages on which every row is empty there."""
    help: str = ""
    """A sentence that explains the heading."""
    none: str = ""
    """What a missing value means, such as `nobody`; by default it is unknown."""
    links: Callable[[R], Sequence[tuple[str, str]]] | None = None
    """For a LIST: text and address of each."""
    says: Callable[[R], tuple[str, Mapping[str, Any]] | None] | None = None
    """What pages show in place of the value: a key of the translations and its values; None: the value itself."""
    below: tuple["Column[R]", ...] = ()
    """What pages show below the value, each with its heading if it has one, unless it is empty. Exports have these as columns of their own."""


class Choice(Struct, frozen=True):
    """A filter with few values, shown as a list: `?kind=retry`."""

    key: str
    label: str
    values: tuple[tuple[str, str], ...]
    """Value and label; the first is the default."""

    @property
    def argument(self) -> dict[str, str]:
        """Its argument of the address, with a line for the API's document."""
        return {self.key: f"One of {', '.join(value for value, _ in self.values)}; the default is {self.values[0][0]}."}


class Selection(Struct, frozen=True):
    """What an address selects of a table."""

    sort: str = ""
    is_descending: bool = False
    filter: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    page: int = 1
    size: int = DEFAULT_SIZE
    others: Mapping[str, str] = field(default_factory=dict)
    """The arguments of the rest of the page, such as what was searched for: links of the table keep them."""


class Table(Struct, Generic[R], frozen=True):
    """Rows and how they are shown. `name` is unique on its page: it prefixes the table's arguments unless it is the page's first."""

    name: str
    row_type: type[R]
    rows: Sequence[R]
    columns: tuple[Column[R], ...]
    search: tuple[str, ...] = ()
    """Fields in which the filter looks for the text, ignoring case; empty: there is no filter."""
    choices: tuple[Choice, ...] = ()
    choose: Callable[[R, Mapping[str, str]], bool] | None = None
    """Whether a row belongs to the chosen values."""
    sort: str = ""
    """The default order: a field, with a minus for descending; empty: as given."""
    enrich: Callable[[Sequence[R]], Awaitable[Sequence[R]]] | None = None
    empty: str = "There are no entries."
    """Shown if there are no rows at all."""
    size: int = DEFAULT_SIZE
    """Rows of a page unless the address chooses another number."""

    def select(self, arguments: Mapping[str, str], prefix: str = "") -> "TableView[R]":
        """The rows that the arguments of an address select, not enriched yet. Raises Invalid."""
        selection = self._read(arguments, prefix)
        rows = self._filtered(selection)
        if selection.sort:
            rows = sorted(
                rows, key=lambda row: _sort_key(getattr(row, selection.sort)), reverse=selection.is_descending
            )
        return TableView(self, selection, prefix, rows)

    def _read(self, arguments: Mapping[str, str], prefix: str) -> Selection:
        sort = arguments.get(f"{prefix}sort", self.sort)
        is_descending, key = sort.startswith("-"), sort.removeprefix("-")
        sortable = {column.key for column in with_below(self.columns) if not column.is_enriched}
        if key and key not in sortable:
            raise Invalid(
                "the table {name} cannot be sorted by {key}",
                "Choose one of its columns.",
                name=self.name,
                key=repr(key[:80]),
            )
        choices = {choice.key: _chosen(choice, arguments.get(f"{prefix}{choice.key}")) for choice in self.choices}
        own = {f"{prefix}{key}" for key in (*_OWN, *choices)}
        return Selection(
            key,
            is_descending,
            arguments.get(f"{prefix}filter", "").strip()[:200],
            choices,
            _number(arguments.get(f"{prefix}page", "1"), "page", 1_000_000),
            _number(arguments.get(f"{prefix}size", str(self.size)), "size", SIZES[-1]),
            {key: value for key, value in arguments.items() if value and key not in own | _EXPORT},
        )

    def _filtered(self, selection: Selection) -> list[R]:
        rows = list(self.rows)
        if self.choose is not None:
            choose = self.choose
            rows = [row for row in rows if choose(row, selection.choices)]
        if selection.filter:
            text = selection.filter.lower()
            rows = [row for row in rows if any(text in str(getattr(row, key)).lower() for key in self.search)]
        return rows


class TableView(Struct, Generic[R], frozen=True):
    """The filtered and sorted rows of a table, and the page that is shown."""

    table: Table[R]
    selection: Selection
    prefix: str
    selected: Sequence[R]
    rows: Sequence[R] = ()
    """The rows of the page, enriched; empty until `fill`."""

    @property
    def total(self) -> int:
        """How many rows are selected."""
        return len(self.selected)

    @property
    def page_count(self) -> int:
        """How many pages the selected rows have."""
        return max(1, -(-self.total // self.selection.size))

    @property
    def page(self) -> int:
        """The shown page; the last one if the address asks for more."""
        return min(self.selection.page, self.page_count)

    @property
    def first(self) -> int:
        """The number of the first shown row, from 1."""
        return (self.page - 1) * self.selection.size + 1 if self.total else 0

    @property
    def last(self) -> int:
        """The number of the last shown row."""
        return min(self.page * self.selection.size, self.total)

    async def fill(self) -> "TableView[R]":
        """With the rows of the page. Raises as `enrich`."""
        begin = (self.page - 1) * self.selection.size
        rows = self.selected[begin : begin + self.selection.size]
        return TableView(self.table, self.selection, self.prefix, self.selected, await self._enriched(rows))

    async def all_rows(self) -> list[R]:
        """All selected rows, for an export. Raises as `enrich`."""
        rows: list[R] = []
        for begin in range(0, self.total, _BATCH):
            rows += await self._enriched(self.selected[begin : begin + _BATCH])
        return rows

    async def _enriched(self, rows: Sequence[R]) -> Sequence[R]:
        return rows if self.table.enrich is None or not rows else await self.table.enrich(rows)

    @property
    def columns(self) -> list[Column[R]]:
        """The columns that the page shows."""
        return [
            column
            for column in self.table.columns
            if not column.is_shown_if_any or any(getattr(row, column.key) for row in self.rows)
        ]

    def arguments(self, **changes: str | int) -> dict[str, str]:
        """The arguments of an address that selects the same with changes, and the rest of the page; defaults are left out."""
        now = self.selection
        sort = f"{'-' if now.is_descending else ''}{now.sort}"
        values: dict[str, str | int] = {
            "sort": sort,
            "filter": now.filter,
            **now.choices,
            "page": self.page,
            "size": now.size,
        }
        values.update(changes)
        defaults: dict[str, str | int] = {"sort": self.table.sort, "filter": "", "page": 1, "size": self.table.size}
        defaults.update((choice.key, choice.values[0][0]) for choice in self.table.choices)
        chosen = {
            f"{self.prefix}{key}": str(value) for key, value in values.items() if str(value) != str(defaults[key])
        }
        return {**now.others, **chosen}

    def sorted_by(self, column: Column[Any]) -> dict[str, str]:
        """The arguments that sort by a column, or turn the order round if it is sorted by it already."""
        now = self.selection
        is_first_descending = column.kind not in {Kind.TEXT, Kind.ID, Kind.LIST}
        is_descending = not now.is_descending if now.sort == column.key else is_first_descending
        return self.arguments(sort=f"{'-' if is_descending else ''}{column.key}", page=1)


def with_below(columns: Sequence[Column[R]]) -> list[Column[R]]:
    """The columns, each followed by those that pages show below it."""
    return [each for column in columns for each in (column, *column.below)]


def _sort_key(value: object) -> tuple[int, Any]:
    """Texts without regard to case, lists by their length; nothing comes first."""
    if value is None:
        return (0, 0)
    if isinstance(value, str):
        return (2, (value.lower(), value))
    if isinstance(value, int | float):
        return (1, value)
    return (1, len(value)) if isinstance(value, Sequence) else (2, (str(value), ""))


def _chosen(choice: Choice, given: str | None) -> str:
    values = [value for value, _ in choice.values]
    if given is None:
        return values[0]
    if given not in values:
        raise Invalid(
            "{key}={given} is not one of {choices}", key=choice.key, given=repr(given[:80]), choices=", ".join(values)
        )
    return given


def _number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):
        raise Invalid("{name}={text}: expected a number from 1 to {most}", name=name, text=repr(text[:80]), most=most)
    return int(text)
