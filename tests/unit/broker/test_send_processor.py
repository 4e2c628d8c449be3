"""Sends on the plain path, as a client sees them and as the log keeps them (remoting spec 4.4 to 4.6)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.sending.hot_send import SendPath
from broker.sending.send_processor import HotTopics
from headrace.model import sys_flag
from headrace.model.host import encode_host
from headrace.model.message import Message
from headrace.model.message_id import decode_offset_message_id
from headrace.model.permission import READ, WRITE
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicFilterType
from headrace.protocol.batch import encode_batch
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.publish.flush import FlushPublisher
from support import hot_sends
from support.small_broker import MAX_MESSAGE_SIZE, Peer, SmallBroker, send_fields

REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
BATCH = [Message("T", b"one", properties={"TAGS": "a"}), Message("T", b"two", flag=7), Message("T", b"")]


def test_send_response_contains_the_location_of_the_message(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    client.send(b"first", queue_id=2)
    answer = client.send(b"second", queue_id=2)
    assert (answer.code, answer.remark, answer.body) == (ResponseCode.SUCCESS, None, b"")
    assert answer.ext.items() >= REGION.items()
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("2", "1")
    host, offset = decode_offset_message_id(answer.ext["msgId"])
    assert host == ("127.0.0.1", 10911)
    assert broker.record().physical_offset == offset > 0
    assert set(answer.ext) == {"MSG_REGION", "TRACE_ON", "msgId", "queueId", "queueOffset"}


def test_record_contains_the_message_and_its_origin(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    client.send(b"body", g=1700000000999, h=-5, f=sys_flag.COMPRESSED | 0x300, j=3)
    record = broker.record()
    assert (record.topic, record.queue_id, record.body, record.flag) == ("T", 0, b"body", -5)
    assert (record.born_timestamp, record.sys_flag, record.reconsume_times) == (1700000000999, 0x301, 3)
    assert (record.born_host, record.store_host) == (("10.1.2.3", 40000), ("127.0.0.1", 10911))
    assert record.prepared_transaction_offset == 0


def test_ipv6_producer_is_marked_in_the_sys_flag(broker: SmallBroker) -> None:
    broker.topic()
    broker.connect(5, "2001:db8::1").send(f=sys_flag.STORE_HOST_V6)
    record = broker.record()
    assert record.born_host == ("2001:db8::1", 5)
    assert record.sys_flag == sys_flag.BORN_HOST_V6


def test_long_and_short_field_names_are_equivalent(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    ext = {
        "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1, "sysFlag": 0,
        "bornTimestamp": 17, "flag": 5, "properties": "TAGS\x01a", "reconsumeTimes": 2,
    }  # fmt: skip
    assert client.ask(RequestCode.SEND_MESSAGE, ext, b"x").code == ResponseCode.SUCCESS
    record = broker.record()
    assert (record.queue_id, record.flag, record.born_timestamp, record.reconsume_times) == (1, 5, 17, 2)
    assert record.properties == {"TAGS": "a", "CLUSTER": "DefaultCluster"}


def test_binary_request_gets_a_binary_response(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(i="k\x01v"), b"x", binary=True)
    assert answer.serialize_type.name == "ROCKETMQ"
    assert answer.ext["queueOffset"] == "0"
    assert broker.record().properties["k"] == "v"


def test_oneway_send_is_stored_and_not_answered(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    assert client.told(RequestCode.SEND_MESSAGE_V2, send_fields(), b"quiet") == []
    assert broker.record().body == b"quiet"
    assert client.told(RequestCode.SEND_MESSAGE_V2, send_fields("not legal!"), b"quiet") == []


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("TAGS\x01a\x02WAIT\x01false\x02", {"TAGS": "a"}),
        ("CLUSTER\x01other\x02k\x01v\x01w", {"k": "v\x01w"}),
        ("empty\x01\x02\x01nameless\x02no separator\x02a\x011\x02a\x012", {"a": "2"}),
        ("größe\x01größer 😀", {"größe": "größer 😀"}),
        (None, {}),
        ("DELAY\x01-1", {"DELAY": "-1"}),
    ],
)
def test_properties_are_stored_as_by_rocketmq(
    broker: SmallBroker, client: Peer, sent: str | None, stored: dict[str, str]
) -> None:
    broker.topic()
    assert client.send(i=sent).code == ResponseCode.SUCCESS
    assert broker.record().properties == {**stored, "CLUSTER": "DefaultCluster"}
    assert not bytes(broker.record().properties_raw).endswith(b"\x02")


def test_messages_of_a_topic_with_many_tags_are_marked(broker: SmallBroker, client: Peer) -> None:
    broker.topic(filter_type=TopicFilterType.MULTI_TAG)
    client.send()
    assert broker.record().sys_flag == sys_flag.MULTI_TAGS
    client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), encode_batch(BATCH))
    assert broker.record().sys_flag == sys_flag.MULTI_TAGS


def test_message_with_an_empty_body_is_stored(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    assert client.send(b"").code == ResponseCode.SUCCESS
    assert broker.record().body == b""


# -- refusals -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"b": "not legal!"}, 1, "illegal characters"),
        ({"b": "über"}, 1, "illegal characters"),
        ({"b": " "}, 1, "blank"),
        ({"b": "x" * 128}, 1, "longer"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, 16, "forbidden"),
        ({"b": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16, "forbidden"),
        ({"b": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}, 16, "forbidden"),
        ({"b": "TRANS_CHECK_MAX_TIME_TOPIC"}, 16, "forbidden"),
        ({"b": "SELF_TEST_TOPIC"}, 16, "forbidden"),
        ({"b": "OFFSET_MOVED_EVENT"}, 16, "forbidden"),
        ({"b": "Unknown", "c": "NoTemplate"}, 17, "not exist"),
        ({"b": "Unknown", "c": None}, 1, "no defaultTopic"),
        ({"e": 4}, 1, "queueId[4]"),
        ({"e": "x"}, 1, "e is 'x'"),
        ({"e": None}, 1, "e is missing"),
        ({"g": str(1 << 63)}, 1, "64 bits"),
        ({"d": "four"}, 1, "d is 'four'"),
        ({"i": "DELAY\x01soon"}, 1, "DELAY"),
        ({"i": "DELAY\x011_0"}, 1, "DELAY"),
        ({"i": "big\x01" + "p" * 32764}, 13, "32767"),
        ({"i": "big\x01" + "ü" * 16400}, 13, "32767"),
        ({"m": "true"}, 1, "batch"),
        ({"m": "true", "f": 4}, 13, "batch"),
        ({"m": "true", "i": "DELAY\x013"}, 13, "batch"),
        ({"m": "true", "i": "DELAY\x01x"}, 1, "DELAY"),
    ],
)
def test_refused_send_has_a_reason_and_stores_nothing(
    broker: SmallBroker, client: Peer, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], code: int, says: str
) -> None:
    broker.topic()
    answer = client.send(**fields)
    assert (answer.code, answer.ext_fields) == (code, REGION)
    assert says in (answer.remark or "")
    assert broker.control.wrote_offset == 0
    assert not [record for record in caplog.records if record.exc_info]


def test_send_without_any_field_is_refused(broker: SmallBroker, client: Peer) -> None:
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, None, b"x")
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, REGION)


def test_unused_fields_are_optional(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    assert client.send(a=None, c=None, d=None).code == ResponseCode.SUCCESS


def test_body_is_stored_up_to_the_maximum_size(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    assert client.send(b"x" * MAX_MESSAGE_SIZE).code == ResponseCode.SUCCESS
    answer = client.send(b"x" * (MAX_MESSAGE_SIZE + 1))
    assert (answer.code, answer.ext_fields) == (ResponseCode.MESSAGE_ILLEGAL, REGION)
    batch = encode_batch([Message("T", b"x" * MAX_MESSAGE_SIZE)])
    assert client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), batch).code == ResponseCode.MESSAGE_ILLEGAL


def test_topic_of_127_characters_is_created(broker: SmallBroker, client: Peer) -> None:
    assert client.send(topic="x" * 127).code == ResponseCode.SUCCESS
    assert broker.record().topic == "x" * 127


def test_send_to_a_read_only_queue_is_accepted(broker: SmallBroker, client: Peer) -> None:
    broker.topic(queues=2)
    found = broker.topics.find("T")
    assert found is not None
    from msgspec.structs import replace  # noqa: PLC0415

    broker.topics.put(replace(found, read_queue_count=4))
    assert client.send(queue_id=3).code == ResponseCode.SUCCESS
    assert client.send(queue_id=4).code == ResponseCode.SYSTEM_ERROR
    chosen = {client.send(queue_id=-1).ext["queueId"] for _ in range(50)}
    assert chosen == {"0", "1"}


def test_topic_without_write_queues_refuses_sends_without_a_queue(broker: SmallBroker, client: Peer) -> None:
    broker.topic(queues=0)
    answer = client.send(queue_id=-1)
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, REGION)


def test_send_ignores_the_topics_permission_and_the_brokers_except_for_ordered_topics(
    make_broker: Callable[..., SmallBroker],
) -> None:
    broker = make_broker(broker={"broker_permission": READ})
    client = broker.connect()
    broker.topic("Plain", permission=READ)
    broker.topic("Ordered", order=True, permission=READ | WRITE)
    assert client.send(topic="Plain").code == ResponseCode.SUCCESS
    answer = client.send(topic="Ordered")
    assert (answer.code, answer.ext_fields) == (ResponseCode.NO_PERMISSION, REGION)


def test_broker_not_yet_accepting_sends_returns_the_start_time(make_broker: Callable[..., SmallBroker]) -> None:
    client = make_broker(broker={"start_accept_send_request_time_stamp": 1 << 60}).connect()
    answer = client.send(topic="not legal!")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "startAcceptSendRequestTimeStamp" in (answer.remark or "")


def test_unwritable_store_is_reported_with_its_reason(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    broker.is_writeable = False
    answer = client.send()
    assert (answer.code, answer.ext_fields) == (ResponseCode.SERVICE_NOT_AVAILABLE, REGION)
    assert answer.remark == "service not available now: the disk is too full; see `headrace status`"


def test_failed_topic_creation_is_reported_without_a_traceback(
    broker: SmallBroker, client: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    broker.paths.config.rmdir()
    broker.paths.config.write_text("a file where the directory should be")
    with caplog.at_level(logging.DEBUG):
        answer = client.send(topic="New")
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, REGION)
    assert "disk" in (answer.remark or "")
    assert not [record for record in caplog.records if record.exc_info]
    assert broker.topics.find("New") is None


def test_transactional_messages_can_be_disabled(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(broker={"reject_transaction_message": True})
    broker.topic()
    assert broker.connect().send(i="TRAN_MSG\x01TRUE", f=4).code == ResponseCode.NO_PERMISSION


def test_prepared_message_without_the_property_gets_no_queue_entry(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    client.send(b"queued")
    for _ in range(2):
        assert client.send(b"prepared", f=sys_flag.TRANSACTION_PREPARED, i="DELAY\x013").ext["queueOffset"] == "0"
    assert client.send(b"queued").ext["queueOffset"] == "1"
    broker.dispatch()
    assert broker.queues.bounds("T", 0) == (0, 2)


# -- topics made by a send ----------------------------------------------------------------------------------------------------


def test_first_send_creates_the_topic(broker: SmallBroker, client: Peer) -> None:
    assert client.send(topic="New", queue_id=3).ext["queueId"] == "3"
    made = broker.topics.find("New")
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count, made.permission) == (4, 4, READ | WRITE)


def test_send_creates_no_topic_if_auto_creation_is_disabled(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(broker={"auto_create_topic_enable": False})
    client = broker.connect()
    assert client.send(topic="New").code == ResponseCode.TOPIC_NOT_EXIST
    assert client.send(topic="%RETRY%CG").code == ResponseCode.SUCCESS
    retry = broker.topics.find("%RETRY%CG")
    assert retry is not None
    assert (retry.read_queue_count, retry.write_queue_count, retry.permission) == (1, 1, 6)


# -- retries and dead letters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "given", "version", "topic"),
    [
        (15, None, 409, "%RETRY%CG"),
        (16, None, 409, "%DLQ%CG"),
        (2, 3, 409, "%RETRY%CG"),
        (3, 3, 409, "%DLQ%CG"),
        (3, 3, 121, "%DLQ%CG"),
        (3, 3, 120, "%RETRY%CG"),
        (None, 0, 409, "%DLQ%CG"),
        (20, 30, 409, "%RETRY%CG"),
    ],
)
def test_message_retried_too_often_becomes_a_dead_letter(
    broker: SmallBroker, client: Peer, times: int | None, given: int | None, version: int, topic: str
) -> None:
    broker.topic("%RETRY%CG", queues=4)
    answer = client.ask(
        RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%CG", 2, j=times, l=given), b"again", version=version
    )
    assert (answer.code, answer.ext["queueId"]) == (ResponseCode.SUCCESS, "2")
    record = broker.record()
    assert (record.topic, record.queue_id) == (topic, 2 if topic == "%RETRY%CG" else 0)
    dead = broker.topics.find("%DLQ%CG")
    assert (dead is not None) == (topic == "%DLQ%CG")
    assert dead is None or (dead.read_queue_count, dead.write_queue_count, dead.permission) == (1, 1, 6)


def test_retry_limit_of_the_group_is_used(broker: SmallBroker, client: Peer) -> None:
    broker.groups.put(SubscriptionGroupConfig("CG", retry_max_times=1))
    client.send(topic="%RETRY%CG", j=1)
    assert broker.record().topic == "%DLQ%CG"


def test_delay_level_of_a_dead_letter_applies(broker: SmallBroker, client: Peer) -> None:
    broker.groups.put(SubscriptionGroupConfig("CG", retry_max_times=1))
    client.send(topic="%RETRY%CG", j=1, i="DELAY\x013")
    record = broker.record()
    assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert (record.properties["REAL_TOPIC"], record.properties["REAL_QID"]) == ("%DLQ%CG", "0")


def test_retry_is_refused_if_the_group_cannot_be_created(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(broker={"auto_create_subscription_group": False})
    answer = broker.connect().send(topic="%RETRY%CG")
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, REGION)


# -- batches ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_batch_becomes_single_messages_with_consecutive_offsets(broker: SmallBroker, client: Peer, code: int) -> None:
    broker.topic()
    client.send()
    rings = broker.rings
    answer = client.ask(code, send_fields(m="true", i="WAIT\x01true", j=2), encode_batch(BATCH))
    records = broker.records()[1:]
    assert (answer.code, answer.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1")
    offsets = [decode_offset_message_id(one)[1] for one in answer.ext["msgId"].split(",")]
    assert offsets == [record.physical_offset for record in records]
    assert [record.queue_offset for record in records] == [1, 2, 3]
    assert [(record.body, record.flag, record.reconsume_times) for record in records] == [
        (b"one", 0, 2),
        (b"two", 7, 2),
        (b"", 0, 2),
    ]
    common = {"CLUSTER": "DefaultCluster", "WAIT": "true"}
    assert [record.properties for record in records] == [{"TAGS": "a", **common}, common, common]
    assert broker.rings == rings + 1


def test_batch_is_recognised_by_its_flag_not_by_its_code(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    body = encode_batch(BATCH)
    client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="false"), body)
    assert broker.record().body == body


def test_batch_with_too_large_properties_is_refused(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    body = encode_batch([Message("T", b"x", properties={"k": "v" * 20000})])
    answer = client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true", i="k\x01" + "w" * 20000), body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.control.wrote_offset == 0


@pytest.mark.parametrize("body", [b"", b"abc", encode_batch(BATCH)[:-1], encode_batch(BATCH) + b"\0"])
def test_malformed_batch_is_refused_completely(broker: SmallBroker, client: Peer, body: bytes) -> None:
    broker.topic()
    answer = client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, REGION)
    assert broker.control.wrote_offset == 0


def test_batch_of_more_than_65536_messages_is_refused(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(store={"max_message_size": 4 << 20, "mapped_file_size_commit_log": 16 << 20})
    broker.topic()
    broker.path.prepare_topic(b"T", 4, 0)
    client, entry = broker.connect(), encode_batch([Message("T", b"")])
    for rest in (b"", b"\0"):  # refused before all is read
        body = entry * 65537 + rest
        assert hot_sends.take_all(broker.path, hot_sends.send_frame(body, b="T", m="true")) == [0]
        answer = client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)
        assert (answer.code, answer.ext_fields) == (ResponseCode.MESSAGE_ILLEGAL, REGION)
        assert "more than 65536 messages" in (answer.remark or "")
        assert broker.control.wrote_offset == 0
    body = entry * 65536
    assert hot_sends.take_all(broker.path, hot_sends.send_frame(body, b="T", m="true")) == []
    answer = client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)
    assert (answer.code, answer.ext["queueOffset"]) == (ResponseCode.SUCCESS, "65536")


def test_delay_level_inside_a_batch_is_ignored(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    body = encode_batch([Message("T", b"x", properties={"DELAY": "3"})])
    assert client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body).code == ResponseCode.SUCCESS
    assert broker.record().topic == "T"


def test_batch_to_a_retry_topic_never_becomes_a_dead_letter(broker: SmallBroker, client: Peer) -> None:
    client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("%RETRY%CG", m="true", j=99), encode_batch(BATCH))
    assert broker.record().topic == "%RETRY%CG"


# -- waiting for the store ----------------------------------------------------------------------------------------------------


def test_sync_flush_delays_the_response_until_the_message_is_durable(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(store={"flush_disk_type": "SYNC_FLUSH"})
    broker.topic()
    client = broker.connect()
    request = client.tell(RequestCode.SEND_MESSAGE_V2, send_fields(), b"safe")
    assert client.received() == []
    assert client.send(b"hasty", i="WAIT\x01false").code == ResponseCode.SUCCESS
    FlushPublisher(broker.control).flushed(broker.control.wrote_offset, 1)
    broker.run(broker.gate.release)
    (answer,) = client.received()
    assert (answer.opaque, answer.code, answer.ext["queueOffset"]) == (request.opaque, ResponseCode.SUCCESS, "0")


def test_flush_timeout_is_reported_and_the_message_is_stored(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(store={"flush_disk_type": "SYNC_FLUSH"})
    broker.topic()
    client = broker.connect()
    client.tell(RequestCode.SEND_MESSAGE_V2, send_fields(m="true", i="WAIT\x01true"), encode_batch(BATCH))
    broker.now = 6.0
    broker.run(broker.gate.release)
    (answer,) = client.received()
    assert (answer.code, answer.remark) == (ResponseCode.FLUSH_DISK_TIMEOUT, None)
    assert {"msgId", "queueId", "queueOffset"} <= set(answer.ext)


def test_sync_master_without_slaves_stores_the_message_and_reports_it(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(store={"broker_role": "SYNC_MASTER"})
    broker.topic()
    client = broker.connect()
    answer = client.send()
    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert answer.ext["queueOffset"] == "0"
    assert client.send(i="WAIT\x01false").code == ResponseCode.SUCCESS


def test_slave_refuses_messages(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(store={"broker_role": "SLAVE"})
    broker.topic()
    assert broker.connect().send().code == ResponseCode.SERVICE_NOT_AVAILABLE


# -- the hot path's topics ----------------------------------------------------------------------------------------------------


def test_hot_path_serves_topics_without_special_checks(broker: SmallBroker) -> None:
    path = SendPath(
        broker.appender.log,
        encode_host(("127.0.0.1", 10911)),
        "DefaultCluster",
        "DefaultRegion",
        True,
        409,
        1 << 20,
        False,
    )
    broker.topic("Known", queues=3)
    HotTopics(broker.config, broker.topics, path)
    assert b"Known" in path.topics()
    assert b"TBW102" in path.topics()
    assert b"SCHEDULE_TOPIC_XXXX" not in path.topics()
    assert b"OFFSET_MOVED_EVENT" not in path.topics()
    broker.topic("New")
    broker.topic("%RETRY%CG")
    assert b"New" in path.topics()
    assert b"%RETRY%CG" not in path.topics()
    counting = path.topics()[b"New"]
    broker.topics.raise_version()
    assert path.topics()[b"New"] is counting
    broker.topics.delete("New")
    assert b"New" not in path.topics()
