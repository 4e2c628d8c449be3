"""How values are shown: numbers, sizes, times, long texts. Used by templates as filters, and by the cells of tables."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from markupsafe import Markup, escape

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT: Final = 1024
LONG: Final = 36
"""Characters of a text from which on it may be shown on several lines."""
_PART: Final = 16
"""Characters of an id after which it may be broken."""
_BEFORE_BREAK: Final = re.compile(r"(?<=[^\s/,;&])[/,;&]+(?=[^\s/,;&])|[^\s/,;&]{32}(?=[^\s/,;&])")
"""What stands before a place where a long text may be broken: separators within a word, or 32 characters without one."""
_BAD: Final = frozenset({
    "ahead of its master", "disconnected", "failed", "firing", "no master", "not readable", "stalled",
    "stopped on the broker", "refused: a ConsumeQueue cannot be written", "refused: an IndexFile cannot be created",
    "refused: the CommitLog cannot be written", "refused: the disk is full", "stopped in the routes",
})  # fmt: skip
_UNUSUAL: Final = frozenset({"offline", "waiting"})


def format_number(value: float) -> str:
    """Digits in groups of three."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def format_whole(value: float) -> str:
    """A count: the mean of several may have a fraction, which no single one had."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def format_percent(value: float) -> str:
    """Percents with a decimal unless it is zero, as charts.js: 40.3, 39. Brokers may report whole percents only."""
    return f"{value:,.1f}".removesuffix(".0")


def format_share(value: float, t: Callable[..., str]) -> str:
    """A part of one in percent, as the language of `t` writes it: 40.3 %."""
    return t("{percent} %", percent=format_percent(value * 100))


def format_bytes(value: float) -> str:
    """In the largest unit that leaves a number above one: 1.5 GiB."""
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < _UNIT or unit == _UNITS[-1]:
            break
        amount /= _UNIT
    return f"{value:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"


def breakable(text: str) -> Markup:
    """A long text that browsers may break after its separators, and within words only if these are very long."""
    if len(text) <= LONG:
        return escape(text)
    ends = [found.end() for found in _BEFORE_BREAK.finditer(text)]
    return Markup("<wbr>").join(text[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True))


def in_parts(identifier: str) -> Markup:
    """An id that browsers may break after every 16 characters."""
    return Markup("<wbr>").join(identifier[at : at + _PART] for at in range(0, len(identifier), _PART))


def at_underscores(name: str) -> Markup:
    """The name of a property, which browsers may break after its underscores."""
    return Markup("_<wbr>").join(name.split("_"))


def tone(word: object) -> str:
    """The class that marks the word of a state which needs attention; empty for others."""
    return "bad" if word in _BAD else "warn" if word in _UNUSUAL else ""


def format_utc(milliseconds: int) -> str:
    """A time in UTC, as `<time datetime>` has it; the browser shows it in the user's zone."""
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return moment.isoformat(sep="T", timespec="milliseconds").replace("+00:00", "Z")
