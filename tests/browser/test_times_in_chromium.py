"""Times are shown and entered in the zone of the browser, or in the one that the user chose."""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect

from support.chromium import log_in
from support.console import PASSWORD, RunningConsole
from support.error_pages import answered

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console whose cluster does not answer: the forms are there."""
    with RunningConsole(tmp_path_factory.mktemp("times")) as console:
        console.administrator()
        yield console


def log_in_from_shanghai(page: Page, console: RunningConsole, path: str) -> None:
    zone = page.context.new_cdp_session(page)
    zone.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Shanghai"})
    page.route("**/messages?*", answered)
    log_in(page, console.port, path)
    if path.startswith("/messages"):
        page.get_by_label("Topic", exact=True).first.fill("Orders")


@pytest.mark.parametrize(
    "entered", ["2026-11-23 17:00:00", "2026/11/23 17:00:00", "2026-11-23T17:00", "2026-11-23 04:30:00-0430"]
)
def test_time_is_entered_and_shown_in_the_zone_of_the_browser(
    console: RunningConsole, page: Page, entered: str
) -> None:
    log_in_from_shanghai(page, console, "/messages")
    zones = page.get_by_text("Times: Asia/Shanghai")
    expect(zones).to_have_count(2)
    header, menu = zones.all()
    expect(header).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(header).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(menu).to_be_visible()
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 800})
    begin = page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first
    begin.fill(entered)
    end = page.get_by_label("To (Asia/Shanghai; empty: now)").first
    end.fill("2026-11-22")
    page.get_by_role("button", name="Search").first.click()
    expect(page.get_by_text("the end time is before the start time")).to_be_visible()
    expect(begin).to_have_value("2026-11-23 17:00:00")
    expect(end).to_have_value("2026-11-22 23:59:59.999")
    assert parse_qs(urlsplit(page.url).query)["begin"] == ["2026-11-23T09:00:00.000Z"]


def test_times_are_shown_as_forms_accept_them_in_chinese_too(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/account")
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("button", name="English")).to_be_visible()
    page.goto(f"http://127.0.0.1:{console.port}/users")
    time = page.locator("time").first
    expect(time).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))


def test_milliseconds_since_1970_are_shown_as_a_time_and_may_be_entered(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/messages?begin=1795424400057")
    begin = page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first
    expect(begin).to_have_value("2026-11-23 17:00:00.057")
    page.get_by_label("To (Asia/Shanghai; empty: now)").first.fill("1795510800000")
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**end=1795510800000**")
    assert parse_qs(urlsplit(page.url).query)["begin"] == ["2026-11-23T09:00:00.057Z"]


@pytest.mark.parametrize("entered", ["0:05:07", "00:05:07", "0:05"])
def test_time_without_a_date_is_of_today(console: RunningConsole, page: Page, entered: str) -> None:
    log_in_from_shanghai(page, console, "/messages")
    page.get_by_label("Topic", exact=True).first.fill("TopicTest")
    page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first.fill(entered)
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**begin=**")
    sent = parse_qs(urlsplit(page.url).query)["begin"][0]
    assert sent.endswith(f"T16:05:{'07' if entered.count(':') == 2 else '00'}.000Z")


def test_fraction_of_a_second_is_kept(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/messages?begin=2026-11-23T09:00:00.057Z")
    begin = page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first
    expect(begin).to_have_value("2026-11-23 17:00:00.057")
    page.get_by_label("To (Asia/Shanghai; empty: now)").first.fill("2026-11-24 17:00:00")
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**end=2026-11-24T09**")
    assert parse_qs(urlsplit(page.url).query)["begin"] == ["2026-11-23T09:00:00.057Z"]


@pytest.mark.parametrize(
    "entered",
    [
        "2026-02-31",
        "2026-13-01",
        "2026-11-23 25:00",
        "9:75",
        "9:30:75",
        "20261123T090000",
        "2026-11-23 09",
        "yesterday",
    ],
)
def test_time_that_does_not_exist_or_is_not_understood_is_not_sent(
    console: RunningConsole, page: Page, entered: str
) -> None:
    log_in_from_shanghai(page, console, "/messages")
    begin = page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first
    begin.fill(entered)
    page.get_by_role("button", name="Search").first.click()
    assert begin.evaluate("field => field.validationMessage") == (
        "Enter a time such as 2026-11-23 09:00:00, a date such as 2026-11-23, or a time of today such as 09:00."
    )
    begin.fill("2026-11-23 17:00:00")
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**begin=2026-11-23T09**")


def test_time_that_the_server_refuses_is_shown_as_it_was_entered(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/messages?begin=2026-02-31")
    expect(page.get_by_label("From (Asia/Shanghai; empty: one hour ago)").first).to_have_value("2026-02-31")


def test_date_alone_is_the_beginning_of_a_period_or_its_end(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/messages")
    begin, end = (
        page.get_by_label(f"{label} (Asia/Shanghai; empty: {default})").first
        for label, default in (("From", "one hour ago"), ("To", "now"))
    )
    assert begin.get_attribute("placeholder") == "e.g. 2026-11-23 09:00:00 or 09:00"
    assert end.get_attribute("placeholder") == "e.g. 2026-11-23 18:00:00 or 18:00"
    begin.fill("2026-11-23")
    end.fill("2026-11-23")
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**end=2026**")
    sent = parse_qs(urlsplit(page.url).query)
    assert (sent["begin"], sent["end"]) == (["2026-11-22T16:00:00.000Z"], ["2026-11-23T15:59:59.999Z"])


def test_search_without_a_topic_or_a_key_is_not_sent(console: RunningConsole, page: Page) -> None:
    log_in_from_shanghai(page, console, "/messages")
    page.get_by_label("Topic", exact=True).first.fill("")
    for number, label in enumerate(("Topic", "Key", "Message id")):
        page.get_by_role("button", name="Search").nth(number).click()
        field = page.get_by_label(label, exact=True).first
        assert field.evaluate("field => field.validity.valueMissing")
    assert "by=" not in page.url


@pytest.fixture
def chosen_zone(console: RunningConsole) -> Iterator[Callable[[str], None]]:
    """Chooses a zone for the user; afterwards it is the browser's again."""
    browser = console.browser()
    browser.log_in("admin", PASSWORD)

    def choose(zone: str) -> None:
        assert browser.send("/account/zone", {"zone": zone}, "/account").status == 303

    yield choose
    choose("")


