"""Pulls: checks, what is read, offsets committed, and waiting for messages (remoting spec 4.10, store spec 3.5, 13.5)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.model.permission import WRITE
from headrace.model.subscription import SubscriptionData
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker, pull_fields

MakeBroker = Callable[..., SmallBroker]

HOLD: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": 15000}
FROM_HEARTBEAT: dict[str, Any] = {"sysFlag": 0}


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


def bounds(answer: RemotingCommand) -> tuple[int, int, int]:
    """nextBeginOffset, minOffset, maxOffset; all four fields must be there."""
    assert set(answer.ext) == {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}
    return int(answer.ext["nextBeginOffset"]), int(answer.ext["minOffset"]), int(answer.ext["maxOffset"])


def fill(broker: SmallBroker, client: Peer, *tags: str, topic: str = "T") -> None:
    """Stores a message for each tag, its body the tag, and dispatches them."""
    for tag in tags:
        assert client.send(tag.encode(), topic, i=f"TAGS\x01{tag}" if tag else None).code == ResponseCode.SUCCESS
    broker.dispatch()


def subscribe(client: Peer, expression: str = "*", version: int = 1, topic: str = "T", **settings: Any) -> None:
    data = SubscriptionData.build(topic, expression, settings.pop("expression_type", "TAG"), version)
    heartbeat = HeartbeatData("cid", [], [ConsumerData("CG", subscription_data_set=[data], **settings)])
    assert client.ask(RequestCode.HEART_BEAT, None, heartbeat.encode()).code == ResponseCode.SUCCESS


@pytest.fixture
def filled(broker: SmallBroker, client: Peer) -> SmallBroker:
    broker.topic()
    fill(broker, client, "a", "b", "a", "c", "a")
    return broker


# -- what is read -------------------------------------------------------------------------------------------------------------


def test_messages_are_returned_as_stored(filled: SmallBroker, client: Peer) -> None:
    answer = client.pull(1, maxMsgNums=3)
    assert (answer.code, answer.remark, bounds(answer)) == (ResponseCode.SUCCESS, "FOUND", (4, 0, 5))
    assert bodies(answer) == [b"b", b"a", b"c"]
    first = decode_records(answer.body)[0]
    assert bytes(filled.reader.record_at(first.physical_offset) or b"") == answer.body[: first.size_bytes]
    assert answer.ext["suggestWhichBrokerId"] == "0"


@pytest.mark.parametrize(
    ("offset", "queue_id", "code", "status", "told"),
    [
        (5, 0, 19, "OFFSET_OVERFLOW_ONE", (5, 0, 5)),
        (6, 0, 21, "OFFSET_OVERFLOW_BADLY", (5, 0, 5)),
        (-1, 0, 21, "OFFSET_TOO_SMALL", (0, 0, 5)),
        (0, 1, 19, "NO_MESSAGE_IN_QUEUE", (0, 0, 0)),
        (7, 1, 21, "NO_MESSAGE_IN_QUEUE", (0, 0, 0)),
    ],
)
def test_empty_pull_returns_the_next_offset(
    filled: SmallBroker, client: Peer, offset: int, queue_id: int, code: int, status: str, told: tuple[int, int, int]
) -> None:
    answer = client.pull(offset, queue_id=queue_id)
    assert (answer.code, answer.remark, bounds(answer), answer.body) == (code, status, told, b"")


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [
        ("*", "TAG", b"abaca"),
        ("a", "TAG", b"aaa"),
        (" b || c ||", "TAG", b"bc"),
        ("a", None, b"aaa"),
        (None, None, b"abaca"),
        ("*", "", b"abaca"),
        ("a", "", b""),
        ("nobody", "TAG", b""),
    ],
)
def test_tags_select_messages_by_hash(
    filled: SmallBroker, client: Peer, expression: str | None, kind: str | None, wanted: bytes
) -> None:
    answer = client.pull(subscription=expression, expressionType=kind)
    if wanted:
        assert (answer.code, b"".join(bodies(answer))) == (ResponseCode.SUCCESS, wanted)
    else:
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert bounds(answer) == (5, 0, 5)


def test_messages_without_tags_match_no_tag(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    fill(broker, client, "", "a")
    assert bodies(client.pull(subscription="a")) == [b"a"]
    assert len(bodies(client.pull())) == 2


def test_at_least_one_message_is_returned(filled: SmallBroker, client: Peer) -> None:
    answer = client.pull(maxMsgNums=0)
    assert (answer.code, bounds(answer)) == (ResponseCode.SUCCESS, (1, 0, 5))
    assert bodies(answer) == [b"a"]


def test_negative_count_is_refused_only_if_messages_exist(filled: SmallBroker, client: Peer) -> None:
    assert client.pull(maxMsgNums=-1, sysFlag=5, commitOffset=3).code == ResponseCode.SYSTEM_ERROR
    assert filled.offsets.query("CG", "T", 0) == -1
    assert client.pull(5, maxMsgNums=-1).code == ResponseCode.PULL_NOT_FOUND


def test_pull_carries_at_most_32_messages_and_256_kib(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    for _ in range(40):
        client.send(b"small")
    for _ in range(6):
        client.send(b"x" * 60_000, queue_id=1)
    broker.dispatch()
    assert bounds(client.pull(maxMsgNums=100))[0] == 32
    answer = client.pull(queue_id=1)
    assert bounds(answer)[0] == 4
    assert len(answer.body) <= 262144


def test_messages_far_behind_are_returned_in_smaller_batches(make_broker: MakeBroker) -> None:
    broker = make_broker(memory_bytes=1 << 16)  # 40 per cent of 64 KiB counts as recent
    client = broker.connect()
    broker.topic()
    for _ in range(20):
        client.send(b"x" * 5000)
    broker.dispatch()
    request = client.tell(RequestCode.PULL_MESSAGE, pull_fields())  # read from disk, on a thread
    while not (answers := client.received()):
        broker.run(lambda: None)
    assert (answers[0].opaque, answers[0].code, bounds(answers[0])[0]) == (request.opaque, ResponseCode.SUCCESS, 8)


@pytest.mark.parametrize(("deleted_files", "status"), [(1, "FOUND"), (3, "MESSAGE_WAS_REMOVING")])
def test_deleted_records_are_skipped(broker: SmallBroker, client: Peer, deleted_files: int, status: str) -> None:
    broker.topic()
    for _ in range(10):
        client.send(b"x" * 60_000)
    broker.dispatch()
    broker.raise_min_offset(deleted_files * broker.file_size)
    answer = client.pull()
    assert answer.remark == status
    if status == "FOUND":
        assert decode_records(answer.body)[0].physical_offset == broker.file_size
    else:
        assert (answer.code, bounds(answer)[0]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10)


def test_binary_pull_is_answered_in_binary(filled: SmallBroker, client: Peer) -> None:
    answer = client.ask(RequestCode.PULL_MESSAGE, pull_fields(), binary=True)
    assert (answer.serialize_type, bounds(answer)) == (SerializeType.ROCKETMQ, (5, 0, 5))


def test_lite_pulls_of_newer_clients_are_served(filled: SmallBroker, client: Peer) -> None:
    answer = client.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields(sysFlag=22))
    assert (answer.code, bounds(answer)) == (ResponseCode.SUCCESS, (5, 0, 5))


def test_fast_port_refuses_pulls(filled: SmallBroker) -> None:
    answer = filled.connect(fast=True).pull()
    assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 11 not supported")


# -- checks -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "NoSuchTopic"}, 17, "not exist"),
        ({"queueId": 4}, 1, "queueId[4]"),
        ({"queueId": -1}, 1, "queueId[-1]"),
        ({"sysFlag": 0}, 24, "heartbeat"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        ({"expressionType": "SQL92"}, 23, "parse the consumer's subscription failed"),
        ({"expressionType": ""}, 23, "parse the consumer's subscription failed"),
        ({"expressionType": "SQL92", "subscription": "a > 1"}, 1, "SQL92"),
    ],
)
def test_refusal_has_a_reason_and_an_empty_map(
    filled: SmallBroker, client: Peer, fields: dict[str, Any], code: int, says: str
) -> None:
    answer = client.pull(**fields)
    assert (answer.code, answer.ext_fields, answer.body) == (code, {}, b"")
    assert says in (answer.remark or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"queueOffset": "x"},
        {"queueOffset": 1 << 63},
        {"queueId": None},
        {"consumerGroup": None},
        {"maxMsgNums": 1 << 31},
    ],
)
def test_invalid_fields_are_refused_without_a_traceback(
    filled: SmallBroker, client: Peer, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    answer = client.pull(**fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert next(iter(fields)) in (answer.remark or "")
    assert not [record for record in caplog.records if record.exc_info]


def test_fields_that_depend_on_flags_are_optional_without_them(filled: SmallBroker, client: Peer) -> None:
    answer = client.pull(commitOffset=None, suspendTimeoutMillis=None, subVersion=None)
    assert answer.code == ResponseCode.SUCCESS


def test_permissions_of_broker_group_and_topic_are_checked(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"broker_permission": WRITE})
    answer = broker.connect().pull(topic="NoSuchTopic")
    assert (answer.code, answer.ext_fields) == (ResponseCode.NO_PERMISSION, {})
    broker = make_broker()
    broker.groups.put(SubscriptionGroupConfig("CG", consume_enable=False))
    assert broker.connect().pull(topic="NoSuchTopic").code == ResponseCode.NO_PERMISSION
    broker.topic(permission=WRITE)
    assert broker.connect().pull(consumerGroup="other").code == ResponseCode.NO_PERMISSION


def test_first_pull_creates_the_group_unless_disabled(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.connect().pull(topic="NoSuchTopic")
    assert "CG" in broker.groups.all()
    strict = make_broker(broker={"auto_create_subscription_group": False}).connect()
    assert strict.pull(topic="NoSuchTopic").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert strict.pull(topic="NoSuchTopic", consumerGroup="CID_RMQ_SYS_X").code == ResponseCode.TOPIC_NOT_EXIST


def test_pull_without_an_expression_uses_the_subscription_of_the_heartbeat(filled: SmallBroker, client: Peer) -> None:
    assert client.pull(**FROM_HEARTBEAT).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    subscribe(client, "b||c", version=5)
    assert bodies(client.pull(**FROM_HEARTBEAT, subVersion=5)) == [b"b", b"c"]
    assert client.pull(**FROM_HEARTBEAT, subVersion=6).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    filled.topic("U")
    assert client.pull(topic="U", **FROM_HEARTBEAT).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    subscribe(client, "a > 1", version=7, expression_type="SQL92")
    assert client.pull(**FROM_HEARTBEAT).code == ResponseCode.SYSTEM_ERROR


def test_class_filter_selects_everything(filled: SmallBroker, client: Peer) -> None:
    data = replace(SubscriptionData.build("T", "a"), class_filter_mode=True)
    heartbeat = HeartbeatData("cid", [], [ConsumerData("CG", subscription_data_set=[data])])
    client.ask(RequestCode.HEART_BEAT, None, heartbeat.encode())
    assert len(bodies(client.pull(**FROM_HEARTBEAT))) == 5


def test_broadcasting_can_be_disabled_for_a_group(filled: SmallBroker, client: Peer) -> None:
    from headrace.model.consumption import MessageModel  # noqa: PLC0415

    subscribe(client, message_model=MessageModel.BROADCASTING)
    assert client.pull(**FROM_HEARTBEAT).code == ResponseCode.SUCCESS
    filled.groups.put(SubscriptionGroupConfig("CG", consume_broadcast_enable=False))
    assert client.pull(**FROM_HEARTBEAT).code == ResponseCode.NO_PERMISSION
    assert client.pull().code == ResponseCode.SUCCESS


# -- offsets ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 5, 99])
def test_pull_commits_its_offset_whatever_it_finds(filled: SmallBroker, client: Peer, offset: int) -> None:
    client.pull(offset, sysFlag=4, commitOffset=3)
    assert filled.offsets.query("CG", "T", 0) == -1
    client.pull(offset, sysFlag=5, commitOffset=3)
    assert filled.offsets.query("CG", "T", 0) == 3


def test_held_pull_commits_its_offset_at_once_and_only_once(filled: SmallBroker, client: Peer) -> None:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD | {"sysFlag": 7, "commitOffset": 5}))
    assert filled.offsets.query("CG", "T", 0) == 5
    filled.offsets.commit("CG", "T", 0, 2)
    filled.run(lambda: filled.held.expire(filled.loop.time() + 20))
    assert filled.offsets.query("CG", "T", 0) == 2


def test_offset_out_of_range_is_recorded_in_the_event_topic(filled: SmallBroker, client: Peer) -> None:
    assert client.pull(999, consumerGroup="größe").code == ResponseCode.PULL_OFFSET_MOVED
    event = filled.record()
    assert (event.topic, event.queue_id, event.properties) == (
        "OFFSET_MOVED_EVENT",
        0,
        {"TAGS": "größe", "KEYS": "größe"},
    )
    assert event.body.decode() == (
        '{"consumerGroup":"größe","messageQueue":{"brokerName":"broker-a","queueId":0,"topic":"T"},'
        '"offsetNew":5,"offsetRequest":999}'
    )
    assert event.born_host == event.store_host == ("127.0.0.1", 10911)


# -- masters and slaves -------------------------------------------------------------------------------------------------------


def test_slow_consumer_is_redirected_to_the_slave_only_if_enabled(make_broker: MakeBroker) -> None:
    for enabled, far, near in ((True, "1", "0"), (False, "0", "0")):
        broker = make_broker(broker={"slave_read_enable": enabled}, memory_bytes=1 << 17)
        client = broker.connect()
        broker.topic()
        for _ in range(4):
            client.send(b"x" * 30_000)
        broker.dispatch()
        client.tell(RequestCode.PULL_MESSAGE, pull_fields(maxMsgNums=1))
        while not (answers := client.received()):
            broker.run(lambda: None)
        assert answers[0].ext["suggestWhichBrokerId"] == far
        assert client.pull(3).ext["suggestWhichBrokerId"] == near


def test_slave_neither_corrects_nor_commits_offsets(make_broker: MakeBroker) -> None:
    broker = make_broker(store={"broker_role": "SLAVE"})
    broker.groups.put(SubscriptionGroupConfig("CG", broker_id=2))
    broker.topic()
    answer = broker.connect().pull(7, sysFlag=5, commitOffset=3)
    assert (answer.code, answer.remark, bounds(answer)) == (20, "NO_MESSAGE_IN_QUEUE", (7, 0, 0))
    assert answer.ext["suggestWhichBrokerId"] == "2"
    assert broker.offsets.query("CG", "T", 0) == -1


def test_slave_corrects_offsets_if_configured(make_broker: MakeBroker) -> None:
    broker = make_broker(store={"broker_role": "SLAVE", "offset_check_in_slave": True})
    broker.topic()
    answer = broker.connect().pull(7)
    assert (answer.code, bounds(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (0, 0, 0))


# -- waiting ------------------------------------------------------------------------------------------------------------------


def arrive(broker: SmallBroker, *queues: tuple[str, int]) -> None:
    broker.dispatch()
    broker.run(lambda: broker.held.arrived(queues or [("T", 0)]))


def test_held_pull_is_answered_when_a_message_arrives(filled: SmallBroker, client: Peer) -> None:
    request = client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD), binary=True)
    assert client.received() == []
    producer = filled.connect(40001)
    producer.send(b"elsewhere", queue_id=1)
    arrive(filled, ("T", 1))
    assert client.received() == []
    producer.send(b"here")
    arrive(filled)
    (answer,) = client.received()
    assert (answer.opaque, answer.code, bounds(answer)) == (request.opaque, ResponseCode.SUCCESS, (6, 0, 6))
    assert bodies(answer) == [b"here"]
    assert answer.serialize_type is SerializeType.JSON
    assert filled.held.size == 0


def test_held_pull_is_answered_at_its_deadline(filled: SmallBroker, client: Peer) -> None:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD))
    filled.run(lambda: filled.held.expire(filled.loop.time() + 14))
    assert client.received() == []
    filled.run(lambda: filled.held.expire(filled.loop.time() + 15.2))
    (answer,) = client.received()
    assert (answer.code, answer.remark, bounds(answer)) == (19, "OFFSET_OVERFLOW_ONE", (5, 0, 5))


def test_pull_is_held_for_a_second_if_long_polling_is_disabled(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"long_polling_enable": False})
    broker.topic()
    client = broker.connect()
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, **HOLD))
    broker.run(lambda: broker.held.expire(broker.loop.time() + 1.2))
    assert [answer.code for answer in client.received()] == [ResponseCode.PULL_NOT_FOUND]


@pytest.mark.parametrize(("offset", "fields"), [(99, {}), (0, {"subscription": "nobody"})])
def test_pull_with_a_moved_offset_or_unwanted_messages_is_not_held(
    filled: SmallBroker, client: Peer, offset: int, fields: dict[str, Any]
) -> None:
    assert client.pull(offset, **HOLD, **fields).code in (20, 21)
    assert filled.held.size == 0


def test_one_way_pull_is_not_held(filled: SmallBroker, client: Peer) -> None:
    assert client.told(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD)) == []
    assert filled.held.size == 0


def test_held_pull_skips_unwanted_messages(filled: SmallBroker, client: Peer) -> None:
    producer = filled.connect(40001)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, subscription="c", **HOLD))
    fill(filled, producer, "a", "b")
    arrive(filled)
    assert client.received() == []
    filled.run(lambda: filled.held.expire(filled.loop.time() + 16))
    (answer,) = client.received()
    assert (answer.code, answer.remark, bounds(answer)) == (20, "NO_MATCHED_MESSAGE", (7, 0, 7))

    client.tell(RequestCode.PULL_MESSAGE, pull_fields(7, subscription="c", **HOLD))
    fill(filled, producer, "a")
    arrive(filled)
    fill(filled, producer, "c", "b")
    arrive(filled)
    (answer,) = client.received()
    assert (answer.code, bodies(answer), bounds(answer)) == (ResponseCode.SUCCESS, [b"c"], (10, 0, 10))


@pytest.mark.slow
def test_wanted_message_is_found_after_many_unwanted_ones(filled: SmallBroker, client: Peer) -> None:
    producer = filled.connect(40001)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, subscription="wanted", **HOLD))
    for _ in range(801):
        producer.send(b"x", i="TAGS\x01unwanted")
    fill(filled, producer, "wanted")
    arrive(filled)
    (answer,) = client.received()
    assert (answer.code, bounds(answer)[0]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 805)
    assert bodies(client.pull(805, subscription="wanted")) == [b"wanted"]


def test_subscription_change_while_a_pull_is_held_loses_no_message(filled: SmallBroker, client: Peer) -> None:
    subscribe(client, "old", version=1)
    producer = filled.connect(40001)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD | {"sysFlag": 2}))
    fill(filled, producer, "new")
    arrive(filled)
    assert client.received() == []
    subscribe(client, "new", version=2)
    filled.run(lambda: filled.held.expire(filled.loop.time() + 16))
    (answer,) = [one for one in client.received() if one.is_response]
    assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"new"])


def test_held_pull_of_a_removed_group_is_refused(filled: SmallBroker, client: Peer) -> None:
    other = filled.connect(40001)
    subscribe(client)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD | {"sysFlag": 2}))
    client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "cid", "consumerGroup": "CG"})
    other.send(b"late")
    arrive(filled)
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUBSCRIPTION_NOT_EXIST, {})


def test_held_pull_of_a_deleted_topic_is_refused(filled: SmallBroker, client: Peer) -> None:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD))
    filled.topics.delete("T")
    filled.run(lambda: filled.held.arrived([("T", 0)]))
    assert [answer.code for answer in client.received()] == [ResponseCode.TOPIC_NOT_EXIST]


def test_failure_is_answered_and_affects_no_other_client(
    filled: SmallBroker, client: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = filled.connect(40001)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD))
    other.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD))
    queues = filled.sources.queues
    entries, calls = queues.entries, []

    def fail_once(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise OSError("the disk is gone")
        return entries(*given)

    monkeypatch.setattr(queues, "entries", fail_once)
    filled.connect(40002).send(b"x")
    arrive(filled)
    assert [answer.code for answer in client.received()] == [ResponseCode.SYSTEM_ERROR]
    assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]


def test_held_pull_of_a_closed_connection_is_dropped(filled: SmallBroker, client: Peer) -> None:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(5, **HOLD))
    client.close()
    filled.connect(40001).send(b"x")
    arrive(filled)
    assert filled.held.size == 0


def test_several_groups_can_wait_for_the_same_message(filled: SmallBroker) -> None:
    waiting = [filled.connect(41000 + number) for number in range(5)]
    for number, one in enumerate(waiting):
        one.tell(RequestCode.PULL_MESSAGE, pull_fields(5, consumerGroup=f"CG{number}", **HOLD))
    filled.connect(40001).send(b"for all")
    arrive(filled)
    assert [bodies(one.received()[0]) for one in waiting] == [[b"for all"]] * 5
