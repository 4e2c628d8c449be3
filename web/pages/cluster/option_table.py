"""The options of a server as a table, with where each value comes from if the server is the appliance's own; and the form for one of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from web.config import OptionOrigin, OwnServer
from web.errors import Invalid
from web.tables.table import Choice, Column, Kind, Table

_KEY: Final = re.compile(r"[A-Za-z0-9_.]{1,100}")
_SECRET: Final = re.compile(r"secret|password|token|credential", re.IGNORECASE)
_HIDDEN: Final = "***"
_SHOWN: Final = Choice(
    "shown", "Options", (("all", "All"), ("set", "Non-default values"), ("changeable", "Changeable"))
)
OPTION_ARGUMENTS: Final = {
    "key": "The option whose value and description are in `key`, `value` and `description`.",
    **_SHOWN.argument,
}
_SAVED, _LOST, _FIXED = (
    "changed while running, saved",
    "changed while running, until the next restart",
    "fixed, not configurable",
)


class OptionRow(msgspec.Struct, frozen=True):
    """One option. Of other appliances and of Apache's servers only key and value are known."""

    key: str
    value: str
    origin: str = ""
    source: str = ""
    started_with: str = ""
    """The value at the start, if it has been changed since."""
    is_changeable: bool | None = None
    description: str = ""


class OptionForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new value of an option."""

    key: Annotated[str, msgspec.Meta(max_length=100)]
    value: Annotated[str, msgspec.Meta(max_length=4096)]


def option_table(values: Mapping[str, str], own: OwnServer | None, page: str) -> Table[OptionRow]:
    """The table; the key of an option that may be changed links to its form on the page."""

    def link(row: OptionRow) -> str | None:
        return None if row.is_changeable is False else f"{page}?key={row.key}#change"

    columns: list[Column[OptionRow]] = [
        Column("key", "Option", link=link, below=(Column("description", "", is_word=True),)),
        Column("value", "Value"),
    ]
    choices: tuple[Choice, ...] = ()
    if own is not None:
        columns += [
            Column("origin", "Origin", Kind.WORD, below=(Column("source", "", is_word=True),)),
            Column("started_with", "Value at the start", is_shown_if_any=True),
            Column("is_changeable", "Changeable", Kind.YES_NO, help="Whether it can be changed at run time."),
        ]
        choices = (_SHOWN,)
    return Table(
        "options",
        OptionRow,
        [_row(key, value, own) for key, value in sorted(values.items(), key=lambda one: one[0].lower())],
        tuple(columns),
        search=("key", "value", "description"),
        choices=choices,
        choose=_is_chosen if choices else None,
        empty="No options were reported.",
    )


def checked_change(form: OptionForm) -> dict[str, str]:
    """What is sent to the server. Raises Invalid."""
    if not _KEY.fullmatch(form.key):
        raise Invalid("unknown option {key}", "Choose an option from the table.", key=repr(form.key))
    if not form.value.isprintable():
        raise Invalid("the value has a line break or another control character", "Write it on one line.")
    return {form.key: form.value.replace("\\", "\\\\")}


def shown_value(key: str, value: str | None) -> str | None:
    """The value as it may be shown and written to the audit log."""
    return _HIDDEN if value and _SECRET.search(key) else value


def secret_fields(sent: Mapping[str, Sequence[str]]) -> Collection[str]:
    """The fields of OptionForm that are not shown again if the form was refused."""
    return ("value",) if any(_SECRET.search(key) for key in sent.get("key", ())) else ()


def is_same(left: str, right: str) -> bool:
    """Whether a server reports what was set: it may write numbers and booleans in its own way."""
    if left.strip().lower() == right.strip().lower():
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False


def _row(key: str, value: str, own: OwnServer | None) -> OptionRow:
    shown = shown_value(key, value) or ""
    if own is None:
        return OptionRow(key, shown)
    option = own.options.get(key)
    if option is None:
        return OptionRow(key, shown, _FIXED, is_changeable=False)
    origin, source, before = option.origin.value, option.source, ""
    if value != option.value:
        if option.is_changeable:
            is_saved = bool(own.broker_conf) and option.source in {"", own.broker_conf}
            # Another source has precedence over broker.conf: its value returns at the next start.
            origin, source = (_SAVED, own.broker_conf) if is_saved else (_LOST, option.source)
            before = shown_value(key, option.value) or ""
        else:
            origin = OptionOrigin.DERIVED.value if option.origin is OptionOrigin.DEFAULT else origin
    return OptionRow(key, shown, origin, source, before, option.is_changeable, option.help)


def _is_chosen(row: OptionRow, chosen: Mapping[str, str]) -> bool:
    match chosen["shown"]:
        case "set":
            return row.origin not in {OptionOrigin.DEFAULT.value, OptionOrigin.DERIVED.value, _FIXED}
        case "changeable":
            return row.is_changeable is True
        case _:
            return True
