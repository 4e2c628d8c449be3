"""The live tail of a topic in Chromium, and its stream."""

import http.client
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from headrace import Message
from headrace.sync import Admin, Producer
from support.appliance import Appliance
from support.chromium import log_in
from support.console import Browser, first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
ENDS_SHARED_S: Final = 1.0
"""How long the viewers of a topic share the ends of its queues, where their streams begin."""
PAYLOAD = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    port = free_port()
    data = tmp_path_factory.mktemp("tail") / "data"
    with Appliance(data, settings={"mappedFileSizeCommitLog": "16777216"}, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        with Admin(appliance.name_server) as admin:
            admin.create_topic("Tailed", 2)
        yield appliance
        log = (appliance.data / "logs" / "headrace.log").read_text()
        assert "request failed path" not in log, log[log.index("request failed path") :][:4_000]
        assert " ERROR " not in log, log


@pytest.fixture(scope="module")
def admin(appliance: Appliance) -> Browser:
    port = int(appliance.command[appliance.command.index("--console-port") + 1])
    return first_administrator(appliance.data / "console", port)


def read_events(
    admin: Browser, path: str, last_id: str = ""
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """An open stream."""
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=60)
    headers = {"Cookie": f"headrace_session={admin.cookies['headrace_session']}", "Last-Event-ID": last_id}
    connection.request("GET", path, headers=headers)
    return connection, connection.getresponse()


def test_tail_shows_messages_as_they_are_sent_and_pauses(appliance: Appliance, admin: Browser, page: Page) -> None:
    log_in(page, admin.port, "/topics/Tailed/tail")
    expect(page.get_by_role("status")).to_have_text("Waiting for messages.")
    with Producer("tailed", appliance.name_server) as producer:
        shown = page.get_by_role("cell", name=PAYLOAD)
        wait_until(lambda: _is_shown(producer, shown, PAYLOAD.encode()), 60, "a message in the tail")
        expect(page.get_by_role("cell", name=f"{len(PAYLOAD)} B", exact=True).first).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 900})
        expect(page.locator("thead")).to_be_hidden()  # an empty box: rows have labels of their own
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_contain_text("Paused.")
        rows = page.locator("tbody tr")
        count = rows.count()
        producer.send(Message("Tailed", b"while paused", keys="paused"))
        sent = time.monotonic()
        wait_until(lambda: time.monotonic() > sent + ENDS_SHARED_S, 20, "the end of the topic is read again")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("status")).to_contain_text("Waiting for messages.")
        resumed = rows.filter(has_text="resumed")
        wait_until(lambda: _is_shown(producer, resumed, b"resumed"), 60, "a message after the pause")
    expect(rows.filter(has_not_text="resumed")).to_have_count(count)


def _is_shown(producer: Producer, shown: Locator, body: bytes) -> bool:
    """Sends until one is shown: the stream begins at the end of the topic, whenever it is open."""
    producer.send(Message("Tailed", body, tags="T", keys="k1"))
    return shown.count() > 0


def test_stream_resumes_where_it_ended_and_skips_what_the_rate_does_not_permit(
    appliance: Appliance, admin: Browser
) -> None:
    with Admin(appliance.name_server) as sdk:
        sdk.create_topic("Resumed", 1)
    with Producer("resumed", appliance.name_server) as producer:
        for number in range(8):
            producer.send(Message("Resumed", str(number).encode()))
    wait_until(lambda: admin.get("/api/v1/topics/Resumed").json()["messages"] == 8, 30, "the messages")
    connection, answer = read_events(admin, "/topics/Resumed/tail/events?rate=5", last_id="0")
    with closing(connection), closing(answer):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = []
        while sum(line.startswith("data: ") for line in lines) < 6:
            lines.append(answer.readline().decode())
    assert "event: skipped\n" in lines
    assert lines[lines.index("event: skipped\n") + 1 :][:2] == ["id: 8\n", "data: 3\n"]
    assert [line.count('"body":"') for line in lines if line.startswith("data: {")] == [1] * 5


def test_streams_are_bounded_and_a_closed_one_makes_room(admin: Browser) -> None:
    path = "/topics/Tailed/tail/events"
    streams = [read_events(admin, path) for _ in range(3)]
    try:
        assert [answer.status for _, answer in streams] == [200] * 3
        refused = admin.get(path)
        assert refused.status == 429
        assert "each user may have 3 open" in refused.text
    finally:
        for connection, answer in streams:
            answer.close()
            connection.close()

    def has_room() -> bool:
        connection, answer = read_events(admin, path)
        with closing(connection), closing(answer):
            return answer.status == 200

    wait_until(has_room, 30, "room for a stream")


@pytest.mark.parametrize(("path", "status"), [("Nowhere/tail", 404), ("Tailed/tail?rate=7", 400)])
def test_tail_of_nothing_is_an_error(admin: Browser, path: str, status: int) -> None:
    assert admin.get(f"/topics/{path}").status == status
    assert admin.get(f"/topics/{path.replace('tail', 'tail/events')}").status == status


def test_stream_needs_a_login(admin: Browser) -> None:
    assert Browser(admin.port).get("/topics/Tailed/tail/events").status == 303
