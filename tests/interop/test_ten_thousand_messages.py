"""10,000 messages, sent in every way of the official client, reach every kind of consumer unchanged."""

from collections import defaultdict

import pytest

from support.client import Client, Message, assert_dense, assert_exactly, place
from support.java import Java
from support.servers import Server

TOPIC = "TenThousand"
QUEUES = 4
TOTAL = 10_000
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def sent(java: Java, server: Server) -> list[Message]:
    client = Client(java, server)
    client.create_topic(TOPIC, QUEUES)
    messages = [
        *client.send(TOPIC, 1500, first=0, mode="sync"),
        *client.send(TOPIC, 4000, first=1500, mode="async", size=1024),
        *client.send(TOPIC, 500, first=5500, mode="oneway"),
        *client.send(TOPIC, 3000, first=6000, mode="batch", batch=100),
        *client.send(TOPIC, 250, first=9000, mode="queue", queue=2),
        *client.send(TOPIC, 250, first=9250, mode="selector"),
        *client.send(TOPIC, 250, first=9500, mode="sync", size=6000),
        *client.send(TOPIC, 200, first=9750, mode="async", size=20_000),
        *client.send(TOPIC, 50, first=9950, mode="sync", vip=True),
    ]
    assert len(messages) == TOTAL
    client.await_pullable(TOPIC, TOTAL)
    return messages


def test_every_send_is_acknowledged_with_its_offset(sent: list[Message]) -> None:
    told = [message for message in sent if "status" in message]
    assert len(told) == TOTAL - 500
    assert {message["status"] for message in told} == {"SEND_OK"}
    assert len({place(message) for message in told}) == len(told)
    assert {message["queueId"] for message in sent[9000:9250]} == {2}


def test_all_messages_can_be_pulled(client: Client, sent: list[Message]) -> None:
    received = client.dump(TOPIC)
    assert_exactly(received, sent)
    assert_dense(received, QUEUES)
    # Bodies over 4 KiB are compressed by the client, marked in the system flag, and arrive decompressed.
    compressed = [message for message in received if message["sysFlag"] & 1]
    assert {message["bodyLength"] for message in compressed} == {6000, 20_000}
    assert len(compressed) == 450


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_consumer_receives_all_messages(client: Client, sent: list[Message], kind: str) -> None:
    client.consume(f"ten-{kind}", TOPIC, kind=kind)
    received = client.receive(f"ten-{kind}", TOTAL, deadline_s=PATIENCE_S)
    client.stop(f"ten-{kind}")
    assert_exactly(received, sent)
    assert_dense(received, QUEUES)
    if kind == "orderly":
        assert_in_order(received)


def test_two_broadcasting_consumers_each_receive_all_messages(client: Client, sent: list[Message]) -> None:
    names = [f"broadcast-{client.server.name}-{number}" for number in range(2)]
    for name in names:
        client.consume(name, TOPIC, kind="broadcast", group="ten-broadcast-group")
    for name in names:
        assert_exactly(client.receive(name, TOTAL, deadline_s=PATIENCE_S), sent)
    client.stop(*names)


def assert_in_order(received: list[Message]) -> None:
    given: dict[int, list[int]] = defaultdict(list)
    for message in received:
        queue, offset = place(message)
        given[queue].append(offset)
    for offsets in given.values():
        assert offsets == sorted(offsets)
