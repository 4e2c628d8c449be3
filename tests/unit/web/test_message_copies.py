import pytest

from headrace import MessageExt
from headrace.model import sys_flag
from headrace.protocol.compression import compress
from web.errors import Invalid
from web.pages.messages.copies import copy_for_group, copy_for_topic, original_topic


def stored(topic: str, **properties: str) -> MessageExt:
    return MessageExt(topic, body=b"body", flag=7, properties={"UNIQ_KEY": "0A", **properties})


def test_copy_has_what_the_sender_set_and_nothing_of_brokers() -> None:
    given = {"TAGS": "paid", "KEYS": "order-1", "__SHARDINGKEY": "7", "colour": "<red>"}
    brokers = {
        "MIN_OFFSET": "0",
        "CLUSTER": "DefaultCluster",
        "TIMER_DELIVER_MS": "1",
        "DELAY": "3",
        "TRAN_MSG": "true",
    }
    copy = copy_for_topic(stored("Orders", **given, **brokers))
    assert (copy.topic, copy.body, copy.flag) == ("Orders", b"body", 7)
    assert copy.properties == given


@pytest.mark.parametrize(
    ("topic", "properties", "original"),
    [
        ("%DLQ%group", {"RETRY_TOPIC": "Orders"}, "Orders"),
        ("%RETRY%group", {"RETRY_TOPIC": "Orders"}, "Orders"),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "Orders"}, "Orders"),
        ("Orders", {"RETRY_TOPIC": "Others", "REAL_TOPIC": "Others"}, "Orders"),
    ],
)
def test_copy_goes_to_the_original_topic(topic: str, properties: dict[str, str], original: str) -> None:
    assert original_topic(stored(topic, **properties)) == original


def test_copy_for_a_group_goes_through_its_retry_topic_as_if_never_retried() -> None:
    dead = stored("%DLQ%group", RETRY_TOPIC="Orders", ORIGIN_MESSAGE_ID="FIRST", RECONSUME_TIME="16", colour="red")
    copy = copy_for_group(dead, "group")
    assert copy.topic == "%RETRY%group"
    assert copy.properties == {"colour": "red", "RETRY_TOPIC": "Orders", "ORIGIN_MESSAGE_ID": "FIRST"}


def test_copy_has_the_decompressed_body_up_to_a_limit() -> None:
    bomb = compress(bytes(5 << 20), sys_flag.COMPRESSION_ZLIB, 9)
    message = stored("Orders")
    message.sys_flag = sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB
    message.body = compress(b"plain", sys_flag.COMPRESSION_ZLIB, 5)
    assert copy_for_topic(message).body == b"plain"
    message.body = bomb
    with pytest.raises(Invalid, match="larger than 4194304 bytes"):
        copy_for_topic(message)
