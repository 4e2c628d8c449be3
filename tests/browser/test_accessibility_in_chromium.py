"""Every page of the console: by the rules of axe-core (screen readers, keyboard, contrast; light and dark); nothing is cut, and nothing moves."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from support.accessibility import findings, wide_tables
from support.chromium import log_in
from support.console_world import World, console_world

pytestmark = pytest.mark.slow
PARTS = 4
REACHED = {
    "/cluster/brokers/<address:str>", "/cluster/name-servers/<address:str>", "/cluster/writes/<broker:str>", "/topics/<topic:str>",
    "/topics/<topic:str>/consumers", "/topics/<topic:str>/tail", "/groups/<group:str>", "/groups/<group:str>/members/<client:str>",
    "/groups/<group:str>/reset", "/groups/<group:str>/clone", "/messages/<id:str>", "/dead-letters/<group:str>", "/dead-letters/<group:str>/progress",
    "/exports/<target:str>", "/alerts/rules/<rule:str>", "/alerts/channels/<channel:str>", "/users/<user:str>",
    "/sessions/<session:str>", "/tokens/<token:str>",
}  # fmt: skip
"""Pages about one thing, which are reached by links: all that the test's appliance has."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with console_world(tmp_path_factory.mktemp("accessibility")) as world:
        yield world


CUT = """() => {
    const found = [], small = innerWidth < 700;
    const wide = (one) => one.scrollWidth > one.clientWidth + 1;
    if (document.documentElement.scrollWidth > innerWidth) found.push('the page is wider than the window');
    for (const one of document.querySelectorAll('.scroll')) {
        if (wide(one) && (small || !getComputedStyle(one).backgroundImage.includes('gradient'))) found.push(`${one.ariaLabel} is cut`);
    }
    for (const one of document.querySelectorAll('.scroll tbody :is(th, td)')) if (wide(one)) found.push(`cell: ${one.textContent.trim()}`);
    const visible = (one) => one.checkVisibility();
    for (const one of document.querySelectorAll('.scroll')) if (visible(one) && !one.innerText.trim()) found.push(`${one.ariaLabel} is an empty box`);
    for (const one of document.querySelectorAll('.scroll td[data-label]')) {
        if (small && visible(one) && !one.innerText.trim() && !one.querySelector('input')) found.push(`${one.dataset.label} has no value`);
    }
    for (const one of document.querySelectorAll('.note')) if (getComputedStyle(one).fontWeight !== '400') found.push(`bold: ${one.textContent}`);
    return found;
}"""
"""What is empty, and what is cut, with nothing that shows it: a large screen may scroll tables, whose edges then have a shadow."""


OBSERVE = """
    window.moved = [];
    window.note = (entries) => {
        for (const { sources } of entries) for (const { node, previousRect, currentRect } of sources) {
            const name = node?.id || node?.className || node?.nodeName;
            if (Math.abs(previousRect.y - currentRect.y) > 1) moved.push(`${name}: ${previousRect.y} to ${currentRect.y}`);
        }
    };
    window.observer = new PerformanceObserver((list) => note(list.getEntries()));
    observer.observe({ type: 'layout-shift', buffered: true });
"""
CHARTS_ARE_DRAWN = """() => [...document.querySelectorAll('[data-chart]')].every(
    (chart) => chart.querySelector('canvas') || chart.querySelector('.state').textContent)"""
MOVED = """() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
    note(observer.takeRecords());
    resolve(moved);
})))"""


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
def test_nothing_is_cut_or_empty_and_the_header_is_one_row(world: World, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    log_in(page, world.port)
    found = {}
    for route, path in sorted(world.pages.items()):
        page.goto(f"http://127.0.0.1:{world.port}{path}")
        found[route] = page.evaluate(CUT)
        assert page.locator(".top").evaluate("top => top.offsetHeight") < 60
    assert {route: lines for route, lines in found.items() if lines} == {}


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_up_or_down_after_it_was_painted(world: World, page: Page, width: int) -> None:
    """A user who points at a link would miss it; if it moves while the button is pressed, the click is lost."""
    page.set_viewport_size({"width": width, "height": 4000})  # Chromium reports what moves in the window
    log_in(page, world.port)
    page.add_init_script(OBSERVE)
    found = {}
    for route, path in sorted(world.pages.items()):
        page.goto(f"http://127.0.0.1:{world.port}{path}")
        page.wait_for_function(CHARTS_ARE_DRAWN)
        found[route] = page.evaluate(MOVED)
    assert {route: moved for route, moved in found.items() if moved} == {}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_tables_fit_into_a_window_of_1280_pixels(world: World, page: Page, language: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    log_in(page, world.port)
    page.context.add_cookies([{"name": "language", "value": language, "url": f"http://127.0.0.1:{world.port}/"}])
    found = {}
    for route, path in sorted(world.pages.items()):
        page.goto(f"http://127.0.0.1:{world.port}{path}")
        found[route] = wide_tables(page)
    assert {route: tables for route, tables in found.items() if tables} == {}


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
    pages.get_by_role("link", name="Topics").click()
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
    page.wait_for_load_state()
    assert findings(page) == []
    failed = world.admin.get("/topics/nothing")
    assert failed.status == 404
    # Chromium logs a page with such a status as an error, which fails the test.
    page.route("**/topics/nothing", lambda route: route.fulfill(content_type="text/html", body=failed.text))
    page.goto(f"http://127.0.0.1:{world.port}/topics/nothing")
    expect(page.get_by_role("alert")).to_contain_text("The topic nothing does not exist", use_inner_text=True)
    assert findings(page) == []
