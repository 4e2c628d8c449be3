"""Topics and groups at an operator's request: the checks, what is written, who is told."""

from pathlib import Path

import pytest

from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol import fastjson
from headrace.protocol.bodies.register_broker import RegisterBrokerBody
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.admin_world import AdminWorld

CREATE = {
    "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "3", "perm": "6",
    "topicFilterType": "MULTI_TAG", "topicSysFlag": "1", "order": "true",
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> AdminWorld:
    return AdminWorld(tmp_path)


def test_topic_is_created_and_registered_before_the_response(world: AdminWorld) -> None:
    assert world.ask(17, CREATE).code == 0
    made = TopicConfig("T", 4, 3, 6, TopicFilterType.MULTI_TAG, 1)
    assert world.topics.find("T") == made
    (told,) = world.name_server.asked
    assert told.code == RequestCode.REGISTER_BROKER
    assert RegisterBrokerBody.decode(told.body).topic_config.topic_config_table == {"T": made}


def test_ordered_topic_stays_ordered_after_a_change(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("T", order=True))
    world.ask(17, CREATE)
    found = world.topics.find("T")
    assert found is not None
    assert found.order


@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"topic": " "}, "The specified topic is blank."),
        ({"topic": "a b"}, "contains illegal characters"),
        ({"topic": "x" * 128}, "longer than topic max length"),
        ({"topic": "TBW102"}, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "rmq_sys_mine"}, "conflict with system topic"),
        ({"topic": "broker-a"}, "conflict with system topic"),
        ({"topicFilterType": "ANY"}, "use SINGLE_TAG or MULTI_TAG"),
        ({"readQueueNums": "-1"}, "readQueueNums=-1"),
        ({"writeQueueNums": "2000000000"}, "writeQueueNums=2000000000"),
        ({"perm": "64"}, "perm=64"),
        ({"perm": "rw"}, "the field perm is 'rw'"),
    ],
)
def test_invalid_topic_is_refused_with_a_reason(world: AdminWorld, changed: dict[str, str], remark: str) -> None:
    answer = world.ask(17, {**CREATE, **changed})
    assert answer.code == 1
    assert remark in (answer.remark or "")
    assert world.topics.data_version.counter == 0
    assert not world.name_server.asked


def test_missing_field_is_named(world: AdminWorld) -> None:
    answer = world.ask(17, {"topic": "T"})
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("UPDATE_AND_CREATE_TOPIC cannot be read:")
    assert "is missing" in answer.remark


def test_failed_write_creates_no_topic(world: AdminWorld, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where a folder should be")
    answer = world.ask(17, CREATE)
    assert answer.code == 1
    assert "failed: " in (answer.remark or "")
    assert world.topics.find("T") is None


def test_topic_deletion_is_passed_to_dispatch_and_keeps_offsets(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("T"))
    world.offsets.commit("g", "T", 0, 5)
    assert world.ask(215, {"topic": "T"}).code == 0
    assert world.topics.find("T") is None
    assert world.cleaned == 1
    assert world.offsets.query("g", "T", 0) == 5
    assert not world.name_server.asked


def test_deletion_of_an_unknown_topic_succeeds(world: AdminWorld) -> None:
    assert world.ask(215, {"topic": "Nowhere"}).code == 0


def test_system_topic_cannot_be_deleted(world: AdminWorld) -> None:
    assert world.ask(215, {"topic": "SCHEDULE_TOPIC_XXXX"}).code == 1
    assert world.topics.find("SCHEDULE_TOPIC_XXXX") is not None


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (17, CREATE, b""),
        (215, {"topic": "T"}, b""),
        (200, None, b'{"groupName":"g"}'),
        (207, {"groupName": "TOOLS_CONSUMER"}, b""),
    ],
)
def test_slave_refuses_changes_of_topics_and_groups(
    tmp_path: Path, code: int, ext: dict[str, str] | None, body: bytes
) -> None:
    world = AdminWorld(tmp_path, is_slave=True)
    answer = world.ask(code, ext, body)
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("Can't modify topic or subscription group from slave broker")
    assert world.groups.data_version.counter == world.topics.data_version.counter == 0


def test_missing_group_fields_have_their_defaults(world: AdminWorld) -> None:
    assert world.ask(200, None, b'{"groupName":"g","retryMaxTimes":3,"nonsense":1}').code == 0
    assert world.groups.all()["g"] == SubscriptionGroupConfig("g", retry_max_times=3)


def test_group_request_without_a_body_changes_nothing(world: AdminWorld) -> None:
    assert world.ask(200).code == 0
    assert world.groups.data_version.counter == 0


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"groupName":" "}', b'{"groupName":"g","retryMaxTimes":[]}'])
def test_invalid_group_is_refused(world: AdminWorld, body: bytes) -> None:
    answer = world.ask(200, None, body)
    assert answer.code == 1
    assert answer.remark
    assert world.groups.data_version.counter == 0


@pytest.mark.parametrize(
    ("ext", "left"),
    [({}, 5), ({"removeOffset": "true"}, -1), ({"cleanOffset": "true"}, -1), ({"removeOffset": "no"}, 5)],
)
def test_offsets_of_a_deleted_group_are_removed_only_on_request(
    world: AdminWorld, ext: dict[str, str], left: int
) -> None:
    world.groups.find("g")
    world.offsets.commit("g", "T", 0, 5)
    assert world.ask(207, {"groupName": "g", **ext}).code == 0
    assert "g" not in world.groups.all()
    assert world.offsets.query("g", "T", 0) == left


def test_settings_of_one_topic_are_returned_as_in_rocketmq_5(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("T", 3, 5, permission=6))
    answer = world.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T", "lo": "true"})
    assert (answer.code, answer.remark) == (0, None)
    assert fastjson.loads(answer.body) == {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 3, "topicFilterType": "SINGLE_TAG", "topicName": "T",
        "topicSysFlag": 0, "writeQueueNums": 5,
    }  # fmt: skip
    unknown = world.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Unknown"})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
    assert "Unknown" in (unknown.remark or "")


def test_offset_request_for_an_unknown_group_names_it(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("T", 1, 1))
    reset = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"}
    unknown = world.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    assert unknown.code == ResponseCode.SYSTEM_ERROR
    assert "THe consumer group <g> not exist" in (unknown.remark or "")
    world.offsets.commit("g", "Other", 0, 1)
    known = world.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    assert known.code == ResponseCode.SYSTEM_ERROR
    assert "has no offset for queue 0 of topic T" in (known.remark or "")


def test_offset_reset_of_an_offline_group_is_refused_with_what_to_do(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("T", 1, 1))
    world.offsets.commit("g", "T", 0, 1)
    reset = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"}
    answer = world.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark == (
        "Consumer not online, so can not reset offset, Group: g Topic: T; "
        "start a consumer of the group, or reset its offsets in the console (Reset offsets)"
    )
