"""Every text of the console has its Chinese."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter

import pytest

from web.errors import NotFound
from web.routes import Problem
from web.serving.html import Templates
from web.translations import catalogue, choose_language, translator

WEB = Path(__file__).resolve().parents[3] / "web"
TEXTS: dict[str, Callable[[ast.Call], list[ast.expr]]] = {
    "Column": lambda call: call.args[1:2],
    "View": lambda call: call.args[:1],
    "Problem": lambda call: call.args[:1],
    "Finding": lambda call: call.args[:1],
    "_problem": lambda call: call.args[:1],
    "Outcome": lambda call: call.args[:1],
    "Query": lambda call: call.args[2:3],
    "Change": lambda call: call.args[4:5],
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
                named = [
                    word.value for word in node.keywords if word.arg in {"empty", "help", "menu", "none", "summary"}
                ]
                yield from (
                    one.value
                    for one in (*given, *named)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


FAILURES = {"QueryFailed", "NotFound", "Invalid", "NotLoggedIn", "Refused", "TooOften", "ProviderFailed"}


def named_texts(module: ast.Module) -> dict[str, list[str]]:
    """The module's constants that are a text, or a table of texts."""
    found: dict[str, list[str]] = {}
    for node in module.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            texts = [one.value for one in values if isinstance(one, ast.Constant)]
            found[node.target.id] = [text for text in texts if isinstance(text, str)]
    return found


def texts_of_failures() -> Iterator[str]:
    """Causes and advice. A cause is never an f-string: it could not be translated."""
    for path in WEB.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        named = named_texts(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FAILURES:
                for one in node.args:
                    assert not isinstance(one, ast.JoinedStr), f"{path.name}:{one.lineno}: pass the values by name"
                    if isinstance(one, ast.Constant):
                        yield str(one.value)
                    for part in ast.walk(one):
                        if isinstance(part, ast.Name):
                            yield from named.get(part.id, [])


def test_error_of_a_page_about_what_does_not_exist_says_what_to_do() -> None:
    silent = [
        f"{path.name}:{node.lineno}"
        for room in ("accounts", "alerts", "pages")
        for path in (WEB / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "NotFound"
        if len(node.args) < 2
    ]
    assert silent == []


TABLES = {
    "ACTION_WORDS", "CHECK", "FAILED_LOGINS", "FIRST_BROKERS", "FURTHEST_GROUPS", "LOGS_IN_ELSEWHERE", "STORE_LATENCY", "WHAT_WORDS", "WRONG_PASSWORDS",
    "_ALLOWED", "_EVENT_WORDS", "_FAILED", "_FAILED_AT", "_LABELS", "_MEASURES", "_MEASURES_OF_ONE", "_NO_SAMPLE", "_OWN_TOPICS",
    "_PERMISSION_WORDS", "_RESUMING", "_ROLE_OF_PROVIDER", "_SETTINGS", "_STOPPED", "_STOPPING", "_TITLES",
}  # fmt: skip
"""Constants with texts, which are passed on."""


def texts_of_tables() -> Iterator[str]:
    """Texts of the constants above, each of which there is."""
    missing = set(TABLES)
    for path in WEB.rglob("*.py"):
        named = named_texts(ast.parse(path.read_text(encoding="utf-8")))
        for name in TABLES & named.keys():
            missing.discard(name)
            yield from named[name]
    assert missing == set()


OPTIONS = ("headrace/model/server_options.py", "broker/config.py", "store/config.py", "nameserver/config.py")


def texts_of_options() -> Iterator[str]:
    """Descriptions of the options of brokers and name servers."""
    for path in OPTIONS:
        for node in ast.walk(ast.parse((WEB.parent / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "help":
                yield ast.literal_eval(node.value)


def test_every_text_has_its_chinese() -> None:
    found = (*texts_of_templates(), *texts_of_pages(), *texts_of_failures(), *texts_of_tables(), *texts_of_options())
    texts = {text for text in found if text}
    assert sorted(texts - set(catalogue("zh"))) == []


def test_translations_have_the_values_of_their_texts() -> None:
    def values(text: str) -> list[str]:
        return sorted(name for _, name, _, _ in Formatter().parse(text) if name)

    assert [text for text, chinese in catalogue("zh").items() if values(text) != values(chinese)] == []


SYNTAX = ("group:名称",)
"""What users type as it is."""


def test_chinese_has_full_width_punctuation() -> None:
    half = re.compile(r"[\u3400-\u9fff]\s*[,.:;!?()]|[,.:;!?()]\s*[\u3400-\u9fff]")
    found = {text: chinese for text, chinese in catalogue("zh").items() if not any(one in chinese for one in SYNTAX)}
    assert {text: chinese for text, chinese in found.items() if half.search(chinese)} == {}


def test_templates_put_no_half_width_punctuation_beside_a_text() -> None:
    """Punctuation belongs to the text, which is translated."""
    beside = re.compile(r"""\bt\([^{}]*\)\s*\}\}(?:</\w+>)?[ ]*[,.:;()]|[,.:;(]\s*\{\{\s*t\(""")
    found = [
        f"{path.name}: {one[0]}"
        for path in (WEB / "templates").rglob("*.html")
        for one in beside.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_failure_is_translated_with_its_values() -> None:
    failure = NotFound("the topic {topic} does not exist", "Type {topic} to delete it.", topic="Orders{0}")
    assert (str(failure), failure.advice) == ("the topic Orders{0} does not exist", "Type Orders{0} to delete it.")
    assert translator("zh")(failure.cause_key, **failure.values) == "主题 Orders{0} 不存在"
    assert str(NotFound("a text {with} braces")) == "a text {with} braces"


def test_problem_of_a_page_is_translated_with_its_values() -> None:
    environment = Templates("")._environment
    source = '{% from "macros.html" import problems with context %}{{ problems(list) }}'
    late = Problem("disks: the brokers did not answer within {seconds} s", {"seconds": "4"})
    shown = environment.from_string(source).render(t=translator("zh"), list=[late, "broker-a {x}: <down>"])
    assert "磁盘：Broker 未在 4 秒内应答" in shown
    assert "broker-a {x}: &lt;down&gt;" in shown
    assert str(late) == "disks: the brokers did not answer within 4 s"


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
