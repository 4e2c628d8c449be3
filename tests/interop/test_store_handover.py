"""A store of one broker is opened by the other, used, and moved back."""

import shutil
from pathlib import Path

from support.appliance import Appliance
from support.clean_stop import stopped_cleanly
from support.client import Client, Message, assert_dense, comparable
from support.java import Java
from support.reference import Reference
from support.servers import Server

TOPIC = "Moved"
QUEUES = 3
EACH = 200
SIZES = {
    "mappedFileSizeCommitLog": "262144",
    "maxMessageSize": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "500",
}
MAKES: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}


def add(java: Java, server: Server, first: int) -> list[Message]:
    client = Client(java, server)
    client.create_topic(TOPIC, QUEUES)
    client.send(TOPIC, EACH, first=first, mode="sync", size=1500)
    client.await_pullable(TOPIC, first + EACH)
    return client.dump(TOPIC)


def test_store_can_be_moved_to_the_other_broker_and_back(java: Java, tmp_path: Path) -> None:
    seen: list[Message] = []
    store: Path | None = None
    for number, make in enumerate(("headrace", "reference", "headrace")):
        data = tmp_path / str(number)
        if store is not None:
            shutil.copytree(store, data / "store")
        with stopped_cleanly(MAKES[make](data, settings=SIZES)) as server:
            if number:
                client = Client(java, server)
                client.create_topic(TOPIC, QUEUES)  # it exists already; this makes the name server know it at once
                client.await_pullable(TOPIC, number * EACH)
                assert list(map(comparable, client.dump(TOPIC))) == list(map(comparable, seen))
            seen = add(java, server, number * EACH)
            assert len(seen) == (number + 1) * EACH
            assert_dense(seen, QUEUES)
            store = server.store
        assert not (store / "abort").exists()


def test_recreated_topic_stays_new_at_either_broker(java: Java, tmp_path: Path) -> None:
    first = tmp_path / "headrace"
    with stopped_cleanly(Appliance(first, settings=SIZES)) as server:
        client = Client(java, server)
        client.create_topic(TOPIC, QUEUES)
        client.send(TOPIC, EACH)
        client.call("delete-topic", topic=TOPIC)
        seen = add(java, server, 0)
        assert len(seen) == EACH
    for number, make in enumerate((Reference, Appliance), start=1):
        data = tmp_path / str(number)
        shutil.copytree(server.store, data / "store")
        if make is Appliance:
            shutil.rmtree(data / "store" / "consumequeue")  # rebuilt from a log that still has the old messages
        with stopped_cleanly(make(data, settings=SIZES)) as server:
            client = Client(java, server)
            client.create_topic(TOPIC, QUEUES)
            client.await_pullable(TOPIC, number * EACH)
            assert list(map(comparable, client.dump(TOPIC))) == list(map(comparable, seen))
            seen = add(java, server, number * EACH)
            assert_dense(seen, QUEUES)
