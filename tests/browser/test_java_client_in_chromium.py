"""What an operator sees in Chromium of the official Java client, which sends to and consumes from a real appliance."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support.appliance import Appliance
from support.client import Client
from support.console import PASSWORD, RunningConsole
from support.java import Java
from support.servers import wait_until

pytestmark = pytest.mark.slow
SMALL = {"mappedFileSizeCommitLog": "16777216"}
TOPIC, PRODUCERS, GROUP = "JavaOrders", "java-shop", "java-billing"
COUNT = 20
REGISTERED_S = 60
"""Brokers know a producer from its first heartbeat on, which the client sends every 30 seconds."""


@pytest.fixture
def client(tmp_path: Path, java: Java) -> Iterator[Client]:
    """It has sent 20 messages, and consumed them; it stays connected."""
    with Appliance(tmp_path / "data", settings=SMALL) as appliance:
        client = Client(java, appliance)
        client.create_topic(TOPIC, 2)
        client.consume("billing", TOPIC, group=GROUP)
        client.send(TOPIC, COUNT, group=PRODUCERS)
        client.receive("billing", COUNT)
        client.await_committed(TOPIC, GROUP, COUNT, "billing")
        yield client
        client.stop("billing")


@pytest.fixture
def console(tmp_path: Path, client: Client) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console", client.server.name_server, api_timeout=30) as console:
        browser = console.administrator()
        path = f"/producers?filter={PRODUCERS}"
        wait_until(lambda: browser.read(path)["producers"]["rows"], REGISTERED_S, "the producer")
        yield console


def fact(page: Page, name: str) -> Locator:
    """The value of a figure above the tables."""
    return page.locator(".facts > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def test_operator_follows_the_java_client_through_the_pages(page: Page, console: RunningConsole) -> None:
    page.goto(f"http://127.0.0.1:{console.port}/login?next=/topics")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Log in").click()

    row = page.locator("#table-topics tbody tr").filter(has_text=TOPIC)
    expect(row.locator("[data-label=Messages]")).to_have_text(str(COUNT))
    row.get_by_role("link", name=TOPIC).click()
    expect(fact(page, "Messages")).to_have_text(str(COUNT))

    page.locator("#table-groups").get_by_role("link", name=GROUP).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Consumer group {GROUP}")
    for name, value in (("State", "online"), ("Members", "1"), ("Lag", "0"), ("Mode", "clustering, push")):
        expect(fact(page, name)).to_have_text(value)
    member = page.locator("#table-members tbody tr")
    expect(member.locator("[data-label=Language]")).to_have_text("JAVA")
    expect(member.locator("[data-label=Version]")).to_have_text(re.compile("^V4_9"))
    # The topic's two; that of retries, too, when the client has heard of it, which it asks for every 30 s.
    expect(member.locator("[data-label=Queues]")).to_have_text(re.compile(r"^\s*[23]\s*$"))
    client_id = member.get_by_role("link").inner_text()

    member.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Member {client_id}")
    expect(page.locator("#table-queues tbody")).to_contain_text(TOPIC)
    page.get_by_role("link", name="Show the stacks of all threads").click()
    expect(page.locator("pre.stacks")).to_contain_text("org.apache.rocketmq")

    page.get_by_role("navigation").get_by_role("link", name="Find messages").click()
    form = (
        page.locator("form").filter(has=page.get_by_role("button", name="Search")).filter(has=page.get_by_label("Key"))
    )
    form.get_by_label("Key").fill("key-13")
    form.get_by_label("Topic").fill(TOPIC)
    page.keyboard.press("Enter")
    found = page.locator("#table-messages tbody tr")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("key-13")
    found.get_by_role("link").first.click()
    expect(page.locator("main")).to_contain_text("schlüssel-13")
    expect(page.locator("#table-groups tbody tr").filter(has_text=GROUP)).to_be_visible()

    page.get_by_role("navigation").get_by_role("link", name="Producers").click()
    producer = page.locator("#table-producers tbody tr").filter(has_text=PRODUCERS)
    expect(producer.locator("[data-label=Language]")).to_have_text("JAVA")
    expect(producer.locator("[data-label=Version]")).to_have_text(re.compile("^V4_9"))
