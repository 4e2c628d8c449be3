"""Languages: the English text is the key, a catalogue has the others."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

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
        return translated.format(**values) if values else translated

    return translate


def choose_language(cookie: str | None, accept_language: str) -> str:
    """The viewer's choice, else the first language of the browser that there is, else English."""
    if cookie in LANGUAGES:
        return cookie
    for part in accept_language.lower().split(","):
        language = part.partition(";")[0].strip().partition("-")[0]
        if language in LANGUAGES:
            return language
    return "en"
