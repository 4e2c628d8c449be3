"""Every administrative answer has the shape of Apache's: the same keys, the same kinds of values, the same bare keys of maps.

The requests are those of Apache's own tool and client, taken from the captured frames, byte for byte.
"""

from pathlib import Path
from typing import Any

import pytest

from broker.admin.fixed_values import fixed_values
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson
from headrace.protocol.bodies.properties_text import decode_properties_text
from headrace.protocol.frame import decode_frame
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from support import golden
from support.admin_world import AdminWorld

TABLES = {
    "topicConfigTable", "subscriptionGroupTable", "offsetTable", "subscriptionTable", "data", "table", "correctionOffsets",
    "consumeStatsList",
}  # fmt: skip


def captured(scenario: str) -> dict[int, list[tuple[RemotingCommand, RemotingCommand]]]:
    """Requests and answers between tools and the broker, by request code."""
    waiting: dict[tuple[int, int], RemotingCommand] = {}
    found: dict[int, list[tuple[RemotingCommand, RemotingCommand]]] = {}
    for line in golden.frames(scenario):
        if line.get("bytes") is None or "broker" not in (line["to"], line["from"]):
            continue
        command = decode_frame(line["bytes"])
        key = (line["connection"], command.opaque)
        if line["direction"] == ">" and not command.is_response:
            waiting[key] = command
        elif line["direction"] == "<" and command.is_response and key in waiting:
            request = waiting.pop(key)
            found.setdefault(request.code, []).append((request, command))
    return found


MANAGE, MQADMIN = captured("manage"), captured("mqadmin")


