"""What tools ask of running consumers through the broker: their state, a message consumed at once, other offsets."""

from collections.abc import Iterator

import pytest

from support.client import Client, Message
from support.java import JavaError
from support.servers import wait_until

TOPIC, GROUP = "Relayed", "relayed-group"


@pytest.fixture
def consuming(client: Client) -> Iterator[list[Message]]:
    """A consumer that has been given all messages of the topic and has committed them."""
    client.create_topic(TOPIC, 2)
    sent = client.send(TOPIC, 20)
    client.consume("relayed", TOPIC, group=GROUP)
    try:
        client.receive("relayed", 20)
        wait_until(lambda: sum(_offsets(client).values()) >= 20, 60, "the consumer has moved its offsets")
        client.call("commit", consumer="relayed")
        yield sent
    finally:
        client.stop("relayed")
        client.call("delete-topic", topic=TOPIC)


def _client_id(client: Client) -> str:
    (client_id,) = client.call("client-ids", group=GROUP)
    return str(client_id)


def _offsets(client: Client) -> dict[str, int]:
    """The offsets of the only member, as it sees them itself; none when it did not answer in time."""
    try:
        (offsets,) = client.call("consumer-offsets", topic=TOPIC, group=GROUP).values()
    except (JavaError, ValueError):
        return {}
    return dict(offsets)


def test_consumers_are_asked_and_told_through_the_broker(client: Client, consuming: list[Message]) -> None:
    client_id = _client_id(client)

    info = client.call("running-info", group=GROUP, clientId=client_id)
    assert TOPIC in info["topics"]
    assert info["queues"] >= 2
    assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"

    assert client.call("consume-directly", group=GROUP, clientId=client_id, topic=TOPIC, msgId=consuming[3]["offsetMsgId"]) == "CR_SUCCESS"
    assert len(client.received("relayed")) == 21

    reset = client.call("reset-by-time", topic=TOPIC, group=GROUP, timestamp=0, force=True)
    assert reset == {"0": 0, "1": 0}
    wait_until(lambda: len(client.received("relayed")) >= 41, 60, "all messages come again")

    with pytest.raises(JavaError, match="not online"):
        client.call("running-info", group=GROUP, clientId="nobody")
