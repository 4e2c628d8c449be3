"""Broadcasting consumers: each member receives every message, and the broker stores no offsets for the group."""

import contextlib

from support.client import Client
from support.java import JavaError

GROUP = "broadcasting"
MEMBERS = ("one-who-listens", "another-who-listens")


def kept(client: Client, topic: str) -> dict[str, int]:
    """The group's offsets at the broker; empty if the broker does not know the group."""
    with contextlib.suppress(JavaError):
        return dict(client.call("consumed", group=GROUP, topic=topic))
    return {}


def test_every_broadcasting_member_receives_every_message(client: Client) -> None:
    topic = "Broadcast"
    client.create_topic(topic, 2)
    for member in MEMBERS:
        client.consume(member, topic, kind="broadcast", group=GROUP)
    sent = {one["msgId"] for one in client.send(topic, 10)}
    for member in MEMBERS:
        assert {one["msgId"] for one in client.receive(member, 10)} == sent
        client.call("commit", consumer=member)
    for member in MEMBERS:
        client.stop(member)
    assert set(kept(client, topic).values()) <= {0}
