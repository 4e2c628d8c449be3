"""Pages of delayed messages, timers and transactions over real clusters, Apache's and ours."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Admin
from support.client import Client
from support.console import Browser, Page, RunningConsole
from support.java import Java
from support.quick_servers import SERVERS, quick_server
from support.reference import Reference, disposable
from support.sdk import DEADLINE_S, eventually, patient
from support.servers import Server, wait_until
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import BrokerSample
from web.sampling.sampler import Sampler

TWENTY_MINUTES, HALF_AN_HOUR = 17, 18
HALF_AN_HOUR_MS = 1_800_000
HOUR_MS = 3_600_000
CHECKED_AT_ONCE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Producers are asked about a transaction after ten minutes, unless its message says otherwise."""
    data = tmp_path_factory.mktemp(request.param) / "data"
    with disposable(quick_server(request.param, data, transactionTimeOut="600000")) as server:
        yield server


@pytest.fixture(scope="module")
def client(java: Java, server: Server) -> Client:
    return Client(java, server)


def rows(browser: Browser, path: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.read(path)[table]["rows"]
    return found


def level(browser: Browser, number: int) -> dict[str, Any]:
    return next(row for row in rows(browser, "/delays", "levels") if row["level"] == number)


def sampled(server: Server) -> BrokerSample:
    """What metrics are made of, read anew."""

    async def main() -> BrokerSample:
        async with Admin(patient(server)) as admin:

            async def read() -> BrokerSample | None:
                sample = await Sampler(admin, OwnAppliance(None)).latest(0)
                return next((broker for broker in sample.brokers if broker.problem is None), None)

            broker = await eventually(read, "the broker answers in time")
            assert broker is not None
            return broker

    return asyncio.run(asyncio.wait_for(main(), DEADLINE_S))  # `run` would find the console's own threads


def opened(browser: Browser, path: str) -> Page:
    """A page. It fails while the machine is too busy for the page's deadline."""
    pages: list[Page] = []

    def is_shown() -> bool:
        pages.append(browser.get(path))
        return pages[-1].status == 200

    wait_until(is_shown, 60, path)
    return pages[-1]


def test_messages_of_a_delay_level_are_counted_and_listed_with_their_time(browser: Browser, client: Client) -> None:
    client.create_topic("PagedDelays", 1)
    for number, count in ((TWENTY_MINUTES, 2), (HALF_AN_HOUR, 3)):
        client.call("send-with", topic="PagedDelays", first=number, count=count, set={"DELAY": str(number)})

    def is_indexed() -> bool:
        return [level(browser, one)["waiting"] for one in (TWENTY_MINUTES, HALF_AN_HOUR)] == [2, 3]

    wait_until(is_indexed, 60, "five waiting messages")
    row = level(browser, HALF_AN_HOUR)
    path = f"/delays/{row['broker']}/{HALF_AN_HOUR}"
    listed = rows(browser, path, "messages")
    assert [(one["topic"], one["due_at"] - one["stored_at"]) for one in listed] == [
        ("PagedDelays", HALF_AN_HOUR_MS)
    ] * 3
    assert (row["delay"], row["delivered"], row["problem"]) == (HALF_AN_HOUR_MS, 0, "")
    assert (row["next_due"], row["last_due"]) == (listed[0]["due_at"], listed[-1]["due_at"])
    assert f'href="{path}"' in opened(browser, "/delays").text
    assert "All delay levels" in opened(browser, path).text
    assert len(opened(browser, f"{path}?format=csv").text.splitlines()) == 4
    assert browser.get(f"/delays/{row['broker']}/99").status == 404
    assert browser.get("/delays/no-such-broker/1").status == 404


def test_timers_are_listed_or_the_page_says_that_brokers_do_not_support_them(
    browser: Browser, client: Client, server: Server
) -> None:
    if isinstance(server, Reference):
        assert rows(browser, "/delays", "timers") == []
        assert "RocketMQ 4 supports delay levels only" in opened(browser, "/delays").text
        assert "RocketMQ 4 supports delay levels only" in opened(browser, "/delays/timers").text
        return
    client.create_topic("PagedTimers", 1)
    sent = client.call("send-with", topic="PagedTimers", first=0, count=2, set={"TIMER_DELAY_MS": str(HOUR_MS)})
    wait_until(lambda: len(rows(browser, "/delays/timers", "messages")) == 2, 60, "two waiting timers")
    listed = rows(browser, "/delays/timers", "messages")
    assert {one["id"] for one in listed} == {one["msgId"] for one in sent}
    assert {one["topic"] for one in listed} == {"PagedTimers"}
    assert all(0 <= one["due_at"] - HOUR_MS - one["stored_at"] + 60_000 <= 60_000 for one in listed)
    wait_until(lambda: [row["waiting"] for row in rows(browser, "/delays", "timers")] == [2], 60, "both are counted")
    assert "2 timer messages were searched" in opened(browser, "/delays/timers").text
    broker = sampled(server)
    assert (broker.topic_events["rocketmq_timer_enqueue"], broker.number("timerCongestNum")) == ({"PagedTimers": 2}, 2)


@pytest.mark.parametrize("make", SERVERS)
def test_half_message_is_listed_before_the_first_check_of_its_broker(make: str, java: Java, tmp_path: Path) -> None:
    topic, group = "EarlyTransactions", f"early-transactions-{make}"
    rarely = {"transactionCheckInterval": "3600000"}
    with (
        disposable(quick_server(make, tmp_path / "data", **rarely)) as server,
        RunningConsole(tmp_path / "console", server.name_server, api_timeout=30) as console,
    ):
        client, browser = Client(java, server), console.administrator()
        client.create_topic(topic, 1)
        assert rows(browser, "/transactions", "halves") == []
        try:
            client.call("transact", group=group, topic=topic, count=1, first=0, outcome="commit")
            client.call("transact", group=group, topic=topic, count=1, first=1, outcome="rollback")
            (waits,) = client.call("transact", group=group, topic=topic, count=1, first=2, outcome="unknown")

            def listed() -> list[str]:
                return [one["id"] for one in rows(browser, "/transactions", "halves")]

            wait_until(lambda: listed() == [waits["msgId"]], 60, "the undecided message")
            assert "RMQ_SYS_TRANS_HALF_TOPIC" not in {
                one["topic"] for one in rows(browser, "/topics?kind=all", "topics")
            }
        finally:
            client.call("stop-transactions", group=group)


def test_discarded_transaction_is_checked_again_once_and_waiting_ones_are_listed(
    browser: Browser, client: Client, server: Server
) -> None:
    topic, group = "PagedTransactions", f"paged-transactions-{client.server.name}"
    client.create_topic(topic, 1)
    try:
        transact = {"group": group, "topic": topic, "count": 1}
        (sent,) = client.call("transact", **transact, first=0, outcome="unknown", set=CHECKED_AT_ONCE)

        def discarded(count: int) -> bool:
            return len(rows(browser, "/transactions", "discarded")) == count

        wait_until(lambda: discarded(1), 90, "the message is discarded")
        (row,) = rows(browser, "/transactions", "discarded")
        assert (row["id"], row["topic"], row["group"], row["checks"]) == (sent["msgId"], topic, group, 3)
        assert row["checked_at"] is None

        for _ in range(2):
            done = browser.send("/transactions/check-again", {"message": row["offset_id"]})
            assert done.status == 303, done.cause
        wait_until(lambda: discarded(2), 90, "the message is discarded for the second time")

        def asked() -> list[str]:
            return [one["properties"]["TRANSACTION_CHECK_TIMES"] for one in client.call("checks", group=group)]

        wait_until(lambda: asked()[-3:] == ["1", "2", "3"], 60, "the producer was asked three times again")
        first, second = rows(browser, "/transactions", "discarded")
        assert first["checked_at"]
        assert second["checked_at"] is None
        entries = browser.read("/audit?filter=transaction.check-again")["audit"]["rows"]
        assert [entry["outcome"] for entry in entries] == ["done", "done"]

        client.call("transact", **transact, first=1, outcome="commit")
        client.call("transact", **transact, first=2, outcome="rollback")
        (waits,) = client.call("transact", **transact, first=3, outcome="unknown")

        def halves() -> list[dict[str, Any]]:
            return rows(browser, "/transactions", "halves")

        wait_until(lambda: [one["id"] for one in halves()] == [waits["msgId"]], 60, "one undecided message")
        (half,) = halves()
        assert (half["topic"], half["group"], half["checks"]) == (topic, group, 0)
        assert half["connected"] is True
        assert half["discarded_at"] > half["born_at"] + 600_000
        assert "Check selected again" in opened(browser, "/transactions").text
        refused = browser.send("/transactions/check-again", {"message": half["offset_id"]})
        assert refused.status == 400
        assert "not in TRANS_CHECK_MAX_TIME_TOPIC" in refused.cause
        wait_until(lambda: sampled(server).half_messages == 1, 60, "the metric of half messages")
        if not isinstance(server, Reference):
            events = sampled(server).topic_events
            assert events["rocketmq_commit_messages"] == events["rocketmq_rollback_messages"] == {topic: 1}
    finally:
        client.call("stop-transactions", group=group)