def test_user_chooses_the_zone_of_all_pages(
    console: RunningConsole, page: Page, chosen_zone: Callable[[str], None]
) -> None:
    log_in_from_shanghai(page, console, "/users")
    page.get_by_role("link", name="Times: Asia/Shanghai").first.click()
    zones = page.get_by_label("Time zone")
    expect(zones).to_have_value("")
    zones.select_option("America/New_York")
    zones.locator("xpath=ancestor::form").get_by_role("button", name="Change").click()
    expect(page.get_by_role("status")).to_have_text("The time zone was changed.")
    expect(page.get_by_label("Time zone")).to_have_value("America/New_York")
    expect(page.get_by_role("link", name="Times: America/New_York").first).to_be_visible()
    login = page.locator("#table-events time").first
    instant = dt.datetime.fromisoformat(login.get_attribute("datetime") or "")
    expect(login).to_have_text(f"{instant.astimezone(ZoneInfo('America/New_York')):%Y-%m-%d %H:%M:%S}")

    page.goto(f"http://127.0.0.1:{console.port}/messages")
    page.get_by_label("Topic", exact=True).first.fill("Orders")
    begin = page.get_by_label("From (America/New_York; empty: one hour ago)").first
    begin.fill("2026-11-23 17:00:00")
    page.get_by_label("To (America/New_York; empty: now)").first.fill("2026-11-23")
    page.get_by_role("button", name="Search").first.click()
    page.wait_for_url("**end=2026**")
    sent = parse_qs(urlsplit(page.url).query)
    assert (sent["begin"], sent["end"]) == (["2026-11-23T22:00:00.000Z"], ["2026-11-24T04:59:59.999Z"])


@pytest.mark.parametrize(
    ("entered", "sent"),
    [
        ("2026-03-08 01:59:59", "2026-03-08T06:59:59.000Z"),
        ("2026-03-08 02:30", None),
        ("2026-03-08 03:00", "2026-03-08T07:00:00.000Z"),
        ("2026-11-01 00:30", "2026-11-01T04:30:00.000Z"),
        ("2026-11-01 02:00", "2026-11-01T07:00:00.000Z"),
        ("2026-07-01 12:00:00.250", "2026-07-01T16:00:00.250Z"),
        ("2026-07-01 12:00:00+02:00", "2026-07-01T10:00:00.000Z"),
        ("2026-02-31", None),
    ],
)
def test_time_is_entered_in_the_chosen_zone_also_when_its_clocks_change(
    console: RunningConsole, page: Page, chosen_zone: Callable[[str], None], entered: str, sent: str | None
) -> None:
    chosen_zone("America/New_York")
    log_in_from_shanghai(page, console, "/messages")
    begin = page.get_by_label("From (America/New_York; empty: one hour ago)").first
    begin.fill(entered)
    page.get_by_role("button", name="Search").first.click()
    if sent is None:
        assert begin.evaluate("field => field.validity.customError")
        return
    page.wait_for_url("**begin=2026**")
    assert parse_qs(urlsplit(page.url).query)["begin"] == [sent]


def test_page_and_field_in_utc(console: RunningConsole, page: Page, chosen_zone: Callable[[str], None]) -> None:
    chosen_zone("UTC")
    log_in_from_shanghai(page, console, "/messages?begin=1795424400057")
    expect(page.get_by_text("Times: UTC").first).to_be_visible()
    expect(page.get_by_label("From (UTC; empty: one hour ago)").first).to_have_value("2026-11-23 09:00:00.057")


def test_zone_that_the_browser_does_not_know_is_replaced_with_its_own(
    console: RunningConsole, page: Page, chosen_zone: Callable[[str], None]
) -> None:
    chosen_zone("UTC")

    def altered(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('data-time-zone="UTC"', 'data-time-zone="Mars/Base"'))

    log_in_from_shanghai(page, console, "/account")
    expect(page.get_by_text("Times: UTC").first).to_be_visible()
    page.route("**/account", altered)
    page.reload()
    expect(page.get_by_text("Times: Asia/Shanghai").first).to_be_visible()
