"""Messages that a consumer fails to process: retried after growing delays, and finally dead letters."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Message, comparable
from support.quick_servers import SERVERS, create_group, quick_server
from support.reference import disposable
from support.servers import Server

ADDED = {"DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES"}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with disposable(quick_server(request.param, tmp_path_factory.mktemp(request.param) / "data")) as server:
        yield server


def bare(message: Message) -> Message:
    """What all copies of a message have in common. (The client of a retried one reports its real topic.)"""
    said = comparable(message)
    said["properties"] = {name: value for name, value in said["properties"].items() if name not in ADDED}
    return said


def attempts(client: Client, consumer: str, count: int, deadline_s: float = 60) -> dict[str, list[dict[str, Any]]]:
    """Waits for this many attempts; returns them by message, in order."""
    made = client.call("await-attempts", consumer=consumer, count=count, deadlineMs=int(deadline_s * 1000))
    assert len(made) == count, [(one["msgId"], one["reconsumeTimes"]) for one in made]
    found = defaultdict(list)
    for one in made:
        found[one["msgId"]].append(one)
    return found


def test_each_retry_uses_the_next_delay_level(client: Client) -> None:
    topic, group = "Retries", "retries-group"
    client.create_topic(topic, 2)
    create_group(client, group, topic)
    client.call("attempt", consumer="retries", group=group, topic=topic, failures=3)
    sent = {one["msgId"]: one for one in client.send(topic, 4)}
    made = attempts(client, "retries", 16)
    assert made.keys() == sent.keys()
    for message_id, tries in made.items():
        original = sent[message_id]
        assert [one["reconsumeTimes"] for one in tries] == [0, 1, 2, 3]
        for one in tries:
            assert bare(one) == bare(original)
            assert one["bornTimestamp"] == tries[0]["bornTimestamp"]
            assert one["bornHost"] == tries[0]["bornHost"]
            assert one["storeHost"] == tries[0]["storeHost"]
        for number, one in enumerate(tries[1:]):
            said = one["properties"]
            assert said["DELAY"] == str(3 + number)
            assert said["REAL_TOPIC"] == "%RETRY%" + group
            assert said["REAL_QID"] == "0"
            assert said["RETRY_TOPIC"] == topic
            assert said["WAIT"] == "false"
            assert said["ORIGIN_MESSAGE_ID"] == original["offsetMsgId"]
        # Levels 3 and 4 last 1 s here, level 5 two.
        for earlier, later, pause_ms in zip(tries, tries[1:], (1000, 1000, 2000), strict=False):
            assert later["storeTimestamp"] - earlier["storeTimestamp"] >= pause_ms
    client.call("stop-attempts", consumer="retries")


@pytest.mark.parametrize(
    ("name", "settings", "reconsumed", "tries"),
    [
        ("max-one", {"max": 1, "failures": 99}, 2, 2),
        ("at-once", {"level": -1, "failures": 99}, 1, 1),
    ],
)
def test_messages_become_dead_letters_after_the_last_retry(
    client: Client, name: str, settings: dict[str, int], reconsumed: int, tries: int
) -> None:
    topic, group = f"Dead-{name}", f"dead-{name}"
    client.create_topic(topic, 1)
    create_group(client, group, topic)
    client.call("attempt", consumer=group, group=group, topic=topic, **settings)
    sent = client.send(topic, 3)
    attempts(client, group, 3 * tries)
    dead_topic = "%DLQ%" + group
    client.create_topic(dead_topic, 1)  # it exists already; this makes the name server know it at once
    client.await_pullable(dead_topic, 3, 60)
    client.call("stop-attempts", consumer=group)
    dead = client.dump(dead_topic)
    by_id = {one["msgId"]: one for one in sent}
    assert by_id.keys() == {one["msgId"] for one in dead}
    for letter in dead:
        original = by_id[letter["msgId"]]
        assert letter["reconsumeTimes"] == reconsumed
        assert {**bare(letter), "topic": topic} == bare(original)
        said = letter["properties"]
        assert (said["DELAY"], said["RETRY_TOPIC"], said["WAIT"]) == ("0", topic, "false")
        assert said["ORIGIN_MESSAGE_ID"] == original["offsetMsgId"]
        assert ("REAL_TOPIC" in said) == (tries > 1)


def test_orderly_consumer_stops_retrying_at_its_limit(client: Client) -> None:
    topic, group = "RetryOrderly", "retry-orderly"
    client.create_topic(topic, 1)
    client.call("attempt", consumer=group, group=group, topic=topic, kind="orderly", failures=99, max=2)
    sent = client.send(topic, 2)
    dead_topic = "%DLQ%" + group
    client.create_topic(dead_topic, 1)
    client.await_pullable(dead_topic, 2, 60)
    made = client.call("attempts", consumer=group)
    client.call("stop-attempts", consumer=group)
    # Ordered: the second is not tried before the first has reached its limit.
    assert [one["msgId"] for one in made] == [one["msgId"] for one in sent for _ in range(3)]
    dead = client.dump(dead_topic)
    for letter, original in zip(dead, sent, strict=True):
        assert letter["keys"] == original["keys"]
        assert letter["bodySha256"] == original["bodySha256"]
        assert letter["properties"]["RETRY_TOPIC"] == topic
        assert letter["properties"]["ORIGIN_MESSAGE_ID"] == original["msgId"]
        assert letter["reconsumeTimes"] == 2


@pytest.mark.parametrize(
    ("ext", "code"),
    [
        ({"group": "back-group", "offset": "1", "delayLevel": "0"}, 1),
        ({"group": "back-group", "offset": "99999999999", "delayLevel": "0"}, 1),
        ({"group": "back-group", "delayLevel": "0"}, 1),
        ({"group": "back-group", "offset": "x", "delayLevel": "0"}, 1),
    ],
)
def test_invalid_send_back_is_refused(client: Client, ext: dict[str, str], code: int) -> None:
    answer = client.call("raw", address=client.server.broker, code=36, ext=ext)
    assert answer["code"] == code
    assert answer["remark"]


def test_send_back_response_has_no_fields(client: Client) -> None:
    topic = "BackRaw"
    client.create_topic(topic, 1)
    [sent] = client.send(topic, 1)
    ext = {"group": "back-raw", "offset": str(int(sent["offsetMsgId"][-16:], 16)), "delayLevel": "17"}
    answer = client.call("raw", address=client.server.broker, code=36, ext=ext)
    assert (answer["code"], answer["remark"], answer["body"]) == (0, None, None)
    assert not answer["ext"]
