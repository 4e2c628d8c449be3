"""How far consumers have come, and who is connected: the figures, not only their shape."""

from pathlib import Path
from typing import Any

import pytest

from headrace.model.message_queue import MessageQueue
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson
from headrace.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    TopicOffset,
    TopicStatsTable,
)
from headrace.protocol.remoting_command import create_request
from support.admin_world import AdminWorld

LONG_MAX = 2**63 - 1


@pytest.fixture
def world(tmp_path: Path) -> AdminWorld:
    world = AdminWorld(tmp_path)
    world.topics.put(TopicConfig("T", read_queue_count=1, write_queue_count=2))
    world.fill("T", 0, [100, 200, 300], first_offset=10)
    return world


def queue(queue_id: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


# -- 202 ------------------------------------------------------------------------------------------------------------------


def test_topic_statistics_cover_the_write_queues(world: AdminWorld) -> None:
    table = TopicStatsTable.decode(world.ask(202, {"topic": "T"}).body).offset_table
    assert table == {queue(0): TopicOffset(10, 13, 300), queue(1): TopicOffset(0, 0, 0)}


def test_unknown_topic_has_no_statistics(world: AdminWorld) -> None:
    for code, ext in ((202, {"topic": "X"}), (303, {"topic": "X", "group": "g"})):
        answer = world.ask(code, ext)
        assert (answer.code, answer.remark) == (17, "topic[X] not exist")


def test_statistics_of_a_topic_with_many_queues_are_complete(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("Wide", 200, 200))
    assert len(TopicStatsTable.decode(world.ask(202, {"topic": "Wide"}).body).offset_table) == 200


# -- 208, 317 -------------------------------------------------------------------------------------------------------------


def test_progress_of_a_group_covers_the_read_queues(world: AdminWorld) -> None:
    world.offsets.commit("g", "T", 0, 12)
    stats = ConsumeStats.decode(world.ask(208, {"consumerGroup": "g"}).body)
    assert stats.offset_table == {queue(0): OffsetWrapper(13, 12, 200)}
    assert stats.total_diff == 1


def test_missing_offset_counts_as_zero(world: AdminWorld) -> None:
    stats = ConsumeStats.decode(world.ask(208, {"consumerGroup": "g", "topic": "T"}).body)
    assert stats.offset_table == {queue(0): OffsetWrapper(13, 0, 0)}


def test_deleted_message_has_no_time(world: AdminWorld) -> None:
    world.offsets.commit("g", "T", 0, 5)
    stats = ConsumeStats.decode(world.ask(208, {"consumerGroup": "g"}).body)
    assert stats.offset_table == {queue(0): OffsetWrapper(13, 5, 0)}


def test_unknown_group_has_an_empty_table(world: AdminWorld) -> None:
    answer = world.ask(208, {"consumerGroup": "nobody"})
    assert (answer.code, answer.body) == (0, b'{"consumeTps":0.0,"offsetTable":{}}')


def test_topics_without_a_subscription_are_omitted_for_a_connected_group(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("U", 1, 1))
    for topic in ("T", "U", "Deleted"):
        world.offsets.commit("g", topic, 0, 1)
    assert ConsumeStats.decode(world.ask(208, {"consumerGroup": "g"}).body).offset_table.keys() == {
        queue(0),
        queue(0, "U"),
    }
    world.connect_consumer("g", "U")
    assert ConsumeStats.decode(world.ask(208, {"consumerGroup": "g"}).body).offset_table.keys() == {queue(0, "U")}


def test_progress_of_the_broker_has_every_group_and_the_sum(world: AdminWorld) -> None:
    world.groups.find("g")
    world.offsets.commit("g", "T", 0, 11)
    found = ConsumeStatsList.decode(world.ask(317, {"isOrder": "false"}).body)
    assert found.broker_addr == "127.0.0.1:21011"
    assert found.total_diff == 2
    by_group: dict[str, list[ConsumeStats]] = {}
    for entry in found.consume_stats_list:
        by_group |= entry
    assert by_group.keys() == world.groups.all().keys()
    assert [stats.offset_table.keys() for stats in by_group["g"]] == [{queue(0), queue(1)}]
    assert by_group["TOOLS_CONSUMER"] == []


@pytest.mark.parametrize(("code", "ext"), [(208, {"consumerGroup": "g"}), (317, {"isOrder": "false"})])
def test_progress_gives_way_to_other_requests_after_each_topic(
    world: AdminWorld, code: int, ext: dict[str, str]
) -> None:
    topics = 100
    world.groups.find("g")
    for number in range(topics):
        world.topics.put(TopicConfig(f"T{number}", 4, 4))
        world.offsets.commit("g", f"T{number}", 0, 0)
    answer: Any = world.handlers.handler_for(code)(None, create_request(code, ext))  # type: ignore[arg-type]
    steps = len(list(answer.__await__()))
    assert steps >= topics


def test_only_ordered_topics_are_returned_on_request(world: AdminWorld) -> None:
    world.groups.find("g")
    world.topics.put(TopicConfig("O", 1, 1, order=True))
    for topic in ("T", "O"):
        world.offsets.commit("g", topic, 0, 1)
    found = ConsumeStatsList.decode(world.ask(317, {"isOrder": "true"}).body)
    queues = [
        key
        for entry in found.consume_stats_list
        for all_of in entry.values()
        for one in all_of
        for key in one.offset_table
    ]
    assert queues == [queue(0, "O")]


@pytest.mark.parametrize("topic", ["T", "%RETRY%g", 'odd "ü'])
def test_tables_have_the_text_of_the_protocol(world: AdminWorld, topic: str) -> None:
    world.topics.put(TopicConfig(topic, read_queue_count=3, write_queue_count=3))
    world.fill(topic, 1, [100, 200, 300], first_offset=10)
    world.groups.find("g")
    world.offsets.commit("g", topic, 1, 12)
    for code, ext, kind in (
        (202, {"topic": topic}, TopicStatsTable),
        (208, {"consumerGroup": "g"}, ConsumeStats),
        (317, {"isOrder": "false"}, ConsumeStatsList),
    ):
        text = world.ask(code, ext).body
        assert text == kind.decode(text).encode()
        assert fastjson.quote(topic) in text.decode()


# -- 303 ------------------------------------------------------------------------------------------------------------------


def test_consume_time_span_contains_times_of_messages(world: AdminWorld) -> None:
    world.offsets.commit("g", "T", 0, 12)
    first, second = QueryConsumeTimeSpanBody.decode(
        world.ask(303, {"topic": "T", "group": "g"}).body
    ).consume_time_span_set
    assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (100, 300, 200)
    assert first.delay_time > 1_000_000_000_000
    assert (second.min_time_stamp, second.max_time_stamp, second.delay_time) == (-1, -1, 0)


def test_group_at_the_end_of_a_queue_has_no_delay(world: AdminWorld) -> None:
    world.offsets.commit("g", "T", 0, 13)
    first = QueryConsumeTimeSpanBody.decode(world.ask(303, {"topic": "T", "group": "g"}).body).consume_time_span_set[0]
    assert (first.delay_time, first.consume_time_stamp) == (0, 300)


# -- 308, 314, 43, 45 -----------------------------------------------------------------------------------------------------


def correction(world: AdminWorld, **ext: str) -> dict[int, int]:
    return QueryCorrectionOffsetBody.decode(world.ask(308, {"topic": "T", **ext}).body).correction_offsets


def test_corrected_offset_is_that_of_the_slowest_group(world: AdminWorld) -> None:
    world.offsets.commit("a", "T", 0, 12)
    world.offsets.commit("b", "T", 0, 11)
    world.offsets.commit("old", "T", 0, 3)
    assert correction(world, compareGroup="a") == {0: 11}
    assert correction(world, compareGroup="b") == {0: 11}
    assert correction(world, compareGroup="a", filterGroups="b, c") == {0: 12}
    assert world.offsets.query("b", "T", 0) == 11


def test_group_behind_the_slowest_gets_long_max(world: AdminWorld) -> None:
    world.offsets.commit("a", "T", 0, 12)
    world.offsets.commit("old", "T", 0, 3)
    assert correction(world, compareGroup="old") == {0: LONG_MAX}


def test_queue_without_a_qualifying_group_is_omitted(world: AdminWorld) -> None:
    world.offsets.commit("old", "T", 0, 3)
    assert correction(world, compareGroup="old") == {}


def test_cloned_group_has_the_offsets_of_its_source(world: AdminWorld) -> None:
    world.offsets.commit("a", "T", 0, 12)
    world.offsets.commit("a", "Unknown", 0, 1)
    assert world.ask(314, {"srcGroup": "a", "destGroup": "b", "topic": "T", "offline": "false"}).code == 0
    assert world.offsets.by_topic("b") == {"T": {0: 12}}


def test_every_topic_is_cloned_if_none_is_given(world: AdminWorld) -> None:
    world.topics.put(TopicConfig("U"))
    for topic in ("T", "U"):
        world.offsets.commit("a", topic, 0, 12)
    world.ask(314, {"srcGroup": "a", "destGroup": "b", "offline": "true"})
    assert world.offsets.by_topic("b").keys() == {"T", "U"}


@pytest.mark.parametrize(("offline", "cloned"), [("false", -1), ("true", 12)])
def test_unsubscribed_topics_are_cloned_only_from_an_offline_source(
    world: AdminWorld, offline: str, cloned: int
) -> None:
    world.offsets.commit("a", "T", 0, 12)
    world.connect_consumer("a", "U")
    world.ask(314, {"srcGroup": "a", "destGroup": "b", "topic": "T", "offline": offline})
    assert world.offsets.query("b", "T", 0) == cloned


def test_source_without_offsets_removes_none_of_the_target(world: AdminWorld) -> None:
    world.offsets.commit("b", "T", 0, 12)
    world.ask(314, {"srcGroup": "a", "destGroup": "b", "topic": "T", "offline": "true"})
    assert world.offsets.query("b", "T", 0) == 12


def test_offsets_of_groups_and_of_delay_levels_have_bare_integer_keys(world: AdminWorld) -> None:
    world.offsets.commit("g", "T", 0, 12)
    world.delay_offsets = {1: 7, 18: 2}
    assert world.ask(43).body == b'{"offsetTable":{"T@g":{0:12}}}'
    assert world.ask(45).body == b'{"offsetTable":{1:7,18:2}}'


# -- 203, 204, 328, 300 ---------------------------------------------------------------------------------------------------


def test_missing_connections_are_reported(world: AdminWorld) -> None:
    consumers = world.ask(203, {"consumerGroup": "g"})
    assert (consumers.code, consumers.remark) == (206, "the consumer group[g] not online")
    producers = world.ask(204, {"producerGroup": "p"})
    assert (producers.code, producers.remark) == (1, "the producer group[p] not exist")
    assert world.ask(328).body == b'{"data":{}}'


def test_connections_have_address_language_and_version(world: AdminWorld) -> None:
    world.connect_consumer("g", "T")
    found = fastjson.loads(world.ask(203, {"consumerGroup": "g"}).body)
    assert found["connectionSet"] == [
        {"clientAddr": "127.0.0.1:49844", "clientId": "127.0.0.1@g", "language": "JAVA", "version": 407}
    ]
    assert (found["consumeType"], found["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert found["subscriptionTable"]["T"]["subString"] == "*"


def test_producer_addresses_begin_with_a_slash_as_in_java(world: AdminWorld) -> None:
    world.connect_producer("p")
    data: dict[str, Any] = fastjson.loads(world.ask(328).body)["data"]
    assert data["p"][0]["remoteIP"] == "/127.0.0.1:49820"


def test_consumers_of_a_topic_include_subscribed_groups_and_groups_with_offsets(world: AdminWorld) -> None:
    world.connect_consumer("online", "T")
    world.offsets.commit("gone", "T", 0, 1)
    world.offsets.commit("other", "U", 0, 1)
    assert world.ask(300, {"topic": "T"}).body == b'{"groupList":["gone","online"]}'


# -- 321 ------------------------------------------------------------------------------------------------------------------


def entries(world: AdminWorld, **ext: str) -> QueryConsumeQueueResponseBody:
    given = {"topic": "T", "queueId": "0", "index": "10", "count": "100"}
    return QueryConsumeQueueResponseBody.decode(world.ask(321, {**given, **ext}).body)


def test_entries_are_read_across_files(world: AdminWorld) -> None:
    body = entries(world)
    assert (body.min_queue_index, body.max_queue_index) == (10, 13)
    assert body.queue_data is not None
    assert [(entry.physic_offset, entry.physic_size, entry.tags_code) for entry in body.queue_data] == [
        (2000, 200, 17),
        (2200, 200, 18),
        (2400, 200, 19),
    ]


@pytest.mark.parametrize(("count", "given"), [("2", 2), ("0", 0), ("-5", 0)])
def test_at_most_the_requested_number_of_entries_is_returned(world: AdminWorld, count: str, given: int) -> None:
    found = entries(world, count=count).queue_data
    assert len(found or ()) == given


def test_error_for_an_index_out_of_range_contains_the_range(world: AdminWorld) -> None:
    answer = world.ask(321, {"topic": "T", "queueId": "0", "index": "3", "count": "1"})
    assert (answer.code, answer.remark) == (0, "Index 3 of 0@T is not exist!")
    assert QueryConsumeQueueResponseBody.decode(answer.body).min_queue_index == 10


def test_queue_that_was_never_written_is_not_found(world: AdminWorld) -> None:
    answer = world.ask(321, {"topic": "T", "queueId": "1", "index": "0", "count": "1"})
    assert (answer.code, answer.remark) == (1, "1@T is not exist!")


def test_filter_of_the_group_is_returned_with_the_entries(world: AdminWorld) -> None:
    assert entries(world, consumerGroup="g").filter_data == "g@T is not online!"
    world.connect_consumer("g", "T")
    body = entries(world, consumerGroup="g")
    assert body.filter_data == "null"
    assert body.subscription_data is not None
    assert body.subscription_data.topic == "T"


# -- cleaning -------------------------------------------------------------------------------------------------------------


def test_cleaning_requests_are_forwarded_to_the_responsible_role(world: AdminWorld) -> None:
    for code in (306, 316, 329):
        assert world.ask(code).code == 0
    assert (world.cleaned, world.deleted) == (2, 1)
