"""Topics created by the first message or by an administrator, and deleted."""

import pytest

from support.client import Client, assert_exactly
from support.java import JavaError
from support.servers import wait_until


def test_first_message_creates_its_topic(client: Client) -> None:
    sent = client.send("MadeByItself", 8)
    assert {message["queueId"] for message in sent} == {0, 1, 2, 3}
    # The broker registers the topic one-way. A consumer that looks too early retries after half a minute and rebalances
    # up to 20 s later.
    client.await_route("MadeByItself")
    client.consume("made", "MadeByItself")
    assert_exactly(client.receive("made", 8), sent)
    client.stop("made")


def test_deleted_topic_is_gone_and_a_recreated_one_starts_empty(client: Client) -> None:
    client.create_topic("Deleted", 1)
    client.send("Deleted", 10)
    client.await_pullable("Deleted", 10)

    def is_gone() -> bool:
        # A registration in flight restores it at the name server, which never drops a topic by itself.
        client.call("delete-topic", topic="Deleted")
        answer = client.call("raw", address=client.server.name_server, code=105, ext={"topic": "Deleted"})
        return bool(answer["code"] == 17)

    wait_until(is_gone, 60, "a name server that does not know the topic")
    client.create_topic("Deleted", 1)
    sent = client.send("Deleted", 3, first=10)
    assert [message["properties"]["number"] for message in sent] == ["10", "11", "12"]
    client.await_pullable("Deleted", 3)
    assert_exactly(client.dump("Deleted"), sent)


def test_broker_refuses_an_invalid_topic_name(client: Client) -> None:
    answer = client.call(
        "raw",
        address=client.server.broker,
        code=17,
        ext={
            "topic": "no blanks!", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        },
    )  # fmt: skip
    assert answer["code"] == 1
    assert answer["remark"]


def test_route_of_an_unknown_topic_is_not_found(client: Client) -> None:
    with pytest.raises(JavaError):
        client.call("view", topic="NobodyMadeThis", msgId="0" * 32, deadlineMs=0)
    answer = client.call("raw", address=client.server.name_server, code=105, ext={"topic": "NobodyMadeThis"})
    assert answer["code"] == 17
