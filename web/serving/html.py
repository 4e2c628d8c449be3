"""Templates: the Jinja environment, and what every template may use."""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from web.paths import path_of
from web.tables.cells import Cells
from web.tables.formats import at_underscores, format_bytes, format_number, format_percent, format_share
from web.tables.table import SIZES, Kind
from web.translations.durations import format_duration

_FOLDER: Final = Path(__file__).resolve().parents[1]
STATIC: Final = _FOLDER / "static"
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
        )
        self._environment.filters.update(
            number=format_number,
            percent=format_percent,
            share=_translated_share,
            bytes=format_bytes,
            duration=_translated_duration,
            at_underscores=at_underscores,
        )

    def render(self, template: str, **values: Any) -> str:
        """The page. Every value that a template uses must be given: a missing one is an error."""
        if "t" in values:
            values["t"] = _with_ends(values["t"])
            values["cells"] = Cells(values["t"], self.url)
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


@pass_context
def _translated_share(context: Context, value: float) -> str:
    """A part of one in percent in the page's language."""
    return format_share(value, context["t"])


@pass_context
def _translated_duration(context: Context, milliseconds: float) -> str:
    """A duration with its units in the page's language."""
    return format_duration(milliseconds, context["t"])
