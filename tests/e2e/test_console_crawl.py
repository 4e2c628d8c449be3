"""Every page of a console below a path, whose texts others chose to harm its readers: escaping, addresses, and the formats of every table."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.console import Browser
from support.console_world import World, declared_routes
from support.hostile_world import BASE, HOSTILE, HOSTILE_KEY, LETTERS, hostile_world
from support.servers import wait_until
from web.routes import Query, Raw, Route
from web.translations import catalogue

pytestmark = pytest.mark.slow
SHOWN = {
    "/", "/acl", "/acl/accounts/<account:str>", "/acl/check", "/alerts", "/alerts/channels/<channel:str>", "/alerts/rules/<rule:str>",
    "/audit", "/charts", "/dead-letters", "/dead-letters/<group:str>", "/dead-letters/<group:str>/progress", "/delays/<broker:str>/<level:str>",
    "/delays/timers", "/groups", "/groups/<group:str>", "/groups/<group:str>/members/<client:str>", "/groups/<group:str>/reset",
    "/messages", "/messages/<id:str>", "/producers", "/search", "/sessions/<session:str>", "/tokens", "/tokens/<token:str>", "/topics",
    "/topics/<topic:str>", "/topics/<topic:str>/consumers", "/traces", "/transactions", "/users", "/users/<user:str>",
}  # fmt: skip
"""Pages with texts that others choose."""
ALL_ROWS = 250
UNIT = re.compile(r"\d (?:(ms|s|min|h|d)\b(?! \(local\))|(%)(?!\w))")
"""A duration or percentage in English, but for the output of exports."""
CODE = frozenset({"code", "kbd", "pre"})
DATA = CODE | {"a", "dd", "script", "style", "td", "textarea", "time", "title"}
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr", "rect"})
NAMES = {"admin", "log", "login"}
"""Texts of the console that are also names of others."""
LABELS = frozenset({"button", "dt", "h1", "h2", "h3", "label", "legend", "option", "p", "summary", "th"})
"""Elements whose texts are the console's own, but for marked parts and links."""
SAME_IN_CHINESE = re.compile(
    r"(?:(?:ACL|API|AccessKey|Broker|CSV|Delta|Headrace|ID|Iceberg|JSON|Key|Lines|NameServer|PID|Parquet|STARTTLS|TLS|UTC|Webhook|[\d.:]+) ?)+"
)
"""Labels that Chinese does not translate."""
CHINESE = r"[\u3400-\u9fff]"
HALF_WIDTH = re.compile(rf"{CHINESE}\s*[,.:;!?()]|[,.:;!?()]\s*{CHINESE}")
"""Half-width punctuation beside Chinese."""


