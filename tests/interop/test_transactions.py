"""Transactional messages: committed ones are delivered, rolled-back ones never, undecided ones are checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.appliance import Appliance
from support.clean_stop import stopped_cleanly
from support.client import Client, Message, comparable
from support.golden import expected, unpack
from support.java import Java, JavaError
from support.quick_servers import SERVERS, quick_server
from support.reference import disposable
from support.servers import Server, wait_until

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"
ADDED = {"TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"}
COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"
TIMEOUT_MS = "3000"
"""A producer whose decision comes later is asked: so long may a busy machine take from one to the other."""


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp(request.param) / "data"
    with disposable(quick_server(request.param, data, transactionTimeOut=TIMEOUT_MS)) as server:
        yield server


UNDECIDED: dict[str, dict[str, Any]] = {
    "Asked": {"count": 3, "checked": "commit"},
    "NeverKnown": {"count": 1},
}
"""By topic: messages whose producers do not know, and what they say when they are asked."""


@pytest.fixture(scope="module")
def undecided(java: Java, server: Server) -> Iterator[dict[str, tuple[str, list[Message]]]]:
    """By topic: the producer group and the messages of UNDECIDED, sent before the first test.

    The broker takes seconds to process them, so all are processed at the same time.
    """
    client = Client(java, server)
    sent = {}
    for topic, said in UNDECIDED.items():
        client.create_topic(topic, 2)
        group = f"{topic}-{server.name}"
        sent[topic] = group, transact(client, group, topic, outcome="unknown", **said)
    yield sent
    for group, _ in sent.values():
        client.call("stop-transactions", group=group)


@pytest.fixture
def group(client: Client, undecided: object, request: pytest.FixtureRequest) -> Iterator[str]:
    """The producer group of a test at one server."""
    name = f"{request.function.__name__[:60]}-{client.server.name}"
    yield name
    client.call("stop-transactions", group=name)


def bare(message: Message) -> Message:
    said = comparable(message)
    said["properties"] = {name: value for name, value in said["properties"].items() if name not in ADDED}
    return said


def transact(client: Client, group: str, topic: str, count: int, outcome: str, **more: Any) -> list[Message]:
    sent: list[Message] = client.call("transact", group=group, topic=topic, count=count, outcome=outcome, **more)
    assert all(one["status"] == "SEND_OK" for one in sent)
    return sent


def checks(client: Client, group: str, count: int, deadline_s: float = 60) -> list[Message]:
    """Waits until the producer was checked this often."""
    made: list[Message] = []

    def there() -> bool:
        made[:] = client.call("checks", group=group)
        return len(made) >= count

    wait_until(there, deadline_s, f"{count} checks")
    return made


def first_of_each(messages: list[Message], name: str) -> list[Message]:
    """The first message per id: a producer that answers slowly is checked again, and its commit delivered again."""
    first: dict[str, Message] = {}
    for message in messages:
        first.setdefault(message[name], message)
    return list(first.values())


def discarded(client: Client) -> list[Message]:
    try:
        return client.dump(DISCARDED)
    except JavaError:
        return []  # the topic is created on demand


def test_committed_messages_are_delivered_and_rolled_back_ones_are_not(client: Client, group: str) -> None:
    topic = "Transacted"
    client.create_topic(topic, 4)
    dropped = transact(client, group, topic, 3, "rollback", first=0)
    sent = {one["msgId"]: one for one in transact(client, group, topic, 8, "commit", first=10)}
    client.await_pullable(topic, len(sent))
    received = client.dump(topic)
    assert {one["msgId"] for one in received} == sent.keys()
    for message in received:
        original = sent[message["msgId"]]
        assert bare(message) == bare(original)
        said = message["properties"]
        assert (said["TRAN_MSG"], said["PGROUP"], said["REAL_TOPIC"]) == ("true", group, topic)
        assert said["REAL_QID"] == str(message["queueId"]) == str(original["queueId"])
        assert message["sysFlag"] & 0xC == 8
        # It refers to the half message.
        half = client.call("view", msgId=message["offsetMsgId"][:-16] + f"{message['preparedTransactionOffset']:016X}")
        assert (half["topic"], half["queueId"], half["sysFlag"] & 0xC) == (HALF_TOPIC, 0, 0)
        assert half["queueOffset"] == original["queueOffset"]
        assert half["properties"] == {
            name: value for name, value in said.items() if name not in {"MIN_OFFSET", "MAX_OFFSET"}
        }
    # A round of checks later none of these was checked, and nothing was added.
    [asked] = transact(client, group, topic, 1, "unknown", checked="rollback", first=50)
    assert [one["transactionId"] for one in checks(client, group, 1)] == [asked["msgId"]]
    assert len(client.dump(topic)) == len(sent)
    assert len(dropped) == 3


def test_broker_checks_undecided_transactions(client: Client, undecided: dict[str, tuple[str, list[Message]]]) -> None:
    topic = "Asked"
    group, halves = undecided[topic]
    sent = {one["msgId"]: one for one in halves}
    wait_until(lambda: len(first_of_each(client.dump(topic), "msgId")) == 3, 60, "three messages committed when asked")
    made = first_of_each(checks(client, group, 3), "transactionId")
    received = first_of_each(sorted(client.dump(topic), key=lambda one: int(one["storeTimestamp"])), "msgId")
    assert {one["msgId"] for one in received} == sent.keys() == {one["transactionId"] for one in made}
    for check in made:
        original = sent[check["transactionId"]]
        assert (check["topic"], check["queueId"]) == (topic, original["queueId"])
        assert check["bodySha256"] == original["bodySha256"]
        assert check["properties"]["TRANSACTION_CHECK_TIMES"] == "1"
        assert check["at"] - check["bornTimestamp"] >= int(TIMEOUT_MS)
        assert check["queueOffset"] > original["queueOffset"]  # it was stored again
    for message in received:
        assert message["properties"]["TRANSACTION_CHECK_TIMES"] == "1"
        assert bare(message) == {**bare(sent[message["msgId"]]), "flag": message["flag"]}
        assert message["flag"] == 0  # RocketMQ drops it at the first check


def test_immunity_time_of_a_message_is_respected(
    client: Client, group: str, undecided: dict[str, tuple[str, list[Message]]]
) -> None:
    topic = "Immune"
    client.create_topic(topic, 1)
    # A round ends at the first message that is too young to be checked, so it might not reach this one within its immunity time.
    checks(client, undecided["NeverKnown"][0], 1)
    # Each round within the immunity time counts as a check: at 6 seconds the message would be discarded, see `transactionCheckMax`.
    [sent] = transact(client, group, topic, 1, "unknown", checked="commit", set={"CHECK_IMMUNITY_TIME_IN_SECONDS": "3"})
    [check] = checks(client, group, 1)
    assert check["at"] - check["bornTimestamp"] >= 3000
    assert check["properties"]["TRAN_PREPARED_QUEUE_OFFSET"] == str(sent["queueOffset"])
    client.await_pullable(topic, 1)


def test_undecided_transaction_is_checked_up_to_the_limit_and_discarded(
    client: Client, undecided: dict[str, tuple[str, list[Message]]]
) -> None:
    topic = "NeverKnown"
    group, [sent] = undecided[topic]
    wait_until(
        lambda: any(one["msgId"] == sent["msgId"] for one in discarded(client)), 60, "the message among the discarded"
    )
    made = checks(client, group, 3)
    assert [one["properties"]["TRANSACTION_CHECK_TIMES"] for one in made] == ["1", "2", "3"]
    offsets = [one["queueOffset"] for one in made]
    assert offsets == sorted(set(offsets))
    [given_up] = [one for one in discarded(client) if one["msgId"] == sent["msgId"]]
    assert given_up["properties"]["REAL_TOPIC"] == topic
    assert given_up["properties"]["TRANSACTION_CHECK_TIMES"] == "3"
    assert given_up["queueId"] == 0
    assert client.dump(topic) == []
    # An operator requests another check.
    answer = client.call("raw", address=client.server.broker, code=323, ext={"msgId": given_up["offsetMsgId"]})
    assert answer["code"] == 0
    again = checks(client, group, 4)[3]
    assert again["transactionId"] == sent["msgId"]
    assert again["properties"]["TRANSACTION_CHECK_TIMES"] == "1"


def end(client: Client, half: Message, outcome: str, patience_ms: int = 30_000, **more: str) -> int:
    ext = {
        "producerGroup": "raw-ends", "tranStateTableOffset": str(half["queueOffset"]), "commitOrRollback": outcome,
        "commitLogOffset": str(int(half["offsetMsgId"][-16:], 16)), "msgId": half["msgId"], "fromTransactionCheck": "false",
    }  # fmt: skip
    return int(
        client.call("raw", address=client.server.broker, code=37, ext=ext | more, patienceMs=patience_ms)["code"]
    )


def test_end_transaction_for_the_wrong_message_is_refused(client: Client) -> None:
    topic = "RawEnds"
    client.create_topic(topic, 1)
    with_half = {"TRAN_MSG": "true", "PGROUP": "raw-ends"}
    half, other = client.call("send-with", topic=topic, first=0, count=2, set=with_half)
    assert end(client, half, COMMIT, producerGroup="others") == 1
    assert end(client, half, COMMIT, tranStateTableOffset=str(other["queueOffset"])) == 1
    assert end(client, half, ROLLBACK, commitLogOffset=str(int(half["offsetMsgId"][-16:], 16) + 1)) == 1
    assert end(client, half, ROLLBACK, commitLogOffset="99999999999") == 1
    with pytest.raises(JavaError, match="Timeout"):
        end(client, half, UNKNOWN, patience_ms=1000)
    assert end(client, half, COMMIT) == 0
    assert end(client, half, COMMIT) == 0  # again: it is delivered again
    assert end(client, other, ROLLBACK) == 0
    client.await_pullable(topic, 2)
    assert [one["msgId"] for one in client.dump(topic)] == [half["msgId"]] * 2


@pytest.mark.parametrize("makes", [("reference", "headrace"), ("headrace", "reference"), ("headrace", "headrace")])
def test_pending_transactions_are_checked_after_a_restart(java: Java, tmp_path: Path, makes: tuple[str, str]) -> None:
    topic, group = "Pending", f"pending-{'-'.join(makes)}"
    with stopped_cleanly(quick_server(makes[0], tmp_path / "data", transactionCheckInterval="600000")) as server:
        client = Client(java, server)
        client.create_topic(topic, 1)
        sent = transact(client, group, topic, 3, "unknown", checked="commit")
        rolled_back = transact(client, group, topic, 2, "rollback", first=10)
        committed = transact(client, group, topic, 2, "commit", first=20)
        client.await_pullable(topic, 2)
        client.call("stop-transactions", group=group)
        store = server.store
    again = tmp_path / "again"
    again.mkdir()
    store.rename(again / "store")
    # A broker checks in vain, and counts the check, before it knows the producer.
    settings = {"transactionTimeOut": TIMEOUT_MS, "transactionCheckMax": "100"}
    with disposable(quick_server(makes[1], again, **settings)) as server:
        client = Client(java, server)
        client.create_topic(topic, 1)
        others = transact(client, group, topic, 1, "commit", first=30)  # so that the broker knows the producer
        made = checks(client, group, 3)
        client.await_pullable(topic, 6)
        received = {one["msgId"] for one in client.dump(topic)}
        client.call("stop-transactions", group=group)
    assert {one["msgId"] for one in sent} == {one["transactionId"] for one in made}
    assert received == {one["msgId"] for one in sent + committed + others}
    assert received.isdisjoint({one["msgId"] for one in rolled_back})


def test_pending_transactions_of_an_apache_store_are_checked(java: Java, tmp_path: Path) -> None:
    root = unpack("kinds", tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    root.rename(data / "store")
    records = [line for line in expected("kinds") if line["kind"] == "record"]
    halves = {line["queueOffset"]: line for line in records if line["topic"] == HALF_TOPIC}
    last = max(halves)
    group = halves[last]["properties"]["PGROUP"]
    sizes = {
        "mappedFileSizeCommitLog": "262144", "maxMessageSize": "65536", "mappedFileSizeConsumeQueue": "1000",
        "maxHashSlotNum": "100", "maxIndexNum": "500", "fileReservedTime": "1000000", "transactionCheckInterval": "1000",
        "transactionTimeOut": TIMEOUT_MS, "transactionCheckMax": "100",
    }  # fmt: skip
    with Appliance(data, settings=sizes) as server:
        client = Client(java, server)
        client.create_topic("Known", 1)
        transact(client, group, "Known", 1, "commit")
        made = checks(client, group, 1)
        client.call("stop-transactions", group=group)
    assert {one["transactionId"] for one in made} <= {half["properties"]["UNIQ_KEY"] for half in halves.values()}
    assert all(one["topic"] == "Paid" for one in made)
