"""Heartbeats, leave-taking, members of a group, subscriptions to be checked (remoting spec 4.14 to 4.18)."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.model.subscription import SubscriptionData
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    ProducerData,
)
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker

MakeBroker = Callable[..., SmallBroker]


def heartbeat(
    *topics: str, client_id: str = "cid", group: str = "CG", producer: str | None = None, **settings: Any
) -> bytes:
    wanted = [SubscriptionData.build(topic, "*", sub_version=1) for topic in topics]
    producers = [ProducerData(producer)] if producer else []
    return HeartbeatData(client_id, producers, [ConsumerData(group, subscription_data_set=wanted, **settings)]).encode()


def beat(client: Peer, *topics: str, **options: Any) -> list[RemotingCommand]:
    """Sends a heartbeat; everything that comes back."""
    client.tell(RequestCode.HEART_BEAT, None, heartbeat(*topics, **options))
    return client.received()


def members(client: Peer, group: str = "CG") -> list[str]:
    answer = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {})
    return GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list


def test_new_member_is_notified_before_its_heartbeat_is_answered(client: Peer) -> None:
    notice, answer = beat(client, "T")
    assert (notice.code, notice.is_oneway, notice.ext_fields) == (
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True, {"consumerGroup": "CG"},
    )  # fmt: skip
    assert not notice.is_response
    assert answer.is_response
    assert (answer.code, answer.remark, answer.ext_fields, answer.body) == (ResponseCode.SUCCESS, None, None, b"")
    assert answer.version == 409
    assert [one.is_response for one in beat(client, "T")] == [True]


def test_members_are_notified_when_a_member_joins_or_leaves(broker: SmallBroker, client: Peer) -> None:
    beat(client, "T", client_id="one")
    other = broker.connect(40001)
    beat(other, "T", client_id="two")
    assert [one.code for one in client.received()] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    assert sorted(members(client)) == ["one", "two"]
    other.close()
    assert [one.code for one in client.received()] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    assert members(client) == ["one"]


def test_notifications_can_be_disabled_for_the_broker_and_for_a_group(make_broker: MakeBroker) -> None:
    quiet = make_broker(broker={"notify_consumer_ids_changed_enable": False}).connect()
    assert [one.is_response for one in beat(quiet, "T")] == [True]
    broker = make_broker()
    broker.groups.put(SubscriptionGroupConfig("CG", notify_consumer_ids_changed_enable=False))
    assert [one.is_response for one in beat(broker.connect(), "T")] == [True]
    assert len(beat(broker.connect(40001), "T", group="OTHER")) == 2


def test_heartbeat_creates_the_group_and_its_retry_topic(broker: SmallBroker, client: Peer) -> None:
    broker.groups.put(SubscriptionGroupConfig("UNIT", retry_queue_count=3))
    beat(client, "T")
    beat(client, "T", group="UNIT", unit_mode=True)
    plain, unit = broker.topics.find("%RETRY%CG"), broker.topics.find("%RETRY%UNIT")
    assert plain is not None
    assert unit is not None
    assert (plain.read_queue_count, plain.write_queue_count, plain.permission, plain.sys_flag) == (1, 1, 6, 0)
    assert (unit.read_queue_count, unit.sys_flag) == (3, 2)
    assert "CG" in broker.groups.all()


def test_consumer_is_registered_even_if_its_group_cannot_be_created(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"auto_create_subscription_group": False})
    client = broker.connect()
    beat(client, "T")
    assert members(client) == ["cid"]
    assert broker.topics.find("%RETRY%CG") is None


def test_language_and_version_of_a_client_are_kept(broker: SmallBroker, client: Peer) -> None:
    beat(
        client, "T", producer="PG", consume_type=ConsumeType.CONSUME_ACTIVELY, message_model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
    )  # fmt: skip
    group = broker.clients.consumer_group("CG")
    assert group is not None
    assert (group.consume_type, group.message_model, group.consume_from_where) == (
        "CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP",
    )  # fmt: skip
    (member,) = group.clients.values()
    assert (member.client_id, member.language, member.version) == ("cid", LanguageCode.JAVA, 409)
    assert [one.client_id for one in broker.clients.producers("PG")] == ["cid"]


def test_empty_heartbeat_is_answered(client: Peer) -> None:
    assert client.ask(RequestCode.HEART_BEAT, None, b"{}").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"consumerDataSet":[{"groupName":"a"},{}]}', b"\xff\xfe"])
def test_invalid_heartbeat_registers_nothing(
    broker: SmallBroker, client: Peer, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    answer = client.ask(RequestCode.HEART_BEAT, None, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "HEART_BEAT cannot be read" in (answer.remark or "")
    assert not broker.clients.consumer_groups()
    assert not [record for record in caplog.records if record.exc_info]


def test_heartbeat_of_a_newer_client_is_accepted_and_the_new_format_not_offered(client: Peer) -> None:
    body = heartbeat("T")[:-1] + b',"heartbeatFingerprint":0,"withoutSub":false}'
    assert client.ask(RequestCode.HEART_BEAT, None, body).ext_fields is None


def test_unregistered_client_is_removed_from_the_named_groups(broker: SmallBroker, client: Peer) -> None:
    beat(client, "T", producer="PG")
    answer = client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "cid", "producerGroup": "PG"})
    assert (answer.code, answer.ext_fields, answer.body) == (ResponseCode.SUCCESS, {}, b"")
    assert broker.clients.producers("PG") == []
    assert members(client) == ["cid"]
    client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "cid", "consumerGroup": "CG"})
    answer = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"})
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, {})
    assert answer.remark == "no consumer for this group, CG"


@pytest.mark.parametrize(
    ("data", "code"),
    [(None, 0), (SubscriptionData.build("T", "a||b"), 0), (SubscriptionData.build("T", "a > 1", "SQL92"), 1)],
)
def test_subscription_is_checked(client: Peer, data: SubscriptionData | None, code: int) -> None:
    body = CheckClientRequestBody("cid", "CG", data).encode()
    assert client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body).code == code


def test_client_requests_are_served_on_the_fast_port_too(broker: SmallBroker) -> None:
    fast = broker.connect(fast=True)
    assert len(beat(fast, "T")) == 2
    assert members(fast) == ["cid"]
