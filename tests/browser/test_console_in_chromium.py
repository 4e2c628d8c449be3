"""The console in a real browser: headless Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headrace.sync import Admin
from support.appliance import Appliance
from support.console import PASSWORD, RunningConsole, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
SMALL = {"mappedFileSizeCommitLog": "16777216"}
PAYLOAD = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    port = free_port()
    data = tmp_path_factory.mktemp("browser") / "data"
    with Appliance(data, settings=SMALL, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        yield appliance


def test_first_login_creates_a_topic_that_the_sdk_sees(appliance: Appliance, page: Page) -> None:
    running = appliance
    page.goto((running.data / "console" / "first-login").read_text().strip())
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password (at least 12 characters)").fill(PASSWORD)
    page.get_by_label("Confirm password").fill(PASSWORD)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dashboard")

    page.wait_for_load_state()  # a key is lost before the script listens
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.wait_for_load_state()  # the script sets the focus
    page.get_by_text("Create a topic").click()
    name = page.get_by_label("Name", exact=True)
    expect(name).to_be_focused()
    rule = "Use 1 to 127 of these characters: a-z, A-Z, 0-9, _ - % |"
    expect(page.get_by_text(rule)).to_be_visible()
    name.fill("from the browser")
    assert name.evaluate("field => field.validationMessage") == rule
    name.fill("FromTheBrowser")
    write, read = page.get_by_label("Write queues"), page.get_by_label("Read queues")
    write.fill("6")
    expect(read).to_have_value("6")
    read.fill("5")
    write.fill("4")
    expect(read).to_have_value("5")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("The topic FromTheBrowser was created.")
    with Admin(running.name_server) as sdk:
        assert "FromTheBrowser" in sdk.topics()

    page.goto(page.url.rpartition("/")[0])
    page.keyboard.press("f")
    page.keyboard.type("nothing like this")
    expect(page.get_by_text("No entry matches the filter.")).to_be_visible()
    page.get_by_label("Filter").fill("Browser")
    expect(page.get_by_role("link", name="FromTheBrowser")).to_be_visible()
    expect(page.locator("#table-topics tbody")).to_contain_text("Read and write")
    assert page.url.endswith("filter=Browser&kind=normal")
    page.get_by_role("link", name="Topic", exact=True).and_(page.locator("th a")).click()  # the form keeps the order
    arrow = page.locator("th[aria-sort] a").evaluate("one => getComputedStyle(one, '::after').content")
    assert arrow.startswith('"\N{NO-BREAK SPACE}↓"')  # it stays on the line of the heading
    page.get_by_label("Filter").fill("unmatched")
    expect(page.get_by_text("No entry matches the filter.")).to_be_visible()
    assert page.url.endswith("sort=-topic&filter=unmatched&kind=normal")
    page.get_by_label("Filter").fill(PAYLOAD)
    expect(page.get_by_text("No entry matches the filter.")).to_be_visible()
    page.get_by_role("main").focus()
    page.keyboard.press("/")
    page.keyboard.type("fromthe")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="FromTheBrowser").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic FromTheBrowser")
    page.wait_for_load_state()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Search topics, groups, clients, messages")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.goto(page.url.partition("/topics")[0] + "/messages")
    page.get_by_label("Topic", exact=True).first.fill("FromTheBrowser")
    page.keyboard.press("Enter")
    found = page.get_by_role("heading", name="Messages found")
    expect(found).to_be_focused()
    assert found.evaluate("one => getComputedStyle(one).outlineStyle") == "none"  # a heading is no control
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console") as console:
        console.administrator()
        yield console


def test_page_rates_a_new_password_and_shows_what_is_typed(console: RunningConsole, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{console.port}/login?next=/account")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    shown = page.get_by_label("Show what is typed")
    shown.check()
    expect(page.get_by_label("Password")).to_have_attribute("type", "text")
    shown.uncheck()
    expect(page.get_by_label("Password")).to_have_attribute("type", "password")
    page.get_by_role("main").get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Your account admin")
    page.wait_for_load_state()  # the script rates what is entered
    password, rating = page.get_by_label("New password (at least 12 characters)"), page.locator(".strength")
    expect(rating).to_be_hidden()
    for text, word in (
        ("Xy7", "too short"),
        ("aaaaaaaaaaaaaaaa", "weak"),
        ("abcdefghijklmnop", "weak"),
        ("qkzvbmwyhtdx", "acceptable"),
        ("correct horse battery", "strong"),
        ("\u9a6c\u7535\u6c60\u8ba2\u4e66\u9489\u6b63\u786e\u7684\u5929\u6c14\u597d", "strong"),
    ):
        password.fill(text)
        expect(rating).to_contain_text(word)
