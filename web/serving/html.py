"""Templates: the Jinja environment, and what every template may use."""

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from web.paths import path_of
from web.tables.table import SIZES, Kind
from web.translations.durations import format_duration

_FOLDER: Final = Path(__file__).resolve().parents[1]
STATIC: Final = _FOLDER / "static"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT: Final = 1024
_LONG: Final = 36
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


_FULL_WIDTH: Final = tuple("，。：；！？）")
_END: Final = "\ufdd0"
"""Marks the end of a text with full-width punctuation, which needs no space after it. A noncharacter: no text contains it."""
_GAP: Final = re.compile(rf"{_END}\s+(?=[^<\s]|<(?:a|code|span|strong|time)\b)")


class Templates:
    """Renders templates; `base_path` is put before every address."""

    def __init__(self, base_path: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._versions: dict[str, str] = {}

        def url(path: str, arguments: Mapping[str, str] | None = None) -> str:
            text = f"{base_path}{path}"
            return f"{text}?{urlencode(arguments)}" if arguments else text

        self.url: Callable[..., str] = url
        self._environment.globals.update(
            url=url,
            path_of=path_of,
            static=lambda name: url(f"/static/{name}?v={self._version(name)}"),
            Kind=Kind,
            SIZES=SIZES,
            LONG=_LONG,
        )
        self._environment.filters.update(
            number=format_number,
            whole=format_whole,
            percent=format_percent,
            share=_translated_share,
            bytes=format_bytes,
            duration=_translated_duration,
            utc=format_utc,
            breakable=breakable,
            in_parts=in_parts,
            at_underscores=at_underscores,
            tone=tone,
        )

    def render(self, template: str, **values: Any) -> str:
        """The page. Every value that a template uses must be given: a missing one is an error."""
        if "t" in values:
            values["t"] = _with_ends(values["t"])
        return _GAP.sub("", self._environment.get_template(template).render(**values)).replace(_END, "")

    def _version(self, name: str) -> str:
        """Part of the content's hash: browsers may keep files for ever."""
        if name not in self._versions:
            self._versions[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
        return self._versions[name]


def _with_ends(t: Callable[..., str]) -> Callable[..., str]:
    """Translates as `t`, and marks where templates must not put a space before the next text."""

    def translate(text: str, /, **values: Any) -> str:
        translated = t(text, **values)
        return translated + _END if translated.endswith(_FULL_WIDTH) else translated

    return translate


def format_number(value: float) -> str:
    """Digits in groups of three."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def format_whole(value: float) -> str:
    """A count: the mean of several may have a fraction, which no single one had."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def format_percent(value: float) -> str:
    """Percents with a decimal unless it is zero, as charts.js: 40.3, 39. Brokers may report whole percents only."""
    return f"{value:,.1f}".removesuffix(".0")


@pass_context
def _translated_share(context: Context, value: float) -> str:
    """A part of one in percent, as the page's language writes it: 40.3 %."""
    text: str = context["t"]("{percent} %", percent=format_percent(value * 100))
    return text


def format_bytes(value: float) -> str:
    """In the largest unit that leaves a number above one: 1.5 GiB."""
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < _UNIT or unit == _UNITS[-1]:
            break
        amount /= _UNIT
    return f"{value:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"


@pass_context
def _translated_duration(context: Context, milliseconds: float) -> str:
    """A duration with its units in the page's language."""
    return format_duration(milliseconds, context["t"])


def breakable(text: str) -> Markup:
    """A long text that browsers may break after its separators, and within words only if these are very long."""
    if len(text) <= _LONG:
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
