"""Pages of delayed messages and transactions in Chromium, on a real appliance."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from headrace import Admin, Message, MessageQueue, TransactionProducer
from headrace.model.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC
from support.appliance import Appliance
from support.chromium import log_in
from support.console import RunningConsole
from support.consuming import create_topic
from support.sdk import PATIENCE_S, dump, eventually, patient, producing, run

pytestmark = pytest.mark.slow
SETTINGS = {
    "mappedFileSizeCommitLog": "16777216",
    "transactionTimeOut": "600000",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "1",
}
PAYLOAD = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    with Appliance(tmp_path_factory.mktemp("waiting") / "data", settings=SETTINGS) as appliance:
        run(send_all(appliance))
        yield appliance


@pytest.fixture(scope="module")
def console(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    with RunningConsole(folder, appliance.name_server, api_timeout=30) as console:
        console.administrator()
        yield console


async def send_all(appliance: Appliance) -> None:
    """Two messages with a delay level, a timer, a transaction that is discarded, and one that waits."""
    await create_topic(appliance, "Orders", 1)
    async with producing(appliance, "shop") as producer:
        for number in range(2):
            await producer.send(Message("Orders", PAYLOAD, PAYLOAD, f"order-{number}", delay_level=18))
        await producer.send(Message("Orders", "tomorrow", properties={"TIMER_DELAY_SEC": "86400"}))
    async with (
        TransactionProducer(
            "bank", patient(appliance), check=lambda _: None, execute=lambda *_: None, send_timeout=PATIENCE_S
        ) as producer,
        Admin(patient(appliance)) as admin,
    ):
        checked_at_once = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
        await producer.send_in_transaction(Message("Orders", PAYLOAD, keys="gone", properties=checked_at_once))
        await dump(admin, TRANSACTION_CHECK_MAX_TIME_TOPIC, 1)
        undecided = await producer.send_in_transaction(Message("Orders", PAYLOAD, keys="undecided"))
        half_queue = MessageQueue(TRANSACTION_HALF_TOPIC, undecided.queue.broker_name, 0)

        async def is_first() -> bool:
            return await admin.consumer_offset(TRANSACTION_GROUP, half_queue) == undecided.queue_offset

        await eventually(is_first, "the check has passed all messages before")


def test_waiting_messages_of_a_level_and_timers_are_found_by_clicks(page: Page, console: RunningConsole) -> None:
    log_in(page, console.port)
    page.get_by_role("link", name="Delayed messages", exact=True).click()
    expect(page.get_by_text("2 messages with a delay level wait for delivery.")).to_be_visible()
    page.locator("#table-levels").get_by_role("link", name="18", exact=True).click()
    expect(page.locator("#table-messages tbody tr")).to_have_count(2)
    expect(page.get_by_text(PAYLOAD).first).to_be_visible()
    page.get_by_role("link", name="All delay levels").click()
    page.get_by_role("link", name="Show waiting timer messages").click()
    expect(page.locator("#table-messages tbody tr")).to_have_count(1)
    expect(page.get_by_text("tomorrow")).to_be_visible()


def test_discarded_transaction_is_chosen_with_the_keyboard_and_checked_again(
    page: Page, console: RunningConsole
) -> None:
    log_in(page, console.port)
    page.get_by_role("link", name="Transactions", exact=True).click()
    expect(page.locator("#table-halves tbody tr")).to_have_count(1)
    expect(page.locator("#table-halves")).to_contain_text("undecided")
    discarded = page.locator("#table-discarded")
    expect(discarded).to_contain_text("gone")
    discarded.get_by_label("Choose", exact=True).first.focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Check selected again").click()
    expect(page.get_by_role("status")).to_contain_text(
        "Messages checked again: 1. Skipped because they had been checked again before: 0."
    )
    expect(page.get_by_role("columnheader", name="Checked again")).to_be_visible()
