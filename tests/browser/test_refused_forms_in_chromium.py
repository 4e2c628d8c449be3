"""A refused form in Chromium: what was entered is there, the reason is in sight, and the corrected form is accepted."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from headrace.sync import Admin
from support.accessibility import findings
from support.appliance import Appliance
from support.chromium import log_in
from support.console import first_administrator, is_up
from support.error_pages import answered
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    port = free_port()
    data = tmp_path_factory.mktemp("refused-browser") / "data"
    with Appliance(data, settings={"mappedFileSizeCommitLog": "16777216"}, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(data / "console", port)
        yield appliance


def test_message_is_corrected_and_sent(appliance: Appliance, page: Page) -> None:
    console = f"http://127.0.0.1:{appliance.console_port}"
    with Admin(appliance.name_server) as sdk:
        sdk.create_topic("Letters", 1)
    log_in(page, appliance.console_port)
    page.route("**/topics/Letters/messages", answered)
    page.route("**/messages?*", answered)
    page.set_viewport_size({"width": 390, "height": 500})

    page.goto(f"{console}/topics/Letters?range=1d")
    page.get_by_text("Send a message").click()
    expect(page.get_by_label("Body")).to_be_focused()
    shown = [page.get_by_text(text, exact=True).first.bounding_box() for text in ("Delete", "Send a message")]
    assert all(box is not None for box in shown)
    assert shown[0]["y"] < shown[1]["y"], "the form opens below the row of buttons"  # type: ignore[index]
    page.locator("select[name=delay_level]").select_option(label="5 s (level 2)")
    page.get_by_label("Body").fill('\nDear <b>reader</b>,\n"yours" & mine')
    page.get_by_label("Tag").fill("letter")
    page.get_by_label("Properties, one name=value per line").fill("colour")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_be_in_viewport()
    expect(page.get_by_label("Body")).to_have_value('\nDear <b>reader</b>,\n"yours" & mine')
    expect(page.get_by_label("Tag")).to_have_value("letter")
    expect(page.locator("select[name=delay_level]")).to_have_value("2")
    assert findings(page) == []
    page.get_by_label("Properties, one name=value per line").fill("colour=red")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("was stored in queue")
    page.get_by_role("status").first.get_by_role("link", name="Show details").click()
    expect(page.get_by_text("Dear <b>reader</b>")).to_be_visible()

    page.goto(f"{console}/messages")
    page.locator("form").filter(has=page.locator("input[value=time]")).get_by_label("Topic").fill("NoSuchTopic")
    page.get_by_label("From (").first.fill("2026-11-23 09:00:00")
    page.get_by_role("button", name="Search").first.click()
    expect(page.get_by_role("alert")).to_contain_text("NoSuchTopic")
    expect(page.get_by_label("From (").first).to_have_value("2026-11-23 09:00:00")
