"""Settings of groups, topics and the broker, and their effect on clients.

Permissions, queues, offsets, the first offset of a group, namespaces, traces.
"""

import base64
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from support.client import Client, assert_exactly
from support.java import JavaError
from support.quick_servers import SERVERS, quick_server
from support.reference import disposable
from support.sdk import await_registered
from support.servers import Server, wait_until

PATIENCE_S = 60
SETTINGS = {
    "traceTopicEnable": "true",
    "slaveReadEnable": "true",
    # Every message counts as not held in memory: every consumer is slow, and every queue old.
    "accessMessageInMemoryMaxRatio": "0",
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with disposable(quick_server(request.param, tmp_path_factory.mktemp(request.param) / "data", **SETTINGS)) as server:
        await_registered(server.name_server)
        yield server


def ask(client: Client, code: int, ext: dict[str, Any] | None = None, body: bytes | None = None) -> dict[str, Any]:
    """Sends a raw request to the broker."""
    answer: dict[str, Any] = client.call(
        "raw",
        address=client.server.broker,
        code=code,
        ext=None if ext is None else {key: str(value) for key, value in ext.items()},
        body=None if body is None else base64.b64encode(body).decode(),
    )
    return answer


def set_group(client: Client, group: str, **settings: Any) -> None:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200); omitted fields have the defaults of an auto-created group."""
    body = {"groupName": group, "consumeEnable": True, "consumeBroadcastEnable": True, **settings}
    assert ask(client, 200, body=json.dumps(body).encode())["code"] == 0


def set_topic(client: Client, topic: str, read: int, write: int, perm: int = 6, *, order: bool = False) -> None:
    """UPDATE_AND_CREATE_TOPIC (17); returns when the name server knows the topic."""
    ext = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": read, "writeQueueNums": write, "perm": perm,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": str(order).lower(),
    }  # fmt: skip
    assert ask(client, 17, ext)["code"] == 0
    wait_until(lambda: queues(client, topic) == (read, write, perm), PATIENCE_S, f"the route of {topic}")


def route(client: Client, topic: str) -> dict[str, Any]:
    """The route of a topic from the name server; empty if there is none."""
    answer = client.call(
        "raw", address=client.server.name_server, code=105, ext={"topic": topic, "acceptStandardJsonOnly": "true"}
    )
    found: dict[str, Any] = json.loads(base64.b64decode(answer["body"])) if answer["code"] == 0 else {}
    return found


def queues(client: Client, topic: str) -> tuple[int, int, int] | None:
    """Read queues, write queues and permission in the name server's route."""
    found = route(client, topic).get("queueDatas")
    return (found[0]["readQueueNums"], found[0]["writeQueueNums"], found[0]["perm"]) if found else None


def set_broker(client: Client, **settings: Any) -> None:
    """UPDATE_BROKER_CONFIG (25)."""
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    assert ask(client, 25, body=text.encode())["code"] == 0


def pull(client: Client, group: str, topic: str, queue: int = 0, offset: int = 0, sys_flag: int = 4) -> dict[str, Any]:
    """PULL_MESSAGE (11) by a possibly unknown consumer, by default with a subscription."""
    return ask(
        client,
        11,
        {
            "consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": sys_flag,
            "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
        },
    )  # fmt: skip


def send(client: Client, topic: str, queue: int = 0) -> int:
    """SEND_MESSAGE_V2 (310) with one message; returns the response code."""
    ext = {
        "a": "raw-producers", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1_700_000_000_000, "h": 0, "i": "", "m": "false",
    }  # fmt: skip
    return int(ask(client, 310, ext, b"by hand")["code"])


def offset_of(client: Client, group: str, topic: str, queue: int = 0) -> int | None:
    """QUERY_CONSUMER_OFFSET (14); None if the broker has no offset."""
    answer = ask(client, 14, {"consumerGroup": group, "topic": topic, "queueId": queue})
    assert answer["code"] in (0, 22)
    return int(answer["ext"]["offset"]) if answer["code"] == 0 else None


# -- groups ---------------------------------------------------------------------------------------------------------------------


