"""A store moves from our broker to Apache's and back: each serves all of it and builds the same indexes."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from store.inspect.dump import dump_all
from support.appliance import Appliance
from support.clean_stop import stopped_cleanly
from support.client import Client, Message, assert_dense, assert_exactly
from support.crash import verify
from support.java import Java
from support.reference import Reference, disposable
from support.servers import wait_until

SETTINGS = {
    # Every kind of file rolls over several times.
    "maxMessageSize": "65536",
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "500",
}
TOPICS = {"Plain": 4, "Single": 1, "%odd|name-_9": 2}
GROUP = "exchange-group"
GET_ROUTEINFO_BY_TOPIC = 105

pytestmark = pytest.mark.timeout(400)

Sent = dict[str, list[Message]]


def fill(client: Client, sent: Sent, first: int) -> None:
    """Sends to every topic in every way and records the positions in `sent`."""
    for topic in TOPICS:
        messages = sent.setdefault(topic, [])
        count = len(messages)
        for part in (
            client.send(topic, 60, first=first, mode="sync", properties={"wo": "hier", "größe": "值 \\ \"'"}),
            client.send(topic, 300, first=first + 60, mode="async", size=700),
            client.send(topic, 120, first=first + 360, mode="batch", batch=40),
            client.send(topic, 40, first=first + 480, mode="oneway"),
            client.send(topic, 40, first=first + 520, mode="queue", queue=0, waitStoreOk=False),
            client.send(topic, 20, first=first + 560, mode="sync", size=6000),  # compressed
            client.send(topic, 10, first=first + 580, mode="async", size=30_000),
        ):
            messages += part
            count += len(part)
            client.await_pullable(
                topic, count
            )  # one-way sends return no position: wait, so that the next ones come after them


def check(client: Client, sent: Sent) -> None:
    """Checks that the server has exactly what was sent, and finds it by key and id."""
    await_known(client)
    for topic, messages in sent.items():
        # A broker that rebuilds its queues may accept requests before it is done.
        client.await_pullable(topic, len(messages))
        received = client.dump(topic)
        assert_exactly(received, messages)
        assert_dense(received, TOPICS[topic])
        for message in received[:: len(received) // 12]:
            assert_exactly([client.call("view", topic=topic, msgId=message["msgId"])], [message])
            found = client.call("query-key", topic=topic, key=message["keys"].split(" ")[0], max=32)
            assert message["msgId"] in {one["msgId"] for one in found}


def await_known(client: Client) -> None:
    """Waits until the listening broker is registered with its name server."""

    def is_known(topic: str) -> bool:
        address = client.server.name_server
        answer = client.java.call("raw", address=address, code=GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        return bool(answer["code"] == 0)

    wait_until(lambda: all(map(is_known, TOPICS)), 60, "the broker known to the name server")


def consume_some(client: Client, name: str, sent: Sent, expected: int) -> None:
    """The group consumes the rest of the first topic and commits its offsets to the broker."""
    client.consume(name, "Plain", group=GROUP)
    client.receive(name, expected)
    client.await_committed("Plain", GROUP, len(sent["Plain"]), name)
    client.stop(name)


def consumed(client: Client) -> int:
    """The group's committed offsets of the first topic, summed up."""
    offsets: dict[str, int] = client.call("consumed", group=GROUP, topic="Plain")
    return sum(max(0, offset) for offset in offsets.values())


