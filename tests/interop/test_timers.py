"""Messages for any time, sent by the official client, delivered to the millisecond (unknown to Apache's 4.9)."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.appliance import Appliance
from support.client import Client, Message
from support.crash import records
from support.java import Java, JavaError
from support.quick_servers import SETTINGS, quick_server
from support.reference import disposable
from support.servers import Server, wait_until

FULL = os.environ.get("HEADRACE_CRASH_ROUNDS") == "full"
MANY, SPREAD_MS, AFTER_MS = (100_000, 60_000, 30_000) if FULL else (3_000, 3_000, 3_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with disposable(quick_server("headrace", tmp_path_factory.mktemp("timers") / "data")) as server:
        yield server


def send(client: Client, topic: str, count: int, **asked: str) -> list[Message]:
    sent: list[Message] = client.call("send-with", topic=topic, first=0, count=count, set=asked)
    return sent


@pytest.mark.parametrize("asked", [{"TIMER_DELAY_MS": "1234"}, {"TIMER_DELAY_SEC": "2"}])
def test_consumer_receives_messages_when_they_are_due(client: Client, asked: dict[str, str]) -> None:
    [name] = asked
    topic = f"Timed-{name}"
    client.create_topic(topic, 2)
    client.call("attempt", consumer=topic, group=topic, topic=topic)
    sent = {one["msgId"]: one for one in send(client, topic, 5, **asked)}
    received = client.call("await-attempts", consumer=topic, count=5, deadlineMs=60_000)
    client.call("stop-attempts", consumer=topic)
    assert {one["msgId"] for one in received} == sent.keys()
    for message in received:
        original = sent[message["msgId"]]
        said = message["properties"]
        assert message["at"] >= message["storeTimestamp"] >= int(said["TIMER_OUT_MS"])
        assert (said["REAL_TOPIC"], said["REAL_QID"]) == (topic, str(message["queueId"]))
        assert (message["bodySha256"], message["queueId"]) == (original["bodySha256"], original["queueId"])


def raw_send(client: Client, topic: str, unique_id: str, properties: dict[str, str]) -> dict[str, Any]:
    text = "\x02".join(f"{name}\x01{value}" for name, value in ({"UNIQ_KEY": unique_id} | properties).items())
    ext = {
        "a": "raw",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": text,
        "m": "false",
    }
    answer: dict[str, Any] = client.call("raw", address=client.server.broker, code=310, ext=ext, body="aGVsbG8=")
    return answer


def test_message_is_cancelled_with_its_handle(client: Client) -> None:
    for delay_ms in (2500, 10_000, 40_000):
        topic = f"Recalled-{delay_ms}"
        client.create_topic(topic, 1)
        handles = {
            name: raw_send(client, topic, name, {"TIMER_DELAY_MS": str(delay_ms)})["ext"]["recallHandle"]
            for name in ("A", "B", "C")
        }
        recall = {"topic": topic, "recallHandle": handles["B"]}
        answer = client.call("raw", address=client.server.broker, code=370, ext=recall)
        if answer["code"] != 604:  # too late: try again with more time
            break
    assert (answer["code"], answer["ext"]["msgId"]) == (0, "B")
    client.await_pullable(topic, 2)
    assert [one["msgId"] for one in client.dump(topic)] == ["A", "C"]
    late = client.call(
        "raw", address=client.server.broker, code=370, ext={"topic": topic, "recallHandle": handles["A"]}
    )
    assert late["code"] == 604


def test_time_too_far_in_the_future_is_refused(client: Client) -> None:
    topic = "TooFar"
    client.create_topic(topic, 1)
    assert raw_send(client, topic, "A", {"TIMER_DELAY_SEC": str(3 * 86400 + 1)})["code"] == 13
    assert raw_send(client, topic, "B", {"TIMER_DELIVER_MS": "x"})["code"] == 13
    assert raw_send(client, topic, "C", {"TIMER_DELAY_SEC": str(3 * 86400)})["code"] == 0
    assert raw_send(client, topic, "D", {"TIMER_DELIVER_MS": "1"})["code"] == 0
    client.await_pullable(topic, 1)
    assert [one["msgId"] for one in client.dump(topic)] == ["D"]


def lateness(store: Path, topic: str) -> dict[str, int]:
    """By key, how many ms after its due time each message of a topic was stored. Fails on duplicates."""
    found: dict[str, int] = {}
    for record in records(store, topic):
        key = record["properties"]["KEYS"]
        assert key not in found, f"{key} was delivered twice"
        # Messages already due on arrival never wait.
        due_ms = int(record["properties"].get("TIMER_OUT_MS") or record["properties"]["TIMER_DELIVER_MS"])
        found[key] = record["storeTimestamp"] - due_ms
    return found


@pytest.mark.timeout(400)
@pytest.mark.parametrize("restart", [None, "stop", "kill"] if FULL else ["stop", "kill"])
def test_many_messages_are_delivered_on_time(java: Java, tmp_path: Path, restart: str | None) -> None:
    topic = "ManyTimers"
    server = Appliance(tmp_path / "data")
    try:
        client = Client(java, server)
        client.create_topic(topic, 4)
        sent = client.call(
            "send-spread", topic=topic, first=0, count=MANY, afterMs=AFTER_MS, spreadMs=SPREAD_MS, seed=7, timeout_s=120
        )
        assert sent["acknowledged"] == MANY
        if restart is not None:
            client.await_pullable(topic, MANY // 3, AFTER_MS / 1000 + SPREAD_MS / 1000 + 60)
            (server.stop if restart == "stop" else server.kill)()
            server = Appliance(tmp_path / "data", ports=server.ports)
            client = Client(java, server)
            client.create_topic(topic, 4)
        client.await_pullable(topic, MANY, AFTER_MS / 1000 + SPREAD_MS / 1000 + 60)
        server.stop()
        late = lateness(server.store, topic)
    finally:
        server.kill()
    assert sorted(map(int, late)) == list(range(MANY))
    assert min(late.values()) >= 0
    if restart is None:
        in_order = sorted(late.values())
        # The short form runs on busy machines.
        assert in_order[MANY * 99 // 100] <= (50 if FULL else 20_000), (in_order[MANY // 2], in_order[-1])


def is_delivered(client: Client, topic: str, count: int) -> bool:
    """Whether this many messages can be pulled; false while the broker is down."""
    try:
        return bool(sum(ends["max"] for ends in client.call("offsets", topic=topic).values()) >= count)
    except JavaError:
        return False


def test_timers_survive_a_restart_of_the_broker_role(java: Java, tmp_path: Path) -> None:
    topic = "BrokerDies"
    with Appliance(tmp_path / "data") as server:
        client = Client(java, server)
        client.create_topic(topic, 2)
        sent = client.call("send-spread", topic=topic, first=0, count=2000, afterMs=1500, spreadMs=3000, seed=3)
        for goal in (200, 800, 2000):
            wait_until(partial(is_delivered, client, topic, goal), 60, f"{goal} messages")
            if goal < 2000:
                pid = server.pid_of("broker")
                os.kill(pid, 9)
                server.wait_restarted("broker", pid)
        store = server.store
    late = lateness(store, topic)
    assert len(late) == sent["acknowledged"] == 2000
    assert min(late.values()) >= 0


def test_slave_delivers_pending_timers_once_after_taking_over(java: Java, tmp_path: Path) -> None:
    """Its store has the log but no timer index, which is rebuilt."""
    topic = "TakenOver"
    with Appliance(tmp_path / "master") as master:
        host, _, port = master.broker.rpartition(":")
        slave_settings = {"brokerRole": "SLAVE", "haMasterAddress": f"{host}:{int(port) + 1}", "brokerId": "1"}
        client = Client(java, master)
        client.create_topic(topic, 2)
        slave = Appliance(tmp_path / "slave", settings=slave_settings)
        try:
            client.call("send-spread", topic=topic, first=0, count=300, afterMs=1500, spreadMs=1500, seed=3)
            client.call("send-spread", topic=topic, first=300, count=300, afterMs=10_000, spreadMs=2000, seed=4)
            handle = raw_send(client, topic, "N", {"TIMER_DELAY_MS": "11000", "KEYS": "none"})["ext"]["recallHandle"]
            cancelled = client.call(
                "raw", address=master.broker, code=370, ext={"topic": topic, "recallHandle": handle}
            )
            assert cancelled["code"] == 0
            client.await_pullable(topic, 300, 60)
            wait_until(lambda: written(slave) == written(master), 60, "all of the log there")
        finally:
            slave.stop()
    # Whoever promotes it must make the topics known to it.
    shutil.copy(master.store / "config" / "topics.json", slave.store / "config" / "topics.json")
    with Appliance(tmp_path / "slave") as server:
        client = Client(java, server)
        client.create_topic(topic, 2)
        client.await_pullable(topic, 600, 60)
        store = server.store
    late = lateness(store, topic)
    assert sorted(map(int, late)) == list(range(600))
    assert min(late.values()) >= 0


def written(server: Appliance) -> int:
    return int(server.status()["offsets"]["wrote_offset"])


def test_pending_timers_are_delivered_before_a_store_is_moved(java: Java, tmp_path: Path) -> None:
    topic = "Moved"
    with Appliance(tmp_path / "ours", settings=SETTINGS) as server:
        client = Client(java, server)
        client.create_topic(topic, 2)
        sent = {one["msgId"] for one in send(client, topic, 30, TIMER_DELAY_SEC="86400")}
        near = {one["msgId"] for one in send(client, topic, 5, TIMER_DELAY_SEC="172800")}
        gone = {one["msgId"] for one in send(client, topic, 5, TIMER_DELAY_MS="200")}
        client.await_pullable(topic, 5)
        busy = server.run("store", "deliver-timers", str(server.store), "--set", "storeLockWait=100", check=False)
        assert busy.returncode != 0
        assert "lock" in busy.stderr + busy.stdout
        store = server.store
    said = server.run("store", "deliver-timers", str(store))
    assert f"{len(sent | near)} messages delivered" in said.stdout
    assert "0 messages delivered" in server.run("store", "deliver-timers", str(store)).stdout
    assert server.run("store", "verify", str(store)).returncode == 0
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    store.rename(theirs / "store")
    with disposable(quick_server("reference", theirs)) as other:
        client = Client(java, other)
        client.create_topic(topic, 2)
        client.await_pullable(topic, 40)
        received = [one["msgId"] for one in client.dump(topic)]
    assert sorted(received) == sorted(sent | near | gone)
