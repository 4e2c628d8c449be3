import pytest

from headrace.model import (
    DataVersion,
    MessageQueue,
    SubscriptionData,
    TopicConfig,
    decode_host,
    encode_host,
    format_host,
    parse_delay_levels,
    parse_host,
    permission,
    pull_sys_flag,
    sys_flag,
)
from headrace.model.delay_level import DEFAULT_DELAY_LEVELS


def test_default_delay_levels_run_from_a_second_to_two_hours() -> None:
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    assert len(levels) == 18
    assert (levels[0], levels[3], levels[-1]) == (1_000, 30_000, 7_200_000)
    assert parse_delay_levels("1d") == (86_400_000,)


@pytest.mark.parametrize("text", ["1x", "s", "-1s", "1.5s"])
def test_invalid_delay_level_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_delay_levels("1s " + text)


def test_queues_are_ordered_by_topic_then_broker_then_id() -> None:
    queues = [
        MessageQueue("b", "a", 0),
        MessageQueue("a", "b", 1),
        MessageQueue("a", "b", 0),
        MessageQueue("a", "a", 9),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert str(queues[0]) == "MessageQueue [topic=b, brokerName=a, queueId=0]"


def test_versions_are_equal_only_if_time_and_count_are() -> None:
    version = DataVersion(1000, 1)
    assert version.next(2000) == DataVersion(2000, 2)
    assert version != DataVersion(1000, 2)
    assert version != DataVersion(1001, 1)
    assert DataVersion().timestamp > 1_700_000_000_000


def test_subscription_of_tags_has_their_codes() -> None:
    one = SubscriptionData.build("T", "TagA || TagB||", sub_version=5)
    assert one.sub_string == "TagA || TagB||"
    assert one.tags_set == {"TagA", "TagB"}
    assert one.code_set == {2598919, 2598920}
    assert not one.is_all


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_all(expression: str | None) -> None:
    one = SubscriptionData.build("T", expression)
    assert one.is_all
    assert (one.sub_string, one.tags_set, one.code_set) == ("*", frozenset(), frozenset())


def test_sql_subscription_keeps_its_expression() -> None:
    one = SubscriptionData.build("T", "a > 3", "SQL92")
    assert (one.sub_string, one.expression_type, one.tags_set) == ("a > 3", "SQL92", frozenset())
    assert not one.is_all


def test_tag_list_without_tags_is_rejected() -> None:
    with pytest.raises(ValueError):
        SubscriptionData.build("T", "||")


def test_hosts_are_encoded_in_8_or_20_bytes() -> None:
    assert encode_host(("10.0.0.1", 10911)).hex() == "0a00000100002a9f"
    assert decode_host(encode_host(("10.0.0.1", 10911))) == ("10.0.0.1", 10911)
    assert len(encode_host(("fe80::1%eth0", 1))) == 20
    assert decode_host(encode_host(("2001:db8::7", 65535))) == ("2001:db8::7", 65535)
    with pytest.raises(ValueError):
        encode_host(("localhost", 1))


def test_hosts_are_formatted_with_their_port() -> None:
    assert parse_host("10.0.0.1:10911") == ("10.0.0.1", 10911)
    assert parse_host(format_host(("2001:db8::7", 1))) == ("2001:db8::7", 1)
    for text in ("10.0.0.1", "10.0.0.1:", ":x", "a:b:c"):
        with pytest.raises(ValueError):
            parse_host(text)


def test_permissions_are_bits() -> None:
    assert permission.is_readable(6)
    assert permission.is_writeable(6)
    assert not permission.is_inherited(6)
    assert permission.permission_text(7) == "RWX"
    assert permission.permission_text(4) == "R--"
    assert not TopicConfig("T", permission=4).is_writeable
    assert TopicConfig("T").is_readable


def test_sys_flags_are_combined_and_split() -> None:
    assert pull_sys_flag.build(commit_offset=True, suspend=True) == 3
    assert pull_sys_flag.build(subscription=True, lite_pull=True) == 20
    assert sys_flag.compression_type(sys_flag.COMPRESSED) == sys_flag.COMPRESSION_ZLIB
    assert sys_flag.compression_type(0x101) == sys_flag.COMPRESSION_LZ4
    assert sys_flag.with_transaction_type(0x305, sys_flag.TRANSACTION_COMMIT) == 0x309
    assert [sys_flag.is_queued(flag) for flag in (0, 4, 8, 12)] == [True, False, True, False]
