"""Stores written by RocketMQ are opened and served: the official client receives every message, field by field.

Apache's broker must pass the same test, which confirms the expectations. Work pending in `kinds` (delays that end one
day, half messages without a decision) is not tested here. Queues that may grow because of it are compared only as far
as the golden data goes. Pending messages are read directly from the queues of the system topics.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.protocol import fastjson
from headrace.protocol.record import decode_records
from support import golden
from support.appliance import Appliance
from support.client import Client, Message
from support.java import Java
from support.reference import Reference, disposable
from support.servers import wait_until

SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}
KEPT = {"fileReservedTime": "1000000"}
"""The stores grow old. At four in the morning, or on a disk that is rather full, a broker deletes files that are older than this (in hours)."""
GROWING = {"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
"""Where a broker goes on with what was left to do; and the topics that this comes from or goes to."""
GROWING |= {"Delayed", "Paid", "TRANS_CHECK_MAX_TIME_TOPIC"}
PREPARED_OR_ROLLED_BACK = (4, 12)
QUERY_MESSAGE = 12
VIEW_MESSAGE_BY_ID = 33
GET_ROUTEINFO_BY_TOPIC = 105

Record = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """A golden store, and a server that has opened a copy of it."""

    name: str
    client: Client
    records: list[Record]
    log: bytes
    offsets: dict[tuple[str, int], tuple[int, int]]
    consumer_offsets: dict[str, dict[int, int]]
    topics: list[str]

    def queued(self, topic: str) -> list[Record]:
        """The records in a topic's queues, by queue."""
        found = [
            record
            for record in self.records
            if record["topic"] == topic and record["sysFlag"] & 12 not in PREPARED_OR_ROLLED_BACK
        ]
        return sorted(found, key=lambda record: (record["queueId"], record["queueOffset"]))


