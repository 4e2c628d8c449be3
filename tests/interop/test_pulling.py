"""Single pulls: the queue bounds that they return, and how long they are held when there is no message."""

import time

import pytest

from support.client import Client, assert_exactly
from support.servers import wait_until


@pytest.fixture
def topic(client: Client) -> str:
    name = f"Pulls-{time.time_ns()}"
    client.create_topic(name, 2)
    return name


@pytest.mark.parametrize(
    ("offset", "most", "status", "next_offset", "count"),
    [
        (0, 3, "FOUND", 3, 3),
        (2, 32, "FOUND", 5, 3),
        (5, 32, "NO_NEW_MSG", 5, 0),
        (6, 32, "OFFSET_ILLEGAL", 5, 0),
        (999, 32, "OFFSET_ILLEGAL", 5, 0),
    ],
)
def test_pull_returns_minimum_and_maximum_offset(
    client: Client, topic: str, offset: int, most: int, status: str, next_offset: int, count: int
) -> None:
    client.send(topic, 5, mode="queue", queue=0)
    client.await_pullable(topic, 5)
    said = client.call("pull", topic=topic, queue=0, offset=offset, max=most)
    assert (said["status"], said["nextBeginOffset"], len(said["messages"])) == (status, next_offset, count)
    assert (said["minOffset"], said["maxOffset"]) == (0, 5)


def test_pull_returns_not_found_when_queue_is_empty(client: Client, topic: str) -> None:
    here, far = (client.call("pull", topic=topic, queue=1, offset=offset, max=32) for offset in (0, 7))
    assert (here["status"], here["nextBeginOffset"], here["maxOffset"]) == ("NO_NEW_MSG", 0, 0)
    assert (far["status"], far["nextBeginOffset"], far["maxOffset"]) == ("OFFSET_ILLEGAL", 0, 0)


def test_held_pull_is_answered_when_a_message_arrives(client: Client, topic: str) -> None:
    held = client.java.start("pull-held", namesrv=client.server.name_server, topic=topic, queue=0, offset=0, max=32)
    # Whether it is held cannot be seen from outside. Another pull, sent later on the same connection and answered,
    # shows that the broker has received it.
    client.call("pull", topic=topic, queue=1, offset=0, max=1)
    sent = client.send(topic, 1, mode="queue", queue=0)
    # Without a notification it would be answered after 20 s, without a message.
    assert_exactly(held.result(60)["messages"], sent)


def test_held_pull_is_not_answered_by_a_message_with_another_tag(client: Client, topic: str) -> None:
    held = client.java.start(
        "pull-held", namesrv=client.server.name_server, topic=topic, queue=0, offset=0, max=32, tags="Wanted"
    )
    client.send(topic, 3, mode="queue", queue=0, tag="Unwanted")
    wanted = client.send(topic, 1, first=3, mode="queue", queue=0, tag="Wanted")
    said = held.result(60)
    # Answered either with the wanted message at once, or first with the information that nothing before it matched.
    while said["status"] != "FOUND":
        said = client.call("pull-held", topic=topic, queue=0, offset=said["nextBeginOffset"], max=32, tags="Wanted")
    assert_exactly(said["messages"], wanted)


def test_pull_returns_a_message_sent_before(client: Client, topic: str) -> None:
    for number in range(20):
        sent = client.send(topic, 1, first=number, mode="queue", queue=0)
        found: list[str] = []

        def pull(number: int = number, found: list[str] = found) -> bool:
            said = client.call("pull", topic=topic, queue=0, offset=number, max=1)
            found.extend(message["msgId"] for message in said["messages"])
            return bool(found)

        wait_until(pull, 60, "the message in its queue")
        assert found == [sent[0]["msgId"]]