def test_pull_is_refused_when_the_group_may_not_consume(client: Client) -> None:
    client.create_topic("Closed", 1)
    client.send("Closed", 1)
    client.await_pullable("Closed", 1)
    set_group(client, "closed-group", consumeEnable=False)
    answer = pull(client, "closed-group", "Closed")
    assert (answer["code"], bool(answer["remark"])) == (16, True)
    set_group(client, "closed-group", consumeEnable=True)
    assert pull(client, "closed-group", "Closed")["code"] == 0


def test_pull_is_refused_when_the_group_may_not_broadcast(client: Client) -> None:
    client.create_topic("Silent", 1)
    client.send("Silent", 1)
    set_group(client, "silent-group", consumeBroadcastEnable=False)
    client.consume("silent", "Silent", kind="broadcast", group="silent-group")
    # A pull without a subscription uses that of the heartbeat.
    wait_until(lambda: pull(client, "silent-group", "Silent", sys_flag=0)["code"] == 16, PATIENCE_S, "a refusal")
    assert client.received("silent") == []
    client.stop("silent")


def test_group_setting_suggests_the_broker_to_pull_from(client: Client) -> None:
    client.create_topic("Slow", 1)
    client.send("Slow", 40, mode="batch", batch=40)
    client.await_pullable("Slow", 40)
    set_group(client, "slow-group", brokerId=3, whichBrokerWhenConsumeSlowly=7)
    assert pull(client, "slow-group", "Slow")["ext"]["suggestWhichBrokerId"] == "7"
    # A consumer at the end of the log is not slow.
    assert pull(client, "slow-group", "Slow", offset=40)["ext"]["suggestWhichBrokerId"] == "3"