class Reader(HTMLParser):
    """What a browser makes of a page: its texts, its tags, and the rows of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        """Tag, name, value."""
        self.texts = ""
        self.pieces: list[str] = []
        """The texts between tags, without those of code and keys."""
        self.labels: list[str] = []
        """The texts of labels, and of nothing within them that is data: code, links, cells, and what is not translated."""
        self.rows: dict[str, int] = {}
        self._table = ""
        self._is_body = False
        self._code = 0
        self._open: list[tuple[str, bool]] = []
        """The tags that are open, and whether what they contain is data."""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        self._code += tag in CODE
        if tag not in VOID:
            is_data = (
                (tag == "button" and "lang" in given)
                or tag in DATA
                or given.get("translate") == "no"
                or given.get("scope") == "row"
                or "subject" in given.get("class", "").split()
            )
            self._open.append((tag, is_data or (tag == "option" and "value" not in given)))
        self.attributes += [(tag, name, value) for name, value in given.items()]
        if tag == "section" and given.get("class") == "table":
            self._table = given["id"].removeprefix("table-")
            self.rows[self._table] = 0
        self._is_body = tag == "tbody" or (self._is_body and tag != "thead")
        if tag == "tr" and self._is_body and self._table:
            self.rows[self._table] += 1
        elif given.get("class") == "nothing":
            self.rows[self._table] -= 1

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass
        self._table = "" if tag == "section" else self._table
        self._code -= tag in CODE
        self._is_body = self._is_body and tag != "tbody"

    def handle_data(self, data: str) -> None:
        self.texts += data
        if not self._code:
            self.pieces.append(" ".join(data.split()))
        if (
            data.strip()
            and any(one in LABELS for one, _ in self._open)
            and not any(is_data for _, is_data in self._open)
        ):
            self.labels.append(" ".join(data.split()))

    def of(self, *names: str) -> set[str]:
        """The values of attributes."""
        return {value for _, name, value in self.attributes if name in names}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hostile_world(tmp_path_factory.mktemp("crawl")) as world:
        yield world


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[Route]:
    return declared_routes(tmp_path_factory.mktemp("declared"))


@pytest.fixture(scope="module")
def pages(world: World) -> dict[str, Reader]:
    """Every page, by its route."""
    return {route: Reader(world.admin.answered(path).text) for route, path in world.pages.items()}


def test_every_page_is_reached_by_links(world: World, routes: list[Route]) -> None:
    assert {route.path for route in routes if isinstance(route, Query)} == set(world.pages)


def test_texts_of_others_are_shown_as_texts(pages: dict[str, Reader]) -> None:
    for route, page in pages.items():
        assert "svg" not in page.tags, route
        assert [one for one in page.attributes if one[1].startswith("on")] == [], route
        assert [one for one in page.attributes if one[2].strip().lower().startswith("javascript:")] == [], route
        assert page.tags["script"] == sum(tag == "script" and name == "src" for tag, name, _ in page.attributes), route
    shown = {route for route, page in pages.items() if HOSTILE in page.texts or HOSTILE_KEY in page.texts}
    assert shown >= SHOWN, SHOWN - shown


def test_pages_in_chinese_have_no_english_units_and_words(world: World) -> None:
    browser = Browser(world.port, BASE)
    browser.cookies = {**world.admin.cookies, "language": "zh"}
    english = {text for text, chinese in catalogue("zh").items() if text != chinese} - NAMES
    left = {}
    for route, path in world.pages.items():
        page = Reader(browser.answered(path).text)
        shown = {*page.pieces, *page.of("title", "aria-label", "placeholder", "data-label")}
        left[route] = {text for text in shown if text in english or UNIT.search(text)}
    assert {route: texts for route, texts in left.items() if texts} == {}


@pytest.fixture(scope="module")
def chinese(world: World) -> dict[str, Reader]:
    """Every page in Chinese, by its route."""
    browser = Browser(world.port, BASE)
    browser.cookies = {**world.admin.cookies, "language": "zh"}
    return {route: Reader(browser.answered(path).text) for route, path in world.pages.items()}


def test_every_label_of_pages_in_chinese_is_chinese(chinese: dict[str, Reader]) -> None:
    left = {
        route: sorted(
            {
                text
                for text in (*page.labels, *page.of("data-label"))
                if re.search("[A-Za-z]", text) and not re.search(CHINESE, text) and not SAME_IN_CHINESE.fullmatch(text)
                if HOSTILE not in text
            }
        )
        for route, page in chinese.items()
    }
    assert {route: texts for route, texts in left.items() if texts} == {}


def test_pages_in_chinese_have_no_half_width_punctuation(chinese: dict[str, Reader]) -> None:
    left = {
        route: [text for text in page.pieces if HALF_WIDTH.search(text.replace("group:名称", ""))]
        for route, page in chinese.items()
    }
    assert {route: texts for route, texts in left.items() if texts} == {}


def test_every_address_is_below_the_path_of_the_console_and_is_served(
    world: World, pages: dict[str, Reader], routes: list[Route]
) -> None:
    browser = Browser(world.port)
    login = Reader(browser.get(f"{BASE}/login").text)
    assert browser.get(f"{BASE}/topics").headers["location"].startswith(f"{BASE}/login?")
    moved = browser.post(f"{BASE}/language", {"language": "en", "next": "/topics"})
    assert moved.headers["location"] == f"{BASE}/topics"
    browser.cookies = world.admin.cookies

    shapes = [re.compile(re.sub(r"<\w+:\w+>", "[^/]+", route.path)) for route in routes]
    asked: dict[tuple[str, frozenset[str]], str] = {}
    for route, page in {**pages, "/login": login}.items():
        for tag, name, value in page.attributes:
            assert name not in {"href", "src", "action", "formaction"} or value.startswith(("/", "#")), (
                route,
                tag,
                name,
                value,
            )
            if not value.startswith("/") or name == "value":  # fields have addresses without the path
                continue
            assert value == BASE or value.startswith(f"{BASE}/"), (route, tag, name, value)
            path, arguments = urlsplit(value).path, frozenset(parse_qs(urlsplit(value).query))
            if name in {
                "action",
                "formaction",
                "hx-get",
                "data-tail",
            }:  # forms are answered with their fields, and a stream does not end
                assert any(shape.fullmatch(path.removeprefix(BASE)) for shape in shapes), (route, tag, name, value)
            elif name not in {"data-base", "data-base-path"}:
                asked.setdefault((path, arguments), value)  # of those that differ in values only, one
    found = {address: browser.answered(address).status for address in asked.values()}
    assert {address: status for address, status in found.items() if status != 200} == {}


def rows_of(world: World, path: str) -> dict[str, list[int]]:
    """Of each table: the rows on its page, in the API, the API's total, and the rows in CSV and in JSON Lines."""
    address, _, arguments = path.partition("?")
    tables = {name: one for name, one in world.admin.answered(f"/api/v1{path}").json().items() if is_table(one)}
    sizes = [f"{name}.size={ALL_ROWS}" for name in tables] + [f"size={ALL_ROWS}"]
    whole = f"{address}?{'&'.join([*filter(None, [arguments]), *sizes])}"
    found = world.admin.answered(f"/api/v1{whole}").json()
    shown = Reader(world.admin.answered(whole).text).rows
    assert shown.keys() == tables.keys(), path
    counts = {}
    for name in tables:
        exported = f"{address}?{'&'.join([*filter(None, [arguments]), f'table={name}'])}"
        lines = world.admin.answered(f"{exported}&format=jsonl").body.splitlines()
        cells = list(csv.reader(io.StringIO(world.admin.answered(f"{exported}&format=csv").text, newline="")))
        counts[name] = [shown[name], len(found[name]["rows"]), found[name]["total"], len(cells) - 1, len(lines)]
    return counts


def are_equal(counts: dict[str, list[int]]) -> bool:
    """Whether each table has as many rows in every format; pages show at most `ALL_ROWS`."""
    return all(
        {shown, listed} == {min(total, ALL_ROWS)} and {*exported} == {total}
        for shown, listed, total, *exported in counts.values()
    )


def is_table(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"rows", "total", "page", "size"}


def test_every_table_has_the_same_rows_in_every_format(world: World) -> None:
    for route, path in sorted(world.pages.items()):
        wait_until(lambda: are_equal(rows_of(world, path)), 60, f"the same rows in every format of {route}")  # noqa: B023


def test_exports_of_messages_have_all_that_the_page_has(world: World, routes: list[Route]) -> None:
    exports = [route.path for route in routes if isinstance(route, Raw) and route.path.endswith("/export")]
    for route in exports:
        page = world.pages[route.removesuffix("/export")]
        [[shown, *_]] = rows_of(world, page).values()
        lines = world.admin.answered(f"{page}/export?format=jsonl").body.splitlines()
        cells = list(csv.reader(io.StringIO(world.admin.answered(f"{page}/export?format=csv").text, newline="")))
        assert (len(lines), len(cells) - 1, shown) == (LETTERS,) * 3, route
    assert exports