def files(folder: Path) -> dict[str, bytes]:
    """All files in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_rebuilt_by_apache(store: Path, tmp_path: Path, sent: Sent, java: Java) -> None:
    """Checks that Apache's broker, given only our log, builds the same index bytes as in the store.

    IndexFile names are creation times; their contents do not depend on these.
    """
    rebuilt = tmp_path / "rebuilt"
    shutil.copytree(store, rebuilt / "store")
    shutil.rmtree(rebuilt / "store" / "consumequeue")
    shutil.rmtree(rebuilt / "store" / "index")
    queues, indexes = files(store / "consumequeue"), files(store / "index")
    assert max(Counter(name.rpartition("/")[0] for name in queues).values()) > 3
    assert len(indexes) > 3
    different: list[str] = []

    def are_the_same() -> bool:
        theirs = files(apache.store / "consumequeue")
        different[:] = [name for name in queues.keys() | theirs.keys() if queues.get(name) != theirs.get(name)]
        return not different and list(indexes.values()) == list(files(apache.store / "index").values())

    with disposable(Reference(rebuilt, settings=SETTINGS)) as apache:
        check(Client(java, apache), sent)
        try:
            wait_until(are_the_same, 60, "Apache's indexes the same as ours")
        except AssertionError as error:
            message = f"{error}; these queues differ: {sorted(different)}"
            raise AssertionError(message) from None


def check_rolled(store: Path) -> None:
    """Checks that the log has several files with data."""
    lines = list(dump_all(store, int(SETTINGS["maxHashSlotNum"]), int(SETTINGS["maxIndexNum"])))
    written = {line["file"] for line in lines if line["kind"] == "record"}
    assert len(written) > 3
    assert Counter(line["kind"] for line in lines)["blank"] == len(written) - 1


def create_topics(client: Client) -> None:
    for topic, queues in TOPICS.items():
        client.create_topic(topic, queues)


def open_copy(store: Path, data: Path) -> Path:
    """Copies a store to where a server expects it."""
    shutil.copytree(store, data / "store")
    return data


def test_apache_serves_a_store_that_we_wrote(java: Java, tmp_path: Path) -> None:
    sent: Sent = {}
    with Appliance(tmp_path / "ours", settings=SETTINGS) as appliance:
        client = Client(java, appliance)
        create_topics(client)
        fill(client, sent, 0)
        consume_some(client, "exchange-ours", sent, len(sent["Plain"]))
        check(client, sent)
    store = appliance.store
    verify(store, SETTINGS)
    check_rolled(store)

    with stopped_cleanly(Reference(open_copy(store, tmp_path / "apache"), settings=SETTINGS)) as apache:
        client = Client(java, apache)
        check(client, sent)
        assert consumed(client) == len(sent["Plain"])
        before = len(sent["Plain"])
        fill(client, sent, 1000)
        check(client, sent)
        consume_some(client, "exchange-apache", sent, len(sent["Plain"]) - before)
    verify(apache.store, SETTINGS)

    check_rebuilt_by_apache(store, tmp_path, {topic: messages[:590] for topic, messages in sent.items()}, java)


def test_apache_store_is_served_by_us_and_by_apache_again(java: Java, tmp_path: Path) -> None:
    sent: Sent = {}
    with stopped_cleanly(Reference(tmp_path / "apache", settings=SETTINGS)) as apache:
        client = Client(java, apache)
        create_topics(client)
        fill(client, sent, 0)
        consume_some(client, "exchange-first", sent, len(sent["Plain"]))
    verify(apache.store, SETTINGS)

    with Appliance(open_copy(apache.store, tmp_path / "ours"), settings=SETTINGS) as appliance:
        client = Client(java, appliance)
        check(client, sent)
        before = len(sent["Plain"])
        assert consumed(client) == before
        fill(client, sent, 1000)
        check(client, sent)
        consume_some(client, "exchange-second", sent, len(sent["Plain"]) - before)
    verify(appliance.store, SETTINGS)
    check_rolled(appliance.store)

    with stopped_cleanly(Reference(open_copy(appliance.store, tmp_path / "back"), settings=SETTINGS)) as apache:
        client = Client(java, apache)
        check(client, sent)
        assert consumed(client) == len(sent["Plain"])
        fill(client, sent, 2000)
    with Appliance(open_copy(apache.store, tmp_path / "again"), settings=SETTINGS) as again:
        check(Client(java, again), sent)
    verify(again.store, SETTINGS)

    check_rebuilt_by_apache(again.store, tmp_path, sent, java)


def test_apache_loses_nothing_when_opening_the_store_of_a_killed_appliance(java: Java, tmp_path: Path) -> None:
    sent: Sent = {}
    appliance = Appliance(tmp_path / "ours", settings={**SETTINGS, "flushDiskType": "SYNC_FLUSH"})
    try:
        client = Client(java, appliance)
        create_topics(client)
        fill(client, sent, 0)
    finally:
        appliance.kill()
    assert (appliance.store / "abort").exists()
    with disposable(Reference(open_copy(appliance.store, tmp_path / "apache"), settings=SETTINGS)) as apache:
        check(Client(java, apache), sent)
