"""Every text of the console has its Chinese."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter

import pytest

from web.translations import catalogue, choose_language, translator

WEB = Path(__file__).resolve().parents[3] / "web"
TEXTS: dict[str, Callable[[ast.Call], list[ast.expr]]] = {
    "Column": lambda call: call.args[1:2],
    "View": lambda call: call.args[:1],
    "Outcome": lambda call: call.args[:1],
    "Chart": lambda call: call.args[:1],
    "Line": lambda call: [] if any(word.arg == "is_name" for word in call.keywords) else call.args[1:2],
}


def texts_of_templates() -> Iterator[str]:
    for path in (WEB / "templates").rglob("*.html"):
        yield from re.findall(r'\bt\("([^"]+)"', path.read_text(encoding="utf-8"))


def texts_of_pages() -> Iterator[str]:
    """Headings of columns, titles, notices, entries of the navigation."""
    for path in (WEB / "pages").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                given = TEXTS.get(node.func.id, lambda _: [])(node)
                named = [word.value for word in node.keywords if word.arg in {"empty", "help", "menu"}]
                yield from (
                    one.value
                    for one in (*given, *named)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


def test_every_text_has_its_chinese() -> None:
    texts = {text for text in (*texts_of_templates(), *texts_of_pages()) if text}
    assert sorted(texts - set(catalogue("zh"))) == []


def test_translations_have_the_values_of_their_texts() -> None:
    def values(text: str) -> list[str]:
        return sorted(name for _, name, _, _ in Formatter().parse(text) if name)

    assert [text for text, chinese in catalogue("zh").items() if values(text) != values(chinese)] == []


def test_text_without_a_translation_stays_english() -> None:
    assert translator("zh")("no such text {n}", n=1) == "no such text 1"


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "fr, zh-CN;q=0.9, en;q=0.8", "zh"),
        ("en", "zh", "en"),
        ("../etc", "zh", "zh"),
        (None, "x" * 9000, "en"),
    ],
)
def test_language_is_the_viewer_s_choice_then_the_browser_s(cookie: str | None, accepted: str, language: str) -> None:
    assert choose_language(cookie, accepted) == language
