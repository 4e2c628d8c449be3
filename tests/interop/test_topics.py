"""Topics: made by the first message, made and deleted by an administrator."""

import pytest

from support.client import Client, assert_exactly
from support.java import JavaError
from support.servers import wait_until


def test_the_first_message_makes_its_topic(client: Client) -> None:
    sent = client.send("MadeByItself", 8)
    assert {message["queueId"] for message in sent} == {0, 1, 2, 3}
    # The broker tells the name server of it one-way. A consumer that asks too early asks again after half a minute, and then
    # shares out the queues at its next look, up to 20 s later.
    client.await_route("MadeByItself")
    client.consume("made", "MadeByItself")
    assert_exactly(client.receive("made", 8), sent)
    client.stop("made")


def test_a_deleted_topic_is_gone_and_one_of_the_same_name_starts_anew(client: Client) -> None:
    client.create_topic("Deleted", 1)
    client.send("Deleted", 10)
    client.await_pullable("Deleted", 10)

    def is_gone() -> bool:
        # A registration that was under way brings it back to the name server, which forgets no topic by itself.
        client.call("delete-topic", topic="Deleted")
        answer = client.call("raw", address=client.server.name_server, code=105, ext={"topic": "Deleted"})
        return bool(answer["code"] == 17)

    wait_until(is_gone, 60, "a name server that does not know the topic")
    client.create_topic("Deleted", 1)
    sent = client.send("Deleted", 3, first=10)
    assert [message["properties"]["number"] for message in sent] == ["10", "11", "12"]
    client.await_pullable("Deleted", 3)
    assert_exactly(client.dump("Deleted"), sent)


def test_a_name_that_is_not_allowed_is_refused_by_the_broker(client: Client) -> None:
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


def test_a_topic_without_template_is_not_made(client: Client) -> None:
    with pytest.raises(JavaError):
        client.call("view", topic="NobodyMadeThis", msgId="0" * 32, deadlineMs=0)
    answer = client.call("raw", address=client.server.name_server, code=105, ext={"topic": "NobodyMadeThis"})
    assert answer["code"] == 17