class Member:
    """A consumer that only sends heartbeats and receives notifications."""

    def __init__(self, client: Client, name: str, *groups: str) -> None:
        host, port = client.server.broker.split(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._decoder = FrameDecoder()
        self.told: list[str] = []
        subscription = SubscriptionData("Notified")
        said = HeartbeatData(name, [], [ConsumerData(group, subscription_data_set=[subscription]) for group in groups])
        self.request = create_request(RequestCode.HEART_BEAT, {}, said.encode())
        self._socket.sendall(self.request.encode())
        while not any(one.opaque == self.request.opaque and one.is_response for one in self._listen()):
            pass

    def _listen(self) -> list[RemotingCommand]:
        data = self._socket.recv(65_536)
        assert data, "closed by the broker"
        commands = list(self._decoder.feed(data))
        self.told += [
            (one.ext_fields or {})["consumerGroup"]
            for one in commands
            if not one.is_response and one.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        ]
        return commands

    def await_told(self, group: str) -> None:
        """Waits for the notification that a group has changed."""
        while group not in self.told:
            self._listen()

    def close(self) -> None:
        self._socket.close()


def test_members_are_notified_of_changes_unless_their_group_disables_it(client: Client) -> None:
    set_group(client, "told-not", notifyConsumerIdsChangedEnable=False)
    set_group(client, "told", notifyConsumerIdsChangedEnable=True)
    first = Member(client, "first", "told-not", "told")
    first.told.clear()
    others = [Member(client, "second", "told-not"), Member(client, "third", "told")]
    first.await_told("told")
    assert "told-not" not in first.told
    for member in (first, *others):
        member.close()


def test_group_sets_the_number_of_retries_and_of_retry_queues(client: Client) -> None:
    client.create_topic("Tried", 1)
    sent = client.send("Tried", 4)
    client.await_pullable("Tried", 4)
    offsets = [int(one["offsetMsgId"][-16:], 16) for one in sent]
    set_group(client, "tried-group", retryQueueNums=3, retryMaxTimes=1)
    back = {"group": "tried-group", "delayLevel": 1, "originTopic": "Tried", "originMsgId": "x", "unitMode": "false"}
    # Older clients do not send the maximum number of retries; the value of newer ones takes precedence.
    assert ask(client, 36, back | {"offset": offsets[0]})["code"] == 0
    assert ask(client, 36, back | {"offset": offsets[1], "maxReconsumeTimes": 0})["code"] == 0
    assert ask(client, 36, back | {"offset": offsets[2], "delayLevel": -1})["code"] == 0
    wait_until(lambda: queues(client, "%RETRY%tried-group") == (3, 3, 6), PATIENCE_S, "the route of the retry topic")
    wait_until(lambda: queues(client, "%DLQ%tried-group") == (1, 1, 6), PATIENCE_S, "the route of the dead letters")
    client.await_pullable("%RETRY%tried-group", 1, PATIENCE_S)
    [again] = client.dump("%RETRY%tried-group")
    assert (again["msgId"], again["reconsumeTimes"]) == (sent[0]["msgId"], 1)
    client.await_pullable("%DLQ%tried-group", 2, PATIENCE_S)
    # Tried once, which is the group's maximum.
    assert ask(client, 36, back | {"offset": again["physicalOffset"]})["code"] == 0
    client.await_pullable("%DLQ%tried-group", 3, PATIENCE_S)
    dead = [one["msgId"] for one in client.dump("%DLQ%tried-group")]
    assert dead == [sent[1]["msgId"], sent[2]["msgId"], sent[0]["msgId"]]


# -- offsets --------------------------------------------------------------------------------------------------------------------


def test_group_offsets_can_be_cloned(client: Client) -> None:
    client.create_topic("Cloned", 2)
    client.send("Cloned", 10)
    client.consume("original", "Cloned", group="original-group")
    client.receive("original", 10)
    client.await_committed("Cloned", "original-group", 10, "original")
    client.stop("original")
    ext = {"srcGroup": "original-group", "destGroup": "clone-group", "topic": "Cloned", "offline": "true"}
    assert ask(client, 314, ext)["code"] == 0
    assert client.call("consumed", group="clone-group", topic="Cloned") == {"0": 5, "1": 5}


def test_offsets_of_an_offline_group_are_reset_by_time(client: Client) -> None:
    client.create_topic("Reset", 2)
    client.send("Reset", 10)
    client.consume("resetting", "Reset", group="reset-group")
    client.receive("resetting", 10)
    client.await_committed("Reset", "reset-group", 10, "resetting")
    client.stop("resetting")
    first_end = max(one["storeTimestamp"] for one in client.dump("Reset"))
    wait_until(lambda: time.time() * 1000 > first_end + 1000, PATIENCE_S, "another second")
    client.send("Reset", 4, first=10)
    client.await_pullable("Reset", 14)
    stored = [[one["storeTimestamp"] for one in client.dump("Reset") if one["queueId"] == queue] for queue in (0, 1)]
    later = min(moment for times in stored for moment in times if moment > first_end)
    # A time between messages maps to the nearest one: the first of these in its queue, unless storing them took a
    # second.
    nearest = [min(range(7), key=lambda offset: abs(times[offset] - later)) for times in stored]
    assert 5 in nearest
    client.call("reset-offline", topic="Reset", group="reset-group", timestamp=0, force=True)
    assert client.call("consumed", group="reset-group", topic="Reset") == {"0": 0, "1": 0}
    client.call("reset-offline", topic="Reset", group="reset-group", timestamp=later, force=True)
    assert client.call("consumed", group="reset-group", topic="Reset") == {"0": nearest[0], "1": nearest[1]}


@pytest.mark.parametrize(("where", "given"), [("first", 8), ("last", 2), ("between", 5)])
def test_new_group_begins_where_it_requests(client: Client, where: str, given: int) -> None:
    topic = f"From-{where}"
    client.create_topic(topic, 1)
    client.send(topic, 3)
    client.await_pullable(topic, 3)
    first_end = max(one["storeTimestamp"] for one in client.dump(topic))
    if where == "between":
        # A time between messages maps to the nearer one; here times are whole seconds.
        wait_until(lambda: time.time() * 1000 > first_end + 2100, PATIENCE_S, "two more seconds")
    client.send(topic, 3, first=3)
    client.await_pullable(topic, 6)
    begin = min(one["storeTimestamp"] for one in client.dump(topic)[3:]) // 1000
    moment = time.strftime("%Y%m%d%H%M%S", time.localtime(begin))
    client.consume(topic, topic, **{"from": moment if where == "between" else where})
    client.await_assigned(topic, 1, PATIENCE_S)
    # The first pull determines where the group begins; it receives everything sent from now on anyway.
    wait_until(lambda: pulls(client, f"{topic}-group"), PATIENCE_S, "its first pull")
    client.send(topic, 2, first=6)
    numbers = [int(one["properties"]["number"]) for one in client.receive(topic, given, PATIENCE_S)]
    client.stop(topic)
    assert sorted(numbers) == list(range(8))[-given:]


def pulls(client: Client, group: str) -> bool:
    """Whether the only member of a group has begun to pull."""
    try:
        [client_id] = client.call("client-ids", group=group)
        info = client.call("running-info", group=group, clientId=client_id)
    except (JavaError, ValueError):  # it is not registered yet
        return False
    return any(one["lastPullTimestamp"] > 0 for one in info["pulls"])


# -- topics and the broker ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "write"), [(2, 4), (3, 1)])
def test_topic_may_have_different_numbers_of_read_and_write_queues(client: Client, read: int, write: int) -> None:
    topic, consumer = f"Uneven-{read}-{write}", f"uneven-{read}-{write}"
    set_topic(client, topic, read, write)
    sent = client.send(topic, 12)
    assert {one["queueId"] for one in sent} == set(range(write))
    client.consume(consumer, topic)
    client.await_assigned(consumer, read, PATIENCE_S)
    readable = [one for one in sent if one["queueId"] < read]
    assert_exactly(client.receive(consumer, len(readable), PATIENCE_S), readable)
    client.stop(consumer)
    assert send(client, topic, max(read, write)) == 1
    assert pull(client, "uneven-raw", topic, max(read, write))["code"] == 1


def test_topic_permissions_for_reading_and_writing(client: Client) -> None:
    set_topic(client, "Kept", 1, 1)
    client.send("Kept", 2)
    client.await_pullable("Kept", 2)
    set_topic(client, "Kept", 1, 1, perm=4)
    # Producers find no queue to send to, but the broker itself accepts messages.
    with pytest.raises(JavaError, match="No route info"):
        client.send("Kept", 1, group="kept-producers")
    assert (send(client, "Kept"), pull(client, "kept-raw", "Kept")["code"]) == (0, 0)
    set_topic(client, "Kept", 1, 1, perm=2)
    assert (send(client, "Kept"), pull(client, "kept-raw", "Kept")["code"]) == (0, 16)
    client.send("Kept", 1, group="kept-producers")


def put_in_order(client: Client, topic: str) -> None:
    """Makes the first two queues of a topic ordered; returns when the broker knows."""
    set_topic(client, topic, 4, 4, order=True)
    [broker] = [one["brokerName"] for one in route(client, topic)["queueDatas"]]
    names = client.server.name_server
    allowed = base64.b64encode(b"orderMessageEnable=true\n").decode()
    assert client.call("raw", address=names, code=318, body=allowed)["code"] == 0
    ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": f"{broker}:2"}
    assert client.call("raw", address=names, code=100, ext=ext)["code"] == 0
    assert route(client, topic)["orderTopicConf"] == f"{broker}:2"

    # The broker learns it at its next registration, which every new topic triggers.
    def knows() -> bool:
        client.create_topic("AnotherTopic", 1)
        return bool(json.loads(base64.b64decode(ask(client, 21)["body"]))["topicConfigTable"][topic]["order"])

    wait_until(knows, PATIENCE_S, "the broker knows of the order")


def test_ordered_topic_has_the_queues_configured_at_the_name_server(client: Client) -> None:
    put_in_order(client, "InOrder")
    sent = client.send("InOrder", 8, group="in-order-producers")
    assert {one["queueId"] for one in sent} == {0, 1}


def test_broker_permissions_for_reading_and_writing(client: Client) -> None:
    put_in_order(client, "Ordered")
    client.create_topic("Anything", 1)
    client.send("Anything", 1)
    client.await_pullable("Anything", 1)
    try:
        set_broker(client, brokerPermission=4)
        # Name servers are informed, so that producers use other brokers; only sends to ordered topics are refused.
        wait_until(lambda: queues(client, "Anything") == (1, 1, 4), PATIENCE_S, "a route that may be read only")
        assert (send(client, "Ordered"), send(client, "Anything")) == (16, 0)
        assert pull(client, "any-raw", "Anything")["code"] == 0
        set_broker(client, brokerPermission=2)
        assert (send(client, "Ordered"), pull(client, "any-raw", "Anything")["code"]) == (0, 16)
    finally:
        set_broker(client, brokerPermission=6)
    wait_until(lambda: queues(client, "Anything") == (1, 1, 6), PATIENCE_S, "the former route")


# -- look-ups -------------------------------------------------------------------------------------------------------------------


def test_key_query_respects_maximum_count_and_time_range(client: Client) -> None:
    client.create_topic("Looked", 1)
    sent = client.call("send-with", topic="Looked", first=0, count=6, set={"KEYS": "same"})
    client.await_pullable("Looked", 6)
    stored = {one["msgId"]: one["storeTimestamp"] for one in client.dump("Looked")}
    found = client.call("query-key", topic="Looked", key="same", max=6, count=6)
    assert {one["msgId"] for one in found} == {one["msgId"] for one in sent}
    for most in (1, 4):
        some = client.call("query-key", topic="Looked", key="same", max=most, count=most)
        # The newest ones.
        assert sorted(one["queueOffset"] for one in some) == list(range(6))[-most:]
    begin, end = min(stored.values()), max(stored.values())
    assert len(client.call("query-key", topic="Looked", key="same", max=32, begin=begin - 2000, end=end + 2000)) == 6
    for times in ({"begin": begin - 9000, "end": begin - 5000}, {"begin": end + 5000, "end": end + 9000}):
        with pytest.raises(JavaError, match="no message"):
            client.call("query-key", topic="Looked", key="same", max=32, deadlineMs=0, **times)


# -- namespaces and traces ------------------------------------------------------------------------------------------------------


def test_namespace_is_a_prefix_hidden_from_its_members(client: Client) -> None:
    client.create_topic("north%Named", 2)
    client.create_topic("Named", 2)
    sent = client.send("Named", 6, namespace="north")
    client.await_pullable("north%Named", 6)
    client.consume("in-the-north", "Named", group="named", namespace="north")
    inside = client.receive("in-the-north", 6, PATIENCE_S)
    client.consume("elsewhere", "north%Named", group="named")
    outside = client.receive("elsewhere", 6, PATIENCE_S)
    assert {one["topic"] for one in inside} == {"Named"}
    assert {one["topic"] for one in outside} == {"north%Named"}
    assert {one["msgId"] for one in inside} == {one["msgId"] for one in outside} == {one["msgId"] for one in sent}
    assert [client.call("client-ids", group=group) != [] for group in ("north%named", "named")] == [True, True]
    assert client.dump("Named") == []
    client.stop("in-the-north", "elsewhere")


@pytest.mark.parametrize("topic", ["", "MyTraces"])
def test_client_trace_messages_are_stored(client: Client, topic: str) -> None:
    traces = topic or "RMQ_SYS_TRACE_TOPIC"
    name = f"traced-{traces}"
    if topic:
        client.create_topic(topic, 1)
    client.create_topic(name, 1)
    sent = client.send(name, 3, group=name, trace=topic)
    client.consume(name, name, group=name, trace=topic)
    client.receive(name, 3, PATIENCE_S)
    ids = {one["msgId"] for one in sent}

    def traced() -> bool:
        keys = [set((one["keys"] or "").split()) for one in client.dump(traces)]
        return all(
            sum(message_id in one for one in keys) >= 2 for message_id in ids
        )  # by client that sent or received it

    wait_until(traced, PATIENCE_S, f"traces of {len(ids)} messages in {traces}")
    client.stop(name)


def test_changed_memory_ratio_decides_which_messages_are_far_behind(client: Client) -> None:
    topic = "RatioNow"
    client.create_topic(topic, 1)
    client.send(topic, 1)
    client.await_pullable(topic, 1)

    def begins_at_the_first() -> bool:
        answer = ask(client, 14, {"consumerGroup": "ratio-now", "topic": topic, "queueId": "0"})
        assert answer["code"] in {0, 22}
        return bool(answer["code"] == 0)

    assert not begins_at_the_first()
    ask(client, 25, None, b"accessMessageInMemoryMaxRatio=40")
    assert begins_at_the_first()
    ask(client, 25, None, b"accessMessageInMemoryMaxRatio=0")
    assert not begins_at_the_first()
