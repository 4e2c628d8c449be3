"""Every page of the console by the rules of axe-core: screen readers, keyboard, contrast; light and dark."""

import asyncio
import html
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headrace import Reject
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.settings import ClientConfig
from headrace.sync import Admin, Message, Producer, PushConsumer
from support.accessibility import findings
from support.appliance import Appliance
from support.console import PASSWORD, Browser, first_administrator, is_up
from support.servers import free_port, wait_until
from web.application import ConsoleSettings, make_console
from web.config import ConsoleConfig
from web.routes import Query

pytestmark = pytest.mark.slow
QUICK = {"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "65536", "flushCommitLogThoroughInterval": "200"}
WAIT_S = 60
PARTS = 4
REACHED = {
    "/cluster/brokers/<address:str>", "/cluster/name-servers/<address:str>", "/cluster/writes/<broker:str>", "/topics/<topic:str>",
    "/topics/<topic:str>/consumers", "/topics/<topic:str>/tail", "/groups/<group:str>", "/groups/<group:str>/members/<client:str>",
    "/groups/<group:str>/reset", "/messages/<id:str>", "/dead-letters/<group:str>", "/dead-letters/<group:str>/progress",
    "/exports/<target:str>", "/alerts/rules/<rule:str>", "/alerts/channels/<channel:str>", "/users/<user:str>",
    "/sessions/<session:str>", "/tokens/<token:str>",
}  # fmt: skip
"""Pages about one thing, which are reached by links: all that the test's appliance has."""


@dataclass
class World:
    """An appliance with one of everything, and an administrator."""

    appliance: Appliance
    port: int
    admin: Browser
    pages: dict[str, str] = field(default_factory=dict)
    """A path of each declared page: those without parameters, and what links lead to."""

    def crawl(self, routes: list[str], first: list[str]) -> None:
        """Follows links until each page that can be reached has a path."""
        shapes = {route: re.compile(re.sub(r"<\w+:\w+>", "[^/]+", route)) for route in routes}
        waiting = [*first, *(route for route in routes if "<" not in route)]
        deadline_s = time.monotonic() + WAIT_S
        while waiting:
            path = waiting.pop(0)
            shape = next((route for route in routes if shapes[route].fullmatch(path.partition("?")[0])), None)
            if shape is None or shape in self.pages:
                continue
            answer = self.admin.get(path)
            if answer.status in {502, 504}:  # a busy machine
                assert time.monotonic() < deadline_s, (path, answer.cause)
                waiting.append(path)
            elif answer.status == 200:
                self.pages[shape] = path
                waiting += map(html.unescape, re.findall(r'href="(/[^"]*)"', answer.text))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    port = free_port()
    data = tmp_path_factory.mktemp("accessibility") / "data"

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            raise Reject("of no use")

    with Appliance(data, settings=QUICK, console_port=port) as appliance:
        wait_until(lambda: is_up(port), WAIT_S, "console")
        world = World(appliance, port, first_administrator(data / "console", port))
        with Admin(appliance.name_server) as sdk:
            sdk.create_topic("Orders", 2)
        consumer = PushConsumer("billing", appliance.name_server)
        consumer.subscribe("Orders", handler=handle)
        with Producer("shop", appliance.name_server) as producer, consumer:
            for number in range(3):
                producer.send(Message("Orders", str(number), "tag", f"order-{number}"))
            fill(world)
            routes = declared(tmp_path_factory.mktemp("declared"))
            wait_until(lambda: world.admin.read("/dead-letters/billing")["count"] == 1, WAIT_S, "the dead letter")
            ranges = world.admin.read("/dead-letters/billing")["ranges"]
            form = {"range": ranges[0], "to": "group", "rate": "50"}
            assert world.admin.send("/dead-letters/billing/resend-all", form).status == 303
            world.crawl(routes, ["/dead-letters/billing/progress"])
            yield world


def fill(world: World) -> None:
    """What is made in the console itself."""
    for path, form in (
        ("/users", {"user": "olga", "password": PASSWORD, "role": "operator"}),
        ("/tokens", {"name": "program", "role": "viewer", "days": "1"}),
        ("/alerts/webhooks", {"name": "hook", "url": "http://127.0.0.1:9/"}),
        ("/alerts/rules", {"name": "late", "what": "lag-time", "threshold": "60", "channels": "log"}),
        ("/exports", {"target": "orders"}),
    ):
        page = world.admin.send(path, form)
        assert page.status == 303, (path, page.cause)


CUT = """() => {
    const found = [], small = innerWidth < 700;
    const wide = (one) => one.scrollWidth > one.clientWidth + 1;
    if (document.documentElement.scrollWidth > innerWidth) found.push('the page is wider than the window');
    for (const one of document.querySelectorAll('.scroll')) {
        if (wide(one) && (small || !getComputedStyle(one).backgroundImage.includes('gradient'))) found.push(`${one.ariaLabel} is cut`);
    }
    for (const one of document.querySelectorAll('.scroll tbody :is(th, td)')) if (wide(one)) found.push(`cell: ${one.textContent.trim()}`);
    return found;
}"""
"""What is cut, with nothing that shows it: a large screen may scroll tables, whose edges then have a shadow."""


def declared(folder: Path) -> list[str]:
    """The paths of all pages, as routes."""

    async def build() -> list[str]:
        console = make_console(ConsoleSettings(ConsoleConfig(), ClientConfig("127.0.0.1:1"), folder))
        console.close()
        return [route.path for route in console.routes if isinstance(route, Query)]

    return asyncio.run(build())


def log_in(page: Page, port: int) -> None:
    page.goto(f"http://127.0.0.1:{port}/login")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"http://127.0.0.1:{port}/")  # and its scripts


