import pytest

from headrace.model import names


@pytest.mark.parametrize("topic", ["T", "TopicTest", "%RETRY%group", "a|b", "a-b_c%9", "x" * 127])
def test_valid_topic_name_has_no_problem(topic: str) -> None:
    assert names.topic_problem(topic) is None


@pytest.mark.parametrize("topic", [None, "", " ", "a b", "a.b", "naïve", "x" * 128, "a\n"])
def test_invalid_topic_name_has_a_problem(topic: str) -> None:
    assert names.topic_problem(topic)


def test_groups_may_be_longer_than_topics() -> None:
    assert names.group_problem("g" * 255) is None
    assert names.group_problem("g" * 256)
    assert names.group_problem(None)
    assert names.group_problem("a b")


def test_topics_are_derived_from_groups_and_clusters() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.group_of_retry_topic("%RETRY%g") == "g"
    assert names.is_retry_topic("%RETRY%g")
    assert not names.is_retry_topic("g")


def test_system_topics_and_groups_are_recognized() -> None:
    assert names.is_system_topic("SCHEDULE_TOPIC_XXXX")
    assert names.is_system_topic("rmq_sys_wheel_timer")
    assert not names.is_system_topic("RMQ_SYS_other")
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not names.is_system_group("CID_x")
