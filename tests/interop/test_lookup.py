"""Finding single messages by key, by unique id, by offset id and by time."""

import base64
import json

import pytest

from headrace.protocol.record import decode_records
from support.client import Client, Message, assert_exactly, comparable
from support.java import Java, JavaError
from support.servers import Server

TOPIC = "Lookup"


@pytest.fixture(scope="module")
def sent(java: Java, server: Server) -> list[Message]:
    client = Client(java, server)
    client.create_topic(TOPIC, 2)
    messages = client.send(TOPIC, 60)
    client.await_pullable(TOPIC, 60)
    client.call("query-key", topic=TOPIC, key="key-59", max=32)  # the index is complete once it has the last one
    return messages


def test_query_by_key(client: Client, sent: list[Message]) -> None:
    assert_exactly(client.call("query-key", topic=TOPIC, key="key-7", max=32), [sent[7]])


@pytest.mark.parametrize("key", ["key-13", "tens-1", "schlüssel-13"])
def test_query_by_each_of_several_keys(client: Client, sent: list[Message], key: str) -> None:
    assert_exactly(client.call("query-key", topic=TOPIC, key=key, max=32), [sent[13]])


def test_query_by_an_unknown_key(client: Client, sent: list[Message]) -> None:
    assert sent
    with pytest.raises(JavaError, match="query message by key finished, but no message"):
        client.call("query-key", topic=TOPIC, key="no-such-key", max=32, deadlineMs=0)


def test_query_by_key_respects_the_time_range(client: Client, sent: list[Message]) -> None:
    found = client.call("query-key", topic=TOPIC, key="key-7", max=32)[0]
    stored = found["storeTimestamp"]
    assert client.call("query-key", topic=TOPIC, key="key-7", max=32, begin=stored - 2000, end=stored + 2000)
    with pytest.raises(JavaError, match="no message"):
        client.call("query-key", topic=TOPIC, key="key-7", max=32, begin=stored + 60_000, deadlineMs=0)
    assert comparable(found) == comparable(sent[7])


def test_query_by_unique_id(client: Client, sent: list[Message]) -> None:
    assert_exactly([client.call("view", topic=TOPIC, msgId=sent[5]["msgId"])], [sent[5]])


def test_query_by_unique_id_without_a_topic(client: Client, sent: list[Message]) -> None:
    ext = {
        "topic": "", "key": sent[5]["msgId"], "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1),
        "_UNIQUE_KEY_QUERY": "true",
    }  # fmt: skip
    answer = client.call("raw", address=client.server.broker, code=12, ext=ext)
    # RocketMQ's servers do not support it.
    assert answer["code"] == (0 if client.server.name == "headrace" else 22)
    if answer["code"] == 0:
        [found] = decode_records(base64.b64decode(answer["body"]))
        assert (found.topic, found.properties["UNIQ_KEY"]) == (TOPIC, sent[5]["msgId"])


def test_view_by_offset_id(client: Client, sent: list[Message]) -> None:
    found = client.call("view", msgId=sent[9]["offsetMsgId"])
    assert comparable(found) == comparable(sent[9])
    assert found["storeHost"] == client.server.broker


def test_view_by_an_unknown_id_is_refused(client: Client, sent: list[Message]) -> None:
    nowhere = sent[0]["offsetMsgId"][:16] + "00000000FFFFFFFF"
    with pytest.raises(JavaError, match="can not find message"):
        client.call("view", msgId=nowhere)


def test_minimum_and_maximum_offset_of_a_queue(client: Client, sent: list[Message]) -> None:
    said = client.call("offsets", topic=TOPIC)
    assert {queue: (ends["min"], ends["max"]) for queue, ends in said.items()} == {"0": (0, 30), "1": (0, 30)}
    stored = [message["storeTimestamp"] for message in client.dump(TOPIC) if message["queueOffset"] == 0]
    assert sorted(ends["earliest"] for ends in said.values()) == sorted(stored)
    assert len(sent) == 60


def test_offset_by_time(client: Client, sent: list[Message]) -> None:
    stored = [message["storeTimestamp"] for message in client.dump(TOPIC) if message["queueId"] == 0]
    assert len(stored) == len(sent) / 2
    assert search(client, 0) == 0
    for moment in (stored[0], stored[20]):
        assert stored[search(client, moment)] == moment
    assert search(client, stored[-1] + 3_600_000) in (29, 30)


def search(client: Client, timestamp: int) -> int:
    offset: int = client.call("search-offset", topic=TOPIC, queue=0, timestamp=timestamp)
    return offset


def test_name_server_returns_the_route(client: Client, sent: list[Message]) -> None:
    assert sent
    answer = client.call(
        "raw", address=client.server.name_server, code=105, ext={"topic": TOPIC, "acceptStandardJsonOnly": "true"}
    )
    assert answer["code"] == 0
    route = json.loads(base64.b64decode(answer["body"]))
    assert [(queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) for queues in route["queueDatas"]] == [
        (2, 2, 6)
    ]
    assert [queues["brokerName"] for queues in route["queueDatas"]] == [
        broker["brokerName"] for broker in route["brokerDatas"]
    ]
    assert [broker["brokerAddrs"] for broker in route["brokerDatas"]] == [{"0": client.server.broker}]
    assert route["brokerDatas"][0]["cluster"] == "DefaultCluster"
