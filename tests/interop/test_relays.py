"""Consumer runtime information, direct consumption and offset resets, relayed to consumers by the broker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from support.client import Client, Message
from support.java import Java, JavaError
from support.quick_servers import SERVERS
from support.servers import Server, wait_until

TOPIC, GROUP = "Relayed", "relayed-group"


def _consumer(client: Client) -> str:
    return f"relayed-{client.server.name}"


@contextmanager
def consuming(client: Client) -> Iterator[list[Message]]:
    """A consumer that has received all messages of the topic and committed them."""
    client.create_topic(TOPIC, 2)
    sent = client.send(TOPIC, 20)
    consumer = _consumer(client)
    client.consume(consumer, TOPIC, group=GROUP)
    try:
        client.receive(consumer, 20)
        wait_until(lambda: sum(_offsets(client).values()) >= 20, 60, "the consumer has moved its offsets")
        client.call("commit", consumer=consumer)
        yield sent
    finally:
        client.stop(consumer)
        client.call("delete-topic", topic=TOPIC)


def _client_id(client: Client) -> str:
    (client_id,) = client.call("client-ids", group=GROUP)
    return str(client_id)


def _offsets(client: Client) -> dict[str, int]:
    """The offsets of the only member as it reports them; empty if it did not answer in time."""
    try:
        (offsets,) = client.call("consumer-offsets", topic=TOPIC, group=GROUP).values()
    except (JavaError, ValueError):
        return {}
    return dict(offsets)


def test_broker_relays_admin_requests_to_consumers(java: Java, serving: Callable[[str], Server]) -> None:
    """The client takes ten seconds for a reset, so both brokers' consumers are reset first and then awaited."""
    clients = [Client(java, serving(make)) for make in SERVERS]
    with ExitStack() as stack:
        for client in clients:
            sent = stack.enter_context(consuming(client))
            client_id = _client_id(client)

            info = client.call("running-info", group=GROUP, clientId=client_id)
            assert TOPIC in info["topics"]
            assert info["queues"] >= 2
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"

            asked = {"group": GROUP, "clientId": client_id, "topic": TOPIC, "msgId": sent[3]["offsetMsgId"]}
            assert client.call("consume-directly", **asked) == "CR_SUCCESS"
            assert len(client.received(_consumer(client))) == 21

            reset = client.call("reset-by-time", topic=TOPIC, group=GROUP, timestamp=0, force=True)
            assert reset == {"0": 0, "1": 0}

            with pytest.raises(JavaError, match="not online"):
                client.call("running-info", group=GROUP, clientId="nobody")
        for client in clients:
            wait_until(
                lambda: len(client.received(_consumer(client))) >= 41,  # noqa: B023  at once
                60,
                f"all messages come again from {client.server.name}",
            )
