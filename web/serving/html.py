"""Templates: the Jinja environment, and what every template may use."""

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from web.paths import path_of
from web.tables.table import SIZES, Kind

_FOLDER: Final = Path(__file__).resolve().parents[1]
STATIC: Final = _FOLDER / "static"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT: Final = 1024


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
        )
        self._environment.filters.update(
            number=format_number, bytes=format_bytes, duration=format_duration, utc=format_utc
        )

    def render(self, template: str, **values: Any) -> str:
        """The page. Every value that a template uses must be given: a missing one is an error."""
        return self._environment.get_template(template).render(**values)

    def _version(self, name: str) -> str:
        """Part of the content's hash: browsers may keep files for ever."""
        if name not in self._versions:
            self._versions[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
        return self._versions[name]


def format_number(value: float) -> str:
    """Digits in groups of three."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def format_bytes(value: int) -> str:
    """In the largest unit that leaves a number above one: 1.5 GiB."""
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < _UNIT or unit == _UNITS[-1]:
            break
        amount /= _UNIT
    return f"{value:,} B" if unit == "B" else f"{amount:,.1f} {unit}"


def format_duration(milliseconds: int) -> str:
    """The two largest units: 3 d 4 h, 12 min 5 s, 340 ms."""
    if abs(milliseconds) < 1_000:
        return f"{milliseconds} ms"
    seconds = abs(milliseconds) // 1_000
    sign = "-" if milliseconds < 0 else ""
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return sign + " ".join(f"{amount} {unit}" for amount, unit in parts[:2])


def format_utc(milliseconds: int) -> str:
    """A time in UTC, as `<time datetime>` has it; the browser shows it in the viewer's zone."""
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return moment.isoformat(sep="T", timespec="milliseconds").replace("+00:00", "Z")
