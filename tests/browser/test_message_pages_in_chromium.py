"""Pages about messages in Chromium, on a real appliance: what operators do with the mouse and the keyboard."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from headrace import Admin, Message, Reject
from headrace.client.consuming.received_message import ReceivedMessage
from support.accessibility import wide_tables
from support.appliance import Appliance
from support.chromium import log_in
from support.console import RunningConsole
from support.consuming import create_topic, eventually, push
from support.error_pages import answered
from support.sdk import dump, patient, producing, run
from support.servers import wait_until

pytestmark = pytest.mark.slow
SMALL = {"mappedFileSizeCommitLog": "16777216"}
PAYLOAD = "<img src=x onerror=alert(1)>"
BODY = f"{PAYLOAD} in a text that is longer than a line of the table"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with Appliance(tmp_path_factory.mktemp("messages") / "data", settings=SMALL) as appliance:
        run(give_up_three(appliance))
        yield appliance


@pytest.fixture(scope="module")
def console(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    with RunningConsole(folder, appliance.name_server, api_timeout=30) as console:
        console.administrator()
        yield console


async def give_up_three(appliance: Appliance) -> None:
    """Makes three dead letters of the group `billing`."""
    seen: list[bytes] = []

    def handler(message: ReceivedMessage) -> None:
        seen.append(message.body)
        raise Reject("of no use")

    await create_topic(appliance, "Orders", 1)
    async with push(appliance, "billing", "Orders", handler, trace=True):
        async with producing(appliance, "shop", trace=True) as producer:
            for number in range(3):
                properties = {"colour": PAYLOAD}
                await producer.send(Message("Orders", BODY, PAYLOAD, f"order-{number}", properties=properties))
        await eventually(lambda: len(seen) == 3, "all are rejected")
    async with Admin(patient(appliance)) as admin:
        await dump(admin, "%DLQ%billing", 3)  # brokers create and register the topic a little later


def test_dead_letters_are_marked_as_handled_with_a_note_and_no_longer_listed_or_counted(
    page: Page, console: RunningConsole
) -> None:
    log_in(page, console.port, "/dead-letters/billing")
    page.route("**/handle", answered)
    rows = page.locator("#table-letters tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Note (optional)").first.fill(PAYLOAD)
    page.get_by_role("button", name="Mark selected as handled").click()
    expect(page.get_by_role("alert")).to_contain_text("no dead letter is selected", ignore_case=True)
    expect(page.get_by_label("Note (optional)").first).to_have_value(PAYLOAD)
    to_form = page.get_by_role("link", name="Mark or resend selected dead letters")
    expect(to_form).to_be_hidden()
    for choice in page.get_by_label("Choose", exact=True).all()[:2]:
        choice.check()
    size = page.viewport_size
    page.set_viewport_size({"width": 1280, "height": 300})
    page.evaluate("scrollTo(0, 0)")
    expect(to_form).to_be_in_viewport()
    to_form.click()
    expect(page.get_by_role("button", name="Mark selected as handled")).to_be_in_viewport()
    assert size is not None
    page.set_viewport_size(size)
    page.get_by_label("Note (optional)").first.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Dead letters marked as handled: 2.")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("3 dead letters are stored in this period. Handled: 2.")).to_be_visible()

    page.get_by_label("State").select_option("handled")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("admin")
    expect(rows.first).to_contain_text(PAYLOAD)
    page.goto(f"http://127.0.0.1:{console.port}/")
    needy = page.locator("#table-attention").get_by_role("row").filter(has_text="billing")
    expect(needy.get_by_role("link", name="1", exact=True)).to_be_visible()

    page.goto(f"http://127.0.0.1:{console.port}/dead-letters/billing")
    page.get_by_text("Mark all in this period").click()
    page.get_by_role("button", name="Mark 2 as unhandled").click()
    expect(page.get_by_role("status")).to_have_text("Dead letters marked as unhandled: 2.")
    expect(rows).to_have_count(3)


@pytest.mark.parametrize(
    ("path", "shown", "enter"),
    [
        ("/dead-letters/billing", "order-1", lambda page: page.get_by_label("State").select_option("handled")),
        ("/topics", "Orders", lambda page: page.get_by_label("Filter").fill("no such topic")),
    ],
)
def test_filter_entered_before_the_scripts_are_there_is_taken_up(
    path: str, shown: str, enter: Callable[[Page], object], page: Page, console: RunningConsole
) -> None:
    log_in(page, console.port, path)
    rows = page.locator("main tbody")
    expect(rows).to_contain_text(shown)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/vendor/htmx*", hold)
    page.goto(f"http://127.0.0.1:{console.port}{path}", wait_until="commit")
    enter(page)
    wait_until(lambda: held or page.wait_for_timeout(10), 20, "the page asks for the script")
    held[0].continue_()
    expect(rows).not_to_contain_text(shown)


def test_dead_letters_are_chosen_with_the_keyboard_and_all_sent_again(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port)
    needy = page.locator("#table-attention").get_by_role("row").filter(has_text="billing")
    expect(needy.get_by_role("link", name="3", exact=True)).to_be_visible()  # its stored dead letters
    page.get_by_role("navigation").get_by_role("link", name="Dead letters", exact=True).click()
    page.get_by_role("link", name="billing").click()
    expect(page.get_by_text("3 dead letters are stored in this period.")).to_be_visible()
    expect(page.get_by_text(PAYLOAD).first).to_be_visible()
    table, form = page.locator("#table-letters").bounding_box(), page.locator("#chosen").bounding_box()
    assert table is not None
    assert form is not None
    assert form["y"] > table["y"] + table["height"], "the forms are below the table"

    page.get_by_label("Choose", exact=True).first.focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Resend selected").click()
    expect(page.get_by_role("status")).to_contain_text("Dead letters resent: 1.")
    page.wait_for_load_state()  # the script chooses all
    expect(page.get_by_text("Choose all")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_text("Choose all")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_label("Choose all").check()
    expect(page.get_by_label("Choose", exact=True).last).to_be_checked()
    page.get_by_text("Resend all in this period").click()
    expect(page.get_by_text("2 of 3 dead letters will be resent in the background. Already resent: 1.")).to_be_visible()
    page.get_by_role("button", name="Resend 2 messages").click()
    expect(page.get_by_role("status")).to_have_text("The dead letters are being resent.")
    expect(page.get_by_text("finished")).to_be_visible()
    expect(page.get_by_text("3 / 3")).to_be_visible()
    page.get_by_role("link", name="All dead letters of the group").click()
    expect(page.get_by_text("There are no such dead letters")).to_be_visible()
    page.get_by_label("State").select_option("all")
    expect(page.get_by_role("columnheader", name="Resent")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("Resent: 2. Skipped because they had been resent before: 1.")
    expect(page.locator("#table-letters .note").get_by_text("admin", exact=True)).to_have_count(3)
    address = page.url
    for language in ("zh", "en"):
        page.context.add_cookies([{"name": "language", "value": language, "url": address}])
        page.goto(address)
        assert wide_tables(page) == []

    page.get_by_role("link").filter(has_text="0").and_(page.locator("th a")).first.click()
    expect(page.get_by_role("heading", name="Push to one client")).to_be_visible()
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_role("status").first).to_contain_text(
        "Dead letters resent: 0. Skipped because they had been resent before: 1."
    )


def test_key_is_found_in_the_dead_letters_of_the_topic_s_groups_too(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port, "/messages?by=key&topic=Orders&key=order-1")
    rows = page.locator("#table-messages tbody tr")
    expect(rows.first).to_contain_text("Orders")
    expect(rows.nth(1).get_by_role("link", name="dead letter of billing")).to_be_visible()
    page.get_by_label("Search topics, groups, clients, messages").fill("order-2")
    page.keyboard.press("Enter")
    expect(page.locator("#table-results").get_by_text("dead letter of billing").first).to_be_visible()


def test_way_of_a_message_is_found_by_its_key_as_a_time_line(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port)
    page.get_by_role("link", name="Message trace", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message trace")
    page.get_by_label("or key").fill("order-1")
    page.keyboard.press("Enter")
    expect(page.locator("#table-messages")).to_be_visible()

    def is_found() -> bool:
        page.reload()
        text = " ".join(page.locator("#table-messages tbody tr").all_inner_texts())
        return "Orders" in text and "billing" in text  # as the producer and as the consumer report

    wait_until(is_found, 60, "traces are indexed")
    page.locator("#table-messages tbody a").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.locator(".timeline li").first).to_contain_text("sent shop: success")
    expect(page.get_by_text(PAYLOAD).first).to_be_visible()
    page.get_by_role("link", name="Show the message").click()
    expect(page.get_by_role("heading", name="Push to one client")).to_be_visible()


def test_reset_offers_the_only_topic_and_warns_of_a_time_in_the_future(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port, "/groups/billing/reset")
    expect(page.get_by_label("Topic", exact=True)).to_have_value("Orders")
    page.get_by_label("Time (").fill("2100-01-01 09:00:00")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("This time is in the future: 2100-01-01 09:00:00")
    expect(page.get_by_text("The group continues at messages")).to_have_count(0)
    expect(page.get_by_text("The offsets are not reset to a time in the future.")).to_be_visible()
    expect(page.get_by_role("button", name="Reset the offsets")).to_have_count(0)


def test_reset_sends_the_fields_of_the_chosen_place_only(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port, "/groups/billing/reset")
    page.get_by_label("Topic", exact=True).fill("Orders")
    page.get_by_label("Time (").fill("2026-11-23 09:00:00")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("The group continues at messages stored from this time on:")).to_be_visible()
    page.get_by_label("Continue at").select_option("the first stored message")
    page.get_by_role("button", name="Preview").click()
    page.wait_for_url("**to=start**")
    expect(page.get_by_role("button", name="Reset the offsets")).to_be_visible()
    assert "time=" not in page.url
