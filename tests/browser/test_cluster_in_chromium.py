"""An operator's tasks about brokers in Chromium, on an appliance: change an option, stop writes to a broker and allow them again."""

from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from headrace.sync import Admin
from support.appliance import Appliance
from support.chromium import log_in
from support.console import first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    port = free_port()
    data = tmp_path_factory.mktemp("cluster-browser") / "data"
    with Appliance(data, settings={"mappedFileSizeCommitLog": "16777216"}, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(data / "console", port)
        yield appliance


def open_cluster(page: Page, appliance: Appliance) -> None:
    """Logs in and opens the page with the keyboard."""
    log_in(page, appliance.console_port)
    expect(page.get_by_role("heading", level=1)).to_have_text("Dashboard")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")


def test_option_is_found_changed_and_seen_by_the_sdk(appliance: Appliance, page: Page) -> None:
    open_cluster(page, appliance)
    page.get_by_role("link", name=appliance.broker).first.click()
    page.locator("#filter-options").fill("fileReservedTime")
    page.get_by_role("link", name="fileReservedTime").click()
    page.get_by_role("textbox", name="Value").fill("49")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is now 49")
    with Admin(appliance.name_server) as sdk:
        assert sdk.broker_config(appliance.broker)["fileReservedTime"] == "49"
    page.locator("#filter-options").fill("fileReservedTime")
    expect(page.get_by_text("changed while running, until the next restart")).to_be_visible()


def test_writes_are_stopped_and_allowed_again_on_a_small_screen(appliance: Appliance, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    open_cluster(page, appliance)
    label = "one => getComputedStyle(one, '::before').content"
    assert page.locator("#table-brokers tbody th").first.evaluate(label) == '"Broker: "'
    page.get_by_role("link", name="allowed").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_text("Stop writes in the routes", exact=True).click()
    expect(
        page.get_by_text("It is the only broker: nothing can be sent to the cluster until then.").first
    ).to_be_visible()
    page.get_by_role("button", name="Stop writes", exact=True).first.click()
    expect(page.get_by_role("status")).to_contain_text("1 of 1 name servers stopped writes to")
    page.get_by_role("button", name="Allow writes in the routes").click()
    expect(page.get_by_role("status")).to_contain_text("1 of 1 name servers allow writes to")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Broker 写入")


def test_tables_fit_a_screen_of_1440_pixels(appliance: Appliance, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    open_cluster(page, appliance)
    page.get_by_role("link", name="allowed").click()
    page.get_by_text("Stop writes on the broker", exact=True).click()
    page.get_by_role("button", name="Stop writes", exact=True).last.click()
    expect(page.get_by_role("status").first).to_contain_text("are stopped on the broker")
    page.get_by_role("button", name="Allow writes on the broker").click()
    expect(page.get_by_role("status").first).to_contain_text("are allowed on the broker")
    page.goto(urljoin(page.url, "/alerts/rules/new%20dead%20letters"))
    page.get_by_text("Change the rule").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("was changed")
    hidden = "all => all.map((one) => one.scrollWidth - one.clientWidth)"
    for path in ("/cluster", "/audit"):
        page.goto(urljoin(page.url, path))
        assert set(page.locator(".scroll").evaluate_all(hidden)) == {0}, path


def test_times_among_the_statistics_of_a_broker_are_shown_as_times(appliance: Appliance, page: Page) -> None:
    open_cluster(page, appliance)
    page.get_by_role("link", name=appliance.broker).first.click()
    page.locator("#filter-figures").fill("bootTimestamp")
    expect(page.locator("#table-figures tbody time")).to_have_count(1)
