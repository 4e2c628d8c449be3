"""Pending delays, transactions, retries and offsets of a store are continued by its next broker, whichever wrote it.

Delays that wait for hours are due at once when the level table makes them so: their time is further off than the
level's delay.
"""

import base64
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support import golden
from support.appliance import Appliance
from support.clean_stop import stopped_cleanly
from support.client import Client, Message
from support.java import Java
from support.quick_servers import SERVERS, SETTINGS
from support.reference import disposable
from support.sdk import await_registered
from support.servers import wait_until

pytestmark = pytest.mark.timeout(400)

DUE_NOW = "1s 2s 1s 1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 1s 1s"
"""The levels of the golden store, but that what waited for 20 and 40 hours is due."""
GOES_ON = {"messageDelayLevel": DUE_NOW, "transactionCheckMax": "100", "fileReservedTime": "1000000"}
"""Until the producer is known to it, a broker asks in vain, and counts that. It asks about nothing that is older than files may be."""
HALF, OP, WAITING = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


def consumed_by(client: Client, group: str, topic: str) -> dict[str, int]:
    consumed: dict[str, int] = client.call("consumed", group=group, topic=topic)
    return consumed


@pytest.mark.parametrize("make", SERVERS)
def test_pending_work_in_a_rocketmq_store_continues(make: str, java: Java, tmp_path: Path) -> None:
    head, *lines = golden.expected("kinds")
    records = [line for line in lines if line["kind"] == "record"]
    waiting = {
        one["properties"]["UNIQ_KEY"]: one
        for one in records
        if one["topic"] == WAITING and one["properties"]["DELAY"] in ("17", "18")
    }
    decided = {int(base64.b64decode(one["body"])) for one in records if one["topic"] == OP}
    # The last broker had processed the half topic up to 76.
    pending = {
        one["properties"]["UNIQ_KEY"]
        for one in records
        if one["topic"] == HALF and one["queueOffset"] >= 76 and one["queueOffset"] not in decided
    }
    assert (len(waiting), len(pending)) == (21, 9)
    golden.unpack("kinds", tmp_path / "data").rename(tmp_path / "data" / "store")
    settings = {key: str(value) for key, value in head["settings"].items()} | GOES_ON
    with disposable(SERVERS[make](tmp_path / "data", settings=settings)) as server:
        await_registered(server.name_server)
        client = Client(java, server)
        was_there = {topic: sum(one["topic"] == topic for one in records) for topic in ("Delayed", "Paid")}

        client.call("start-transactions", group="transaction-producer", otherwise="commit")
        client.await_pullable("Delayed", was_there["Delayed"] + len(waiting), 60)
        come = client.dump("Delayed")
        assert len(come) == was_there["Delayed"] + len(waiting)
        for message in come:
            if message["msgId"] in waiting:
                original = waiting[message["msgId"]]
                kept = {key: value for key, value in original["properties"].items() if key != "CLUSTER"}
                assert kept.items() <= message["properties"].items()
                assert message["bodyCrc"] == original["bodyCRC"]
                assert str(message["queueId"]) == original["properties"]["REAL_QID"]

        paid = await_all(client, "Paid", pending)
        checks = client.call("checks", group="transaction-producer")
        client.call("stop-transactions", group="transaction-producer")
        assert {check["transactionId"] for check in checks} == pending
        assert_once_for_each_check(Counter({one: paid[one] for one in pending}), checks)
        before = [one["properties"]["UNIQ_KEY"] for one in records if one["topic"] == "Paid"]
        assert sorted((paid - Counter(dict.fromkeys(pending, len(checks)))).elements()) == sorted(before)
        assert {check["properties"]["REAL_TOPIC"] for check in checks} == {"Paid"}

        # The group resumes at its offset: it receives what is new, and again after it has failed.
        assert consumed_by(client, "failing-group", "Failing") == {"0": 6, "1": 6, "2": 6, "3": 6}
        client.call("attempt", consumer="golden-failing", group="failing-group", topic="Failing", failures=1)
        sent = {one["msgId"] for one in client.send("Failing", 4)}
        made = client.call("await-attempts", consumer="golden-failing", count=8, deadlineMs=60_000)
        client.call("stop-attempts", consumer="golden-failing")
        assert sorted((one["msgId"], one["reconsumeTimes"]) for one in made) == sorted(
            (message_id, attempt) for message_id in sent for attempt in (0, 1)
        )


