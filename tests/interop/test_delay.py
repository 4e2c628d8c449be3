"""Messages with a delay level: when they are delivered, with which properties, and what happens across a restart."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model import names
from support.appliance import Appliance
from support.clean_stop import stopped_cleanly
from support.client import Client, comparable
from support.golden import expected, unpack
from support.java import Java
from support.quick_servers import SERVERS, quick_server
from support.reference import disposable
from support.servers import Server

LEVELS_MS = {1: 1000, 2: 2000, 5: 2000, 6: 3000}
FULL = os.environ.get("HEADRACE_CRASH_ROUNDS") == "full"
# RocketMQ checks every 100 ms, and its threads wait for each other here. The short form runs on busy machines.
LATE_MS = {"reference": 1000, "headrace": 100} if FULL else {"reference": 50_000, "headrace": 50_000}
SYSTEM = {"DELAY", "REAL_TOPIC", "REAL_QID"}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with disposable(quick_server(request.param, tmp_path_factory.mktemp(request.param) / "data")) as server:
        yield server


def bare(message: dict[str, Any]) -> dict[str, Any]:
    """The fields that sender and receiver have in common, without those that the delay adds."""
    said = comparable(message)
    said["properties"] = {name: value for name, value in said["properties"].items() if name not in SYSTEM}
    return said


def test_delayed_messages_are_delivered_on_time_and_unchanged(client: Client, server: Server) -> None:
    topic = "Delays"
    client.create_topic(topic, 2)
    client.consume("delays", topic)
    client.await_assigned("delays", 2)
    sent = {}
    for level in LEVELS_MS:
        for one in client.call("send-with", topic=topic, first=level * 100, count=5, set={"DELAY": str(level)}):
            sent[one["msgId"]] = one
    received = client.receive("delays", len(sent))
    assert len(received) == len(sent)
    for message in received:
        level = int(message["properties"]["DELAY"])
        original = sent[message["msgId"]]
        assert bare(message) == bare(original)
        assert message["properties"]["REAL_TOPIC"] == topic
        assert message["properties"]["REAL_QID"] == str(message["queueId"]) == str(original["queueId"])
        assert message["reconsumeTimes"] == 0
        assert message["preparedTransactionOffset"] == 0
        waited = message["storeTimestamp"] - message["bornTimestamp"]
        on_its_way_ms = 200
        assert LEVELS_MS[level] <= waited <= LEVELS_MS[level] + LATE_MS[server.name] + on_its_way_ms
    client.stop("delays")


def test_send_result_refers_to_the_delayed_copy(client: Client) -> None:
    topic = "DelayAnswer"
    client.create_topic(topic, 1)
    client.consume("delay-answer", topic)
    first, second = client.call("send-with", topic=topic, first=1, count=2, set={"DELAY": "3", "WAIT": "true"})
    assert second["queueOffset"] == first["queueOffset"] + 1  # in the queue of the level, whoever else uses it
    assert first["queueId"] == second["queueId"] == 0
    received = client.receive("delay-answer", 2)
    assert {message["offsetMsgId"] for message in received}.isdisjoint({first["offsetMsgId"], second["offsetMsgId"]})
    # WAIT is stored with delayed messages only.
    assert {message["properties"].get("WAIT") for message in received} == {"true"}
    client.stop("delay-answer")


@pytest.mark.parametrize(("level", "stored"), [("19", "18"), ("1000", "18")])
def test_level_beyond_the_last_counts_as_the_last(client: Client, server: Server, level: str, stored: str) -> None:
    topic = "DelayTooMuch"
    client.create_topic(topic, 1)
    [sent] = client.call("send-with", topic=topic, first=int(level), count=1, set={"DELAY": level})
    waiting = client.call("view", msgId=sent["offsetMsgId"])
    assert waiting["topic"] == "SCHEDULE_TOPIC_XXXX"
    assert waiting["queueId"] == 17
    assert waiting["properties"]["DELAY"] == stored
    assert waiting["properties"]["REAL_TOPIC"] == topic


@pytest.mark.parametrize("level", ["0", "-3"])
def test_message_without_level_is_not_delayed(client: Client, level: str) -> None:
    topic = "DelayNone"
    client.create_topic(topic, 1)
    [sent] = client.call("send-with", topic=topic, first=1, count=1, set={"DELAY": level})
    message = client.call("view", msgId=sent["offsetMsgId"])
    assert message["topic"] == topic
    assert message["properties"]["DELAY"] == level
    assert "REAL_TOPIC" not in message["properties"]


@pytest.mark.parametrize("makes", [("reference", "headrace"), ("headrace", "reference"), ("headrace", "headrace")])
def test_pending_messages_are_delivered_after_a_restart(java: Java, tmp_path: Path, makes: tuple[str, str]) -> None:
    topic = "DelayStop"
    with stopped_cleanly(quick_server(makes[0], tmp_path / "data")) as server:
        client = Client(java, server)
        client.create_topic(topic, 1)
        early = client.call("send-with", topic=topic, first=0, count=3, set={"DELAY": "1"})
        client.await_pullable(topic, 3)
        sent = client.call("send-with", topic=topic, first=3, count=10, set={"DELAY": "2"})
        store = server.store
    again = tmp_path / "again"
    again.mkdir()
    store.rename(again / "store")
    with disposable(quick_server(makes[1], again)) as server:
        client = Client(java, server)
        client.create_topic(topic, 1)
        client.await_pullable(topic, 13)
        received = client.dump(topic)
    assert [bare(message) for message in received] == [bare(message) for message in early + sent]
    for message in received[3:]:
        assert message["storeTimestamp"] >= message["bornTimestamp"] + 2000


def test_pending_messages_of_an_apache_store_are_delivered(java: Java, tmp_path: Path) -> None:
    root = unpack("kinds", tmp_path)
    waited = {
        line["properties"]["UNIQ_KEY"]: line["properties"]["DELAY"]
        for line in expected("kinds")
        if line["kind"] == "record"
        and line["topic"] == names.SCHEDULE_TOPIC
        and line["properties"]["REAL_TOPIC"] == "Delayed"
    }
    data = tmp_path / "data"
    data.mkdir()
    root.rename(data / "store")
    sizes = {
        "mappedFileSizeCommitLog": "262144", "maxMessageSize": "65536", "mappedFileSizeConsumeQueue": "1000",
        "maxHashSlotNum": "100", "maxIndexNum": "500", "fileReservedTime": "1000000",
        # Shorter than the delays when the pending messages were stored: they are due now.
        "messageDelayLevel": "1s 2s 1s 1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 1s 2s",
    }  # fmt: skip
    with Appliance(data, settings=sizes) as server:
        client = Client(java, server)
        client.create_topic("Delayed", 4)
        client.await_pullable("Delayed", len(waited))
        received = client.dump("Delayed")
    # Both messages delivered before the store was moved and pending ones arrive exactly once.
    assert Counter(message["msgId"] for message in received) == Counter(waited.keys())
    assert sum(waited[message["msgId"]] in {"17", "18"} for message in received) > 0