@pytest.fixture(scope="module", params=[f"{store}-{server}" for store in ("plain", "kinds") for server in SERVERS])
def served(request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    name, _, kind = request.param.partition("-")
    data = tmp_path_factory.mktemp(request.param) / "data"
    unpacked = golden.unpack(name, data)
    log = b"".join(path.read_bytes() for path in sorted((unpacked / "commitlog").iterdir()))
    unpacked.rename(data / "store")
    head, *lines = golden.expected(name)
    consumed = fastjson.loads((data / "store/config/consumerOffset.json").read_bytes())
    said = [line for line in golden.recovered(name) if line["kind"] == "offsets"]
    settings = {key: str(value) for key, value in head["settings"].items()} | KEPT
    with disposable(SERVERS[kind](data, settings=settings)) as server:
        client = Client(java, server)
        route: dict[str, Any] = {
            "address": server.name_server,
            "code": GET_ROUTEINFO_BY_TOPIC,
            "ext": {"topic": said[0]["topic"]},
        }
        wait_until(lambda: java.call("raw", **route)["code"] == 0, 60, "the broker known to the name server")
        yield Served(
            name,
            client,
            [line for line in lines if line["kind"] == "record"],
            log,
            {(line["topic"], line["queueId"]): (line["min"], line["max"]) for line in said},
            consumed["offsetTable"],
            # The op topic has no topic configuration, so no client can pull from it.
            sorted({line["topic"] for line in said} - {"RMQ_SYS_TRANS_OP_HALF_TOPIC"}),
        )


def body_of(record: Record) -> tuple[int, str]:
    """Length and digest of the body as sent."""
    if "plainBodyLength" in record:
        return record["plainBodyLength"], record["plainBodySha256"]
    if "bodySha256" in record:
        return record["bodyLength"], record["bodySha256"]
    body = base64.b64decode(record["body"])
    return len(body), hashlib.sha256(body).hexdigest()


SAME = {
    "topic": "topic", "queueId": "queueId", "queueOffset": "queueOffset", "flag": "flag", "sysFlag": "sysFlag",
    "bodyCrc": "bodyCRC", "bornTimestamp": "bornTimestamp", "bornHost": "bornHost", "storeTimestamp": "storeTimestamp",
    "storeHost": "storeHost", "reconsumeTimes": "reconsumeTimes", "physicalOffset": "offset", "storeSize": "size",
    "preparedTransactionOffset": "preparedTransactionOffset",
}  # fmt: skip


def assert_same(message: Message, record: Record) -> None:
    """Checks that a message received by the client equals the record that RocketMQ's classes read in the store."""
    ours = {theirs: message[ours] for ours, theirs in SAME.items()}
    assert ours == {field: record[field] for field in SAME.values()}
    assert (message["bodyLength"], message["bodySha256"]) == body_of(record)
    added = {name for name in ("MIN_OFFSET", "MAX_OFFSET") if name not in record["properties"]}
    assert {key: value for key, value in message["properties"].items() if key not in added} == record["properties"]


def test_every_message_of_every_queue_is_served(served: Served) -> None:
    for topic in served.topics:
        records = served.queued(topic)
        ends = {queue: high for (name, queue), (_, high) in served.offsets.items() if name == topic}
        messages = [
            message for message in served.client.dump(topic) if message["queueOffset"] < ends.get(message["queueId"], 0)
        ]
        assert len(messages) == len(records)
        for message, record in zip(messages, records, strict=True):
            assert_same(message, record)
    listed = {(record["topic"], record["queueId"]) for topic in served.topics for record in served.queued(topic)}
    assert listed == {queue for queue, (_, high) in served.offsets.items() if high and queue[0] in served.topics}


def test_queue_bounds_equal_rocketmqs(served: Served) -> None:
    for topic in served.topics:
        ends = {
            int(queue): (end["min"], end["max"]) for queue, end in served.client.call("offsets", topic=topic).items()
        }
        for (name, queue), (low, high) in served.offsets.items():
            if name == topic and topic in GROWING:
                assert ends[queue][0] == low
                assert ends[queue][1] >= high
            elif name == topic:
                assert ends[queue] == (low, high)


def test_group_offsets_equal_those_in_the_store(served: Served) -> None:
    if served.name == "plain":
        assert not served.consumer_offsets
        return
    assert len(served.consumer_offsets) > 10
    for key, offsets in served.consumer_offsets.items():
        topic, _, group = key.rpartition("@")
        if topic in served.topics and topic not in GROWING:
            consumed = served.client.call("consumed", topic=topic, group=group)
            assert {int(queue): offset for queue, offset in consumed.items() if offset >= 0} == offsets


def test_messages_are_found_by_key(served: Served) -> None:
    by_key: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for topic in set(served.topics) - GROWING:
        for record in served.queued(topic):
            for key in record["properties"].get("KEYS", "").split(" "):
                if key:
                    by_key[topic, key].append(record)
    asked = sorted(by_key)[:: max(1, len(by_key) // 60)]
    assert len(asked) >= 20
    for topic, key in asked:
        records = {record["offset"]: record for record in by_key[topic, key]}
        found = served.client.call("query-key", topic=topic, key=key, max=64, count=min(64, len(records)))
        assert {message["physicalOffset"] for message in found} == records.keys() or len(found) == 64
        for message in found:
            assert_same(message, records[message["physicalOffset"]])


def test_messages_are_found_by_unique_id(served: Served) -> None:
    """The client assumes that an id is of this or last month, so an old store is queried directly."""
    java, server, topics = served.client.java, served.client.server, set(served.topics) - GROWING
    with_id = [record for record in served.records if record["topic"] in topics and "UNIQ_KEY" in record["properties"]]
    for record in with_id[:: max(1, len(with_id) // 40)]:
        ext = {
            "topic": record["topic"], "key": record["properties"]["UNIQ_KEY"], "maxNum": "32", "beginTimestamp": "0",
            "endTimestamp": str((1 << 63) - 1), "_UNIQUE_KEY_QUERY": "true",
        }  # fmt: skip
        answer = java.call("raw", address=server.broker, code=QUERY_MESSAGE, ext=ext)
        assert answer["code"] == 0, answer
        # A message that was sent back has the id of the original and another offset.
        copies = {
            one["offset"]: served.log[one["offset"] : one["offset"] + one["size"]]
            for one in with_id
            if one["topic"] == record["topic"] and one["properties"]["UNIQ_KEY"] == record["properties"]["UNIQ_KEY"]
        }
        found = base64.b64decode(answer["body"])
        assert {one.physical_offset for one in decode_records(found)} == copies.keys()
        assert len(found) == sum(map(len, copies.values()))
        assert all(data in found for data in copies.values())


def test_every_record_is_found_by_its_log_offset(served: Served) -> None:
    """Including half, op and pending messages. Ids name the original broker, so its successor is queried directly."""
    java, server = served.client.java, served.client.server
    for record in served.records:
        answer = java.call("raw", address=server.broker, code=VIEW_MESSAGE_BY_ID, ext={"offset": str(record["offset"])})
        assert answer["code"] == 0, answer
        assert base64.b64decode(answer["body"]) == served.log[record["offset"] : record["offset"] + record["size"]]
