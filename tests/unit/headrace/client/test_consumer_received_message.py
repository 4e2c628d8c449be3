"""ReceivedMessage: decoded on demand, it equals the message decoded at once."""

import copy
import pickle
import random

import pytest

from headrace import MessageExt, MessageQueue, ReceivedMessage
from headrace.client.consuming.received_message import Origin, cut_records
from headrace.errors import RemoteProtocolError
from headrace.model import sys_flag as sys_flags
from headrace.model.properties import encode_properties
from headrace.protocol.compression import compress
from headrace.protocol.record import decode_record, encode_record

QUEUE = MessageQueue("T", "broker-a", 3)
V4, V6 = ("10.0.0.1", 10911), ("2001:db8::1", 10911)
ADDED = {"MIN_OFFSET": "2", "MAX_OFFSET": "9"}


def record(**fields: object) -> bytes:
    given = {"topic": "T", "body": b"body", "queue_id": 3, "queue_offset": 5, "physical_offset": 1234, "born_timestamp": 7, "store_timestamp": 8,
             "born_host": V4, "store_host": V4, "reconsume_times": 2, "flag": 4, "properties": encode_properties({"TAGS": "a", "x": "y"})}  # fmt: skip
    return encode_record(**{**given, **fields})  # type: ignore[arg-type]


def received(data: bytes, queue: MessageQueue = QUEUE, namespace: str | None = None) -> ReceivedMessage:
    (message,) = cut_records(data, Origin(queue, 2, 9, namespace))
    return message


@pytest.mark.parametrize("first", list(MessageExt.__slots__))
@pytest.mark.parametrize("hosts", [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_fields_equal_the_record_in_any_order_of_access(first: str, hosts: tuple[object, object]) -> None:
    data = record(born_host=hosts[0], store_host=hosts[1])
    message, whole = received(data), decode_record(data)
    whole.properties |= ADDED
    getattr(message, first)
    for name in MessageExt.__slots__:
        assert getattr(message, name) == getattr(whole, name), name
    assert (message.tags, message.keys, message.message_id) == ("a", [], whole.message_id)
    assert (message.queue, message.broker_name, message.max_offset, message.transaction_id) == (
        QUEUE,
        "broker-a",
        9,
        None,
    )


def test_compressed_body_is_decompressed_on_access() -> None:
    flag = sys_flags.COMPRESSED | sys_flags.COMPRESSION_ZLIB
    message = received(record(body=compress(b"long " * 1000, flag), sys_flag=flag))
    assert not message.is_compressed
    assert message.body == b"long " * 1000


def test_error_of_a_corrupt_compressed_body_names_queue_and_offset() -> None:
    message = received(record(body=b"no zlib", sys_flag=sys_flags.COMPRESSED))
    with pytest.raises(RemoteProtocolError, match="offset 5 of MessageQueue"):
        _ = message.body


def test_retried_message_has_its_original_topic_without_the_namespace() -> None:
    queue = MessageQueue("%RETRY%ns%g", "broker-a", 0)
    data = record(topic="%RETRY%ns%g", properties=encode_properties({"RETRY_TOPIC": "ns%Orders"}))
    message = received(data, queue, "ns")
    assert message.topic == "Orders"
    assert message.queue == MessageQueue("%RETRY%g", "broker-a", 0)
    assert received(record(topic="ns%Orders"), MessageQueue("ns%Orders", "broker-a", 0), "ns").topic == "Orders"


def test_received_message_can_be_copied_and_pickled() -> None:
    message = received(record())
    for twin in (pickle.loads(pickle.dumps(message)), copy.copy(message), copy.deepcopy(message)):
        assert twin == message
        assert twin.queue == QUEUE


def test_attribute_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'boddy'"):
        _ = received(record()).boddy


def test_pull_bodies_are_split_at_record_boundaries() -> None:
    data = [record(queue_offset=at, body=b"x" * at) for at in range(40)]
    found = cut_records(b"".join(data), Origin(QUEUE, 0, 40))
    assert [message.queue_offset for message in found] == list(range(40))
    assert [len(message.body) for message in found] == list(range(40))


def test_invalid_records_raise_only_remote_protocol_error() -> None:
    chance = random.Random(3)
    whole = record() + record()
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            for message in cut_records(bytes(data[: chance.randint(0, len(data))]), Origin(QUEUE, 0, 1)):
                _ = message.body, message.properties
        except RemoteProtocolError:
            continue
