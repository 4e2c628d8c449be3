"""Languages: the English text is the key, a catalogue has the others.

A value of milliseconds in a text, `{age:duration}`, is shown as a duration in the text's language.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Final

from web.translations.durations import format_duration

LANGUAGES: Final = {"en": "English", "zh": "中文"}
_FOLDER: Final = Path(__file__).resolve().parent


@functools.cache
def catalogue(language: str) -> Mapping[str, str]:
    """The texts of a language by their English; empty for English."""
    if language == "en":
        return {}
    texts: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return texts


def translator(language: str) -> Callable[..., str]:
    """`t("{count} topics", count=3)`: the text in a language. A text without a translation stays English."""
    texts = catalogue(language)

    def translate(text: str, /, **values: Any) -> str:
        translated = texts.get(text, text)
        return formatter.format(translated, **values) if values else translated

    formatter = _ValueFormatter(translate)
    return translate


class _ValueFormatter(Formatter):
    """Formats the values of texts in one language."""

    def __init__(self, t: Callable[..., str]) -> None:
        self._t = t

    def format_field(self, value: Any, format_spec: str) -> str:
        return format_duration(value, self._t) if format_spec == "duration" else format(value, format_spec)


def choose_language(cookie: str | None, accept_language: str) -> str:
    """The viewer's choice, else the first language of the browser that there is, else English."""
    if cookie in LANGUAGES:
        return cookie
    for part in accept_language.lower().split(","):
        language = part.partition(";")[0].strip().partition("-")[0]
        if language in LANGUAGES:
            return language
    return "en"