@pytest.mark.parametrize("order", [("headrace", "reference"), ("reference", "headrace")])
def test_pending_work_of_one_broker_is_continued_by_the_other(
    order: tuple[str, str], java: Java, tmp_path: Path
) -> None:
    first, second = order
    group = f"left-by-{first}"
    patient = SETTINGS | {"transactionTimeOut": "600000"}
    with stopped_cleanly(SERVERS[first](tmp_path / "first", settings=patient)) as server:
        await_registered(server.name_server)
        client = Client(java, server)
        for topic in ("Later", "Anytime", "Bought", "Difficult"):
            client.create_topic(topic, 2)
        client.consume(f"{group}-done", "Later", group=group)
        done = client.send("Later", 10)
        client.receive(f"{group}-done", 10)
        client.await_committed("Later", group, 10, f"{group}-done")
        client.stop(f"{group}-done")
        later = client.call("send-with", topic="Later", first=10, count=10, set={"DELAY": "17"})
        anytime = []
        if first == "headrace":
            anytime = client.call("send-with", topic="Anytime", first=0, count=10, set={"TIMER_DELAY_SEC": "86400"})
        # The producer is gone before it could be checked.
        bought = client.call(
            "transact", group=group, topic="Bought", first=0, count=6, outcome="unknown", checked="commit"
        )
        client.call("transact", group=group, topic="Bought", first=6, count=6, outcome="unknown", checked="rollback")
        client.call("stop-transactions", group=group)
        client.call("attempt", consumer=group, group=f"{group}-tries", topic="Difficult", failures=9, level=17)
        difficult = client.send("Difficult", 4)
        client.call("await-attempts", consumer=group, count=4, deadlineMs=60_000)
        # Messages sent back wait with those of the same level; timers wait elsewhere.
        wait_until(lambda: waiting(client, 17) == 14, 60, "four messages sent back")
        client.call("stop-attempts", consumer=group)
    if isinstance(server, Appliance):
        server.run("store", "deliver-timers", str(server.store))
    (tmp_path / "second").mkdir()
    shutil.move(server.store, tmp_path / "second" / "store")

    settings = SETTINGS | GOES_ON
    with disposable(SERVERS[second](tmp_path / "second", settings=settings)) as server:
        await_registered(server.name_server)
        client = Client(java, server)
        client.consume(f"{group}-goes-on", "Later", group=group)
        client.call("start-transactions", group=group)
        client.call("attempt", consumer=f"{group}-again", group=f"{group}-tries", topic="Difficult")
        assert ids(client.receive(f"{group}-goes-on", 10, 60)) == ids(later)
        assert ids(client.dump("Later")) == ids([*done, *later])
        await_all(client, "Bought", set(ids(bought)))
        assert ids(client.dump("Anytime")) == ids(anytime)
        retry = f"%RETRY%{group}-tries"
        sent_back = Counter(
            map(attempt, (one for one in client.dump(WAITING) if one["properties"]["REAL_TOPIC"] == retry))
        )
        assert {message_id for message_id, _ in sent_back} == set(ids(difficult))
        wait_until(lambda: Counter(map(attempt, client.dump(retry))) == sent_back, 60, "each message sent back, once")
        wait_until(
            lambda: {one["msgId"] for one in client.call("attempts", consumer=f"{group}-again")} == set(ids(difficult)),
            60,
            "the consumer's next attempts",
        )
        wait_until(
            lambda: len({one["transactionId"] for one in client.call("checks", group=group)}) == 12, 60, "checks of all"
        )
        came = Counter(message["msgId"] for message in client.dump("Bought"))
        assert came.keys() == set(ids(bought))
        assert_once_for_each_check(came, client.call("checks", group=group))
        client.call("stop-attempts", consumer=f"{group}-again")
        client.call("stop-transactions", group=group)
        client.stop(f"{group}-goes-on")


def await_all(client: Client, topic: str, wanted: set[str]) -> Counter[str]:
    """Waits until all these messages are in a topic; returns how often each occurs."""
    came: Counter[str] = Counter()

    def all_there() -> bool:
        came.clear()
        came.update(message["msgId"] for message in client.dump(topic))
        return wanted <= came.keys()

    wait_until(all_there, 60, f"{len(wanted)} messages in {topic}")
    return came


def assert_once_for_each_check(came: Counter[str], checks: list[Message]) -> None:
    """A producer that answers too slowly is checked again, and its second commit is delivered again."""
    asked = Counter(check["transactionId"] for check in checks)
    assert all(times <= asked[message_id] for message_id, times in came.items()), (came, asked)


def waiting(client: Client, level: int) -> int:
    """How many messages are in a delay level's queue."""
    ext = {"topic": WAITING, "queueId": str(level - 1)}
    answer = client.call("raw", address=client.server.broker, code=30, ext=ext)
    return int(answer["ext"]["offset"])


def attempt(message: Message) -> tuple[str, int]:
    """What an attempt is for, and which one. A consumer whose request to send back times out does so again."""
    return message["msgId"], message["reconsumeTimes"]


def ids(messages: list[Message]) -> list[str]:
    return sorted(message["msgId"] for message in messages)
