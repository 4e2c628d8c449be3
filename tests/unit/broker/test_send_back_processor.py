"""Messages that consumers send back: where they go, what they carry, and who may not (store spec 12.1)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.model import permission
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker


@pytest.fixture
def sent(broker: SmallBroker, client: Peer) -> int:
    """The physical offset of a message."""
    broker.topic()
    client.send(b"too hard", i="TAGS\x01a\x02UNIQ_KEY\x01U", queue_id=2, h=9)
    return broker.record().physical_offset


def back(client: Peer, offset: int, version: int = 409, **more: Any) -> RemotingCommand:
    return client.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": offset, "group": "CG", "delayLevel": 0} | more, version=version
    )


def test_message_sent_back_is_delayed_for_its_retry(broker: SmallBroker, client: Peer, sent: int) -> None:
    original = broker.record()
    answer = back(client, sent)
    assert (answer.code, answer.remark, answer.ext_fields or {}, answer.body) == (0, None, {}, b"")
    record = broker.record()
    assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert record.properties == {
        "TAGS": "a", "UNIQ_KEY": "U", "CLUSTER": "DefaultCluster", "WAIT": "false", "DELAY": "3", "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": original.offset_message_id, "REAL_TOPIC": "%RETRY%CG", "REAL_QID": "0",
    }  # fmt: skip
    assert record.reconsume_times == 1
    for name in ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host"):
        assert getattr(record, name) == getattr(original, name)
    topic = broker.topics.find("%RETRY%CG")
    assert topic is not None
    assert (topic.read_queue_count, topic.write_queue_count, topic.permission) == (1, 1, 6)


def test_each_retry_uses_the_next_delay_level_unless_the_consumer_sets_it(
    broker: SmallBroker, client: Peer, sent: int
) -> None:
    offset = sent
    for attempt in range(4):
        back(client, offset)
        record = broker.record()
        assert record.properties["DELAY"] == str(3 + attempt)
        assert record.reconsume_times == attempt + 1
        assert record.properties["RETRY_TOPIC"] == "T"
        offset = record.physical_offset
    back(client, offset, delayLevel=1)
    assert broker.record().properties["DELAY"] == "1"
    assert broker.record().queue_id == 0


def test_retried_message_keeps_its_original_message_id(broker: SmallBroker, client: Peer, sent: int) -> None:
    first = broker.record().offset_message_id
    back(client, sent)
    back(client, broker.record().physical_offset)
    assert broker.record().properties["ORIGIN_MESSAGE_ID"] == first


@pytest.mark.parametrize(
    ("more", "version"), [({"delayLevel": -1}, 409), ({"maxReconsumeTimes": 0}, 409), ({"maxReconsumeTimes": 0}, 121)]
)
def test_message_becomes_a_dead_letter_after_the_last_retry(
    broker: SmallBroker, client: Peer, sent: int, more: dict[str, Any], version: int
) -> None:
    assert back(client, sent, version, **more).code == ResponseCode.SUCCESS
    record = broker.record()
    assert (record.topic, record.queue_id, record.reconsume_times) == ("%DLQ%CG", 0, 1)
    assert record.properties["DELAY"] == "0"
    assert record.properties["RETRY_TOPIC"] == "T"
    assert "REAL_TOPIC" not in record.properties
    topic = broker.topics.find("%DLQ%CG")
    assert topic is not None
    assert (topic.read_queue_count, topic.write_queue_count, topic.permission) == (1, 1, 6)


def test_maximum_of_retries_set_by_an_old_client_is_ignored(broker: SmallBroker, client: Peer, sent: int) -> None:
    back(client, sent, version=120, maxReconsumeTimes=0)
    assert broker.record().topic == "SCHEDULE_TOPIC_XXXX"


def test_retry_settings_of_the_group_are_used(broker: SmallBroker, client: Peer, sent: int) -> None:
    broker.groups.put(SubscriptionGroupConfig("CG", retry_queue_count=3, retry_max_times=1))
    queues = set()
    for _ in range(60):
        back(client, sent)
        queues.add(broker.record().properties["REAL_QID"])
    assert queues == {"0", "1", "2"}
    back(client, broker.record().physical_offset)
    assert broker.record().topic == "%DLQ%CG"


def test_message_sent_back_to_a_group_without_retry_queues_is_dropped(
    broker: SmallBroker, client: Peer, sent: int
) -> None:
    broker.groups.put(SubscriptionGroupConfig("CG", retry_queue_count=0))
    count = len(broker.records())
    assert back(client, sent).code == ResponseCode.SUCCESS
    assert len(broker.records()) == count


def test_unit_mode_is_marked_on_the_retry_topic(broker: SmallBroker, client: Peer, sent: int) -> None:
    back(client, sent, unitMode="true")
    topic = broker.topics.find("%RETRY%CG")
    assert topic is not None
    assert topic.sys_flag == 2


@pytest.mark.parametrize("group", ["a/b", "../c", "d\0e"])
def test_group_whose_retries_could_not_be_delivered_is_refused(
    broker: SmallBroker, client: Peer, sent: int, group: str
) -> None:
    count = len(broker.records())
    answer = back(client, sent, group=group)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "cannot be retried" in str(answer.remark)
    assert len(broker.records()) == count


def test_invalid_send_back_is_refused(make_broker: Callable[..., SmallBroker]) -> None:
    broker = make_broker(broker={"auto_create_subscription_group": False})
    broker.topic()
    client = broker.connect()
    client.send()
    assert back(client, 0).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    broker.groups.put(SubscriptionGroupConfig("CG"))
    assert back(client, 7).code == ResponseCode.SYSTEM_ERROR
    broker.topics.put(TopicConfig("%RETRY%CG", 1, 1, permission.READ))
    assert back(client, 0).code == ResponseCode.NO_PERMISSION
    broker.topics.put(replace(TopicConfig("%RETRY%CG", 1, 1), permission=6))
    broker.is_writeable = False
    answer = back(client, 0)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")
    closed = make_broker(broker={"broker_permission": permission.READ})
    assert back(closed.connect(), 0).code == ResponseCode.NO_PERMISSION