def shape(value: Any, name: str = "") -> Any:
    """Keys and kinds. A map whose keys are data is the set of shapes in it; so is a list."""
    if isinstance(value, dict):
        keys = {type(key).__name__ for key in value}
        if name in TABLES or keys - {"str"}:
            shapes = {repr(shape(item)): shape(item) for item in value.values()}
            return ["map", sorted(keys), list(shapes.values())[:1]]
        return {key: shape(item, key) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return ["list", max((shape(item, name) for item in value), key=lambda found: len(repr(found)), default=None)]
    return type(value).__name__


@pytest.fixture
def world(tmp_path: Path) -> AdminWorld:
    """A broker about as the captured one was when it was asked."""
    world = AdminWorld(tmp_path, rocketmq_home="/opt/rocketmq")
    for topic in ("ManageTopic", "LiveTopic"):
        world.topics.put(TopicConfig(topic, 2, 2))
        world.fill(topic, 0, [1795275552339, 1795275552350, 1795275552366])
        world.fill(topic, 1, [1795275552348, 1795275552362, 1795275552370])
    for group, topic in (("manage-group", "ManageTopic"), ("live-group", "LiveTopic")):
        world.groups.find(group)
        world.topics.create_on_send_back(f"%RETRY%{group}", 1)
        world.offsets.commit(group, topic, 0, 3)
        world.offsets.commit(group, topic, 1, 2)
        world.connect_consumer(group, topic, f"%RETRY%{group}", remote=f"127.0.0.1:{40000 + len(group)}")
    world.offsets.commit("live-group", "%RETRY%live-group", 0, 0)
    world.connect_producer("live-producers")
    world.connect_producer("manage-producers", "127.0.0.1:49821")
    world.delay_offsets = {1: 2, 2: 1}
    return world


SHAPED = [
    (MANAGE, RequestCode.GET_CONSUMER_CONNECTION_LIST),
    (MANAGE, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO),
    (MANAGE, RequestCode.GET_CONSUME_STATS),
    (MANAGE, RequestCode.QUERY_CONSUME_TIME_SPAN),
    (MANAGE, RequestCode.QUERY_CORRECTION_OFFSET),
    (MANAGE, RequestCode.GET_ALL_TOPIC_CONFIG),
    (MANAGE, RequestCode.GET_ALL_CONSUMER_OFFSET),
    (MANAGE, RequestCode.GET_ALL_DELAY_OFFSET),
    (MANAGE, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    (MANAGE, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    (MANAGE, RequestCode.GET_ALL_PRODUCER_INFO),
    (MQADMIN, RequestCode.GET_PRODUCER_CONNECTION_LIST),
    (MQADMIN, RequestCode.GET_BROKER_CONSUME_STATS),
    (MQADMIN, RequestCode.QUERY_CONSUME_QUEUE),
    (MQADMIN, RequestCode.GET_CONSUME_STATS),
]


@pytest.mark.parametrize(("scenario", "code"), SHAPED, ids=lambda value: getattr(value, "name", ""))
def test_answer_has_the_same_form_as_apaches(
    scenario: dict[int, list[tuple[RemotingCommand, RemotingCommand]]], code: RequestCode, world: AdminWorld
) -> None:
    request, theirs = next((request, answer) for request, answer in scenario[code] if answer.code == 0)
    ours = world.ask(code, request.ext_fields, request.body)
    assert (ours.code, ours.remark) == (0, None)
    assert shape(fastjson.loads(ours.body)) == shape(fastjson.loads(theirs.body))
    # Bare keys are not JSON; who parses them expects them exactly so.
    for mark in (b'{{"brokerName":', b"{0:"):
        assert (mark in ours.body) == (mark in theirs.body)


DONE = [
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
]


@pytest.mark.parametrize("code", DONE, ids=lambda code: str(code.name))
def test_administrative_request_of_mqadmin_is_executed(code: RequestCode, world: AdminWorld) -> None:
    for request, theirs in MQADMIN[code]:
        if theirs.code == 0:
            ours = world.ask(code, request.ext_fields, request.body)
            assert (ours.code, ours.remark, ours.body) == (0, None, b"")


@pytest.mark.parametrize("scenario", [MANAGE, MQADMIN], ids=["manage", "mqadmin"])
def test_request_refused_by_apache_is_refused_with_the_same_code(
    scenario: dict[int, list[tuple[RemotingCommand, RemotingCommand]]], world: AdminWorld
) -> None:
    refused = 0
    for code, pairs in scenario.items():
        if code not in world.handlers.codes():
            continue
        for request, theirs in pairs:
            if theirs.code != 0:
                ours = world.ask(code, request.ext_fields, request.body)
                assert (ours.code, ours.body) == (theirs.code, b""), (request, theirs)
                assert ours.remark
                refused += 1
    assert refused or scenario is MANAGE


def test_mqadmin_can_change_the_flush_interval(world: AdminWorld) -> None:
    request, _ = MQADMIN[RequestCode.UPDATE_BROKER_CONFIG][0]
    assert request.body == b"flushIntervalCommitLog=600\n"
    assert world.ask(25, None, request.body).code == 0
    assert world.store_config.flush_interval_commit_log == 600
    assert world.announced == 1


def test_configuration_has_every_key_of_apaches(world: AdminWorld) -> None:
    request, theirs = MANAGE[RequestCode.GET_BROKER_CONFIG][0]
    ours = world.ask(26, request.ext_fields)
    shown, expected = decode_properties_text(ours.body), decode_properties_text(theirs.body)
    assert expected.keys() - shown.keys() == set()
    assert fixed_values(65536).keys() <= BROKER_UNUSED.keys() | STORE_UNUSED.keys()
    assert shown["bitMapLengthConsumeQueueExt"] == expected["bitMapLengthConsumeQueueExt"] == "112"
    assert fastjson.loads(ours.ext["version"]).keys() == fastjson.loads(theirs.ext["version"]).keys()
    same = ("brokerName", "brokerIP1", "listenPort", "haListenPort", "autoCreateTopicEnable", "flushDiskType")
    assert {key: shown[key] for key in same} == {key: expected[key] for key in same}


def test_runtime_figures_have_apaches_keys_and_those_of_headrace(world: AdminWorld) -> None:
    _, theirs = MANAGE[RequestCode.GET_BROKER_RUNTIME_INFO][0]
    table = fastjson.loads(world.ask(28).body)["table"]
    expected = fastjson.loads(theirs.body)["table"]

    def fixed(keys: dict[str, str]) -> set[str]:
        return {key for key in keys if not key.startswith(("commitLogDiskRatio_", "scheduleMessageOffset_"))}

    assert fixed(table) == fixed(expected) | {"haSlaveCount", "runningFlags", "timerCongestNum"}
    assert table["timerCongestNum"] == "3"
    assert table["runningFlags"] == "0"
    assert all(isinstance(value, str) for value in table.values())
    assert table["scheduleMessageOffset_1"] == "2,0"
    assert table["remainHowManyDataToFlush"] == expected["remainHowManyDataToFlush"] == "250 B"
    assert table["brokerVersionDesc"] == "V4_9_8"