def test_pages_about_one_thing_are_reached(world: World) -> None:
    assert REACHED - set(world.pages) == set()


@pytest.mark.parametrize("part", range(PARTS))
def test_page_has_no_finding(world: World, page: Page, part: int) -> None:
    log_in(page, world.port)
    found = {}
    for route, path in sorted(world.pages.items())[part::PARTS]:
        page.goto(f"http://127.0.0.1:{world.port}{path}")
        found[route] = findings(page)
    assert {route: lines for route, lines in found.items() if lines} == {}


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_is_cut_and_the_header_is_one_row(world: World, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    log_in(page, world.port)
    found = {}
    for route, path in sorted(world.pages.items()):
        page.goto(f"http://127.0.0.1:{world.port}{path}")
        found[route] = page.evaluate(CUT)
        assert page.locator(".top").evaluate("top => top.offsetHeight") < 60
    assert {route: lines for route, lines in found.items() if lines} == {}


def test_menu_of_a_small_screen_opens_closes_and_has_no_finding(world: World, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    log_in(page, world.port)
    pages, button = page.get_by_role("navigation", name="Pages"), page.get_by_role("button", name="Menu")
    expect(pages).to_be_hidden()
    button.focus()
    page.keyboard.press("Enter")
    expect(pages.get_by_role("link", name="Alerts")).to_be_visible()
    assert findings(page) == []
    page.keyboard.press("Escape")
    expect(pages).to_be_hidden()
    button.click()
    pages.get_by_role("link", name="Topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")


def test_list_of_shortcuts_has_no_finding(world: World, page: Page) -> None:
    log_in(page, world.port)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert findings(page) == []


def test_pages_without_a_login_and_errors_have_no_finding(world: World, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{world.port}/login")
    assert findings(page) == []
    page.get_by_role("button", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    assert findings(page) == []
    failed = world.admin.get("/topics/nothing")
    assert failed.status == 404
    # Chromium logs a page with such a status as an error, which fails the test.
    page.route("**/topics/nothing", lambda route: route.fulfill(content_type="text/html", body=failed.text))
    page.goto(f"http://127.0.0.1:{world.port}/topics/nothing")
    expect(page.get_by_role("alert")).to_contain_text("the topic nothing does not exist")
    assert findings(page) == []
