"""Tag filters: the broker compares hash codes, the client the tags themselves."""

import base64

from support.client import Client, Message, assert_exactly

PULL = {
    "consumerGroup": "collide-raw", "topic": "TagsCollide", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "AaAa", "expressionType": "TAG",
}  # fmt: skip


def tagged(messages: list[Message], *tags: str) -> list[Message]:
    return [message for message in messages if message["tags"] in tags]


def test_consumer_receives_only_subscribed_tags(client: Client) -> None:
    client.create_topic("Tags", 4)
    sent = client.send("Tags", 600, mode="async")
    for kind in ("concurrent", "orderly", "lite"):
        client.consume(f"tags-{kind}", "Tags", kind=kind, tags="TagA || TagC")
    for kind in ("concurrent", "orderly", "lite"):
        wanted = tagged(sent, "TagA", "TagC")
        assert_exactly(client.receive(f"tags-{kind}", len(wanted)), wanted)
        client.stop(f"tags-{kind}")


def test_broker_filters_pulls_by_tag(client: Client) -> None:
    client.create_topic("TagsPulled", 1)
    sent = client.send("TagsPulled", 90)
    client.await_pullable("TagsPulled", 90)
    assert_exactly(client.dump("TagsPulled", tags="TagB"), tagged(sent, "TagB"))
    found = client.call("pull", topic="TagsPulled", queue=0, offset=0, max=32, tags="TagB")
    assert (found["status"], found["nextBeginOffset"]) == ("FOUND", 90)
    nothing = client.call("pull", topic="TagsPulled", queue=0, offset=0, max=32, tags="NoSuchTag")
    assert (nothing["status"], nothing["nextBeginOffset"]) == ("NO_MATCHED_MSG", 90)


def test_tags_with_the_same_hash_code_are_distinguished(client: Client) -> None:
    # "AaAa" and "BBBB" have the same hash code in Java: the broker returns both, the client keeps only the subscribed
    # tag.
    client.create_topic("TagsCollide", 1)
    wanted = []
    for number in range(0, 30, 10):
        client.send("TagsCollide", 5, first=number, tag="BBBB")
        wanted += client.send("TagsCollide", 5, first=number + 5, tag="AaAa")
    client.consume("collide", "TagsCollide", tags="AaAa")
    assert_exactly(client.receive("collide", 15), wanted)
    passed = client.call("raw", address=client.server.broker, code=11, ext=PULL)
    assert passed["ext"]["nextBeginOffset"] == "30"
    assert base64.b64decode(passed["body"]).count(b"TAGS\x01BBBB") == 15
    client.stop("collide")
