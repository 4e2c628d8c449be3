"""Every record in RocketMQ's CommitLogs decodes as in RocketMQ and encodes to the same bytes."""

import base64
import hashlib
import ipaddress
from pathlib import Path
from typing import Any

import pytest

from headrace.model import MessageExt, tags_code
from headrace.protocol import fastjson
from headrace.protocol.bodies import (
    ConsumerFilterWrapper,
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    JsonBody,
    LmqConsumerOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from headrace.protocol.record import check_record, decode_record, encode_blank, encode_message
from support import golden

every_store = pytest.mark.parametrize("store", golden.stores())

CONFIG_FILES: dict[str, type[JsonBody]] = {
    "topics.json": TopicConfigSerializeWrapper,
    "subscriptionGroup.json": SubscriptionGroupWrapper,
    "consumerOffset.json": ConsumerOffsetSerializeWrapper,
    "delayOffset.json": DelayOffsetSerializeWrapper,
    "lmqConsumerOffset.json": LmqConsumerOffsetSerializeWrapper,
    "consumerFilter.json": ConsumerFilterWrapper,
}


def host_text(host: tuple[str, int]) -> str:
    """A host as in the expected files: IPv6 in full, without brackets."""
    address, port = host
    if ":" in address:
        address = ":".join(f"{int(word, 16):x}" for word in ipaddress.IPv6Address(address).exploded.split(":"))
    return f"{address}:{port}"


def as_line(message: MessageExt) -> dict[str, Any]:
    """The message with the field names of the expected files."""
    found: dict[str, Any] = {
        "offset": message.physical_offset,
        "size": message.size_bytes,
        "bodyCRC": message.body_crc,
        "queueId": message.queue_id,
        "flag": message.flag,
        "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": host_text(message.born_host),
        "storeTimestamp": message.store_timestamp,
        "storeHost": host_text(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "topic": message.topic,
        "properties": message.properties,
        "propertiesString": message.properties_raw.decode(),
        "offsetMsgId": message.offset_message_id,
        "bodyLength": len(message.body),
    }
    if len(message.body) <= 256:
        found["body"] = base64.b64encode(message.body).decode()
    else:
        found["bodySha256"] = hashlib.sha256(message.body).hexdigest()
    return found


def log_files(store: str, target: Path) -> dict[str, memoryview]:
    root = golden.unpack(store, target)
    return {path.name: memoryview(path.read_bytes()) for path in (root / "commitlog").iterdir()}


@every_store
def test_records_decode_as_in_rocketmq_and_encode_to_the_same_bytes(store: str, tmp_path: Path) -> None:
    files = log_files(store, tmp_path)
    records = [line for line in golden.expected(store) if line["kind"] == "record"]
    assert records
    for line in records:
        data, at = files[line["file"]], line["position"]
        message = decode_record(data, at)
        expected = {
            key: value
            for key, value in line.items()
            if key not in ("kind", "file", "position", "magic") and not key.startswith("plainBody")
        }
        assert as_line(message) == expected
        assert encode_message(message, magic=line["magic"]) == data[at : at + line["size"]]
        assert check_record(data, at) == (True, line["size"])


@every_store
def test_compressed_bodies_decompress_to_the_sent_bytes(store: str, tmp_path: Path) -> None:
    files = log_files(store, tmp_path)
    for line in golden.expected(store):
        if line["kind"] == "record" and "plainBodyLength" in line:
            message = decode_record(files[line["file"]], line["position"], inflate=True)
            assert not message.is_compressed
            assert len(message.body) == line["plainBodyLength"]
            if "plainBodySha256" in line:
                assert hashlib.sha256(message.body).hexdigest() == line["plainBodySha256"]


@every_store
def test_log_scan_ends_at_the_same_offset_as_rocketmqs(store: str, tmp_path: Path) -> None:
    files = log_files(store, tmp_path)
    ends = {line["file"]: line for line in golden.expected(store) if line["kind"] in ("blank", "end")}
    assert ends.keys() == files.keys()
    for name, data in files.items():
        at = 0
        while (check := check_record(data, at)).is_ok and not check.is_blank:
            at += check.size
        assert at == ends[name]["position"]
        assert check.is_blank == (ends[name]["kind"] == "blank")
        if check.is_blank:
            assert encode_blank(ends[name]["size"]) == data[at : at + 8]
            assert at + ends[name]["size"] == len(data)


@every_store
def test_tag_hash_codes_equal_those_in_the_consume_queues(store: str) -> None:
    lines = list(golden.expected(store))
    records = {line["offset"]: line for line in lines if line["kind"] == "record"}
    compared = 0
    for line in lines:
        if (
            line["kind"] == "queue"
            and line["topic"] == records[line["offset"]]["topic"]
            and not line["topic"].startswith("SCHEDULE")
        ):
            compared += 1
            assert line.get("extTagsCode", line["tagsCode"]) == tags_code(
                records[line["offset"]]["properties"].get("TAGS")
            )
    assert compared


@every_store
def test_configuration_files_round_trip_byte_for_byte(store: str, tmp_path: Path) -> None:
    root = golden.unpack(store, tmp_path)
    files = sorted((root / "config").glob("*.json"))
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        if (store, path.name) == ("slave", "delayOffset.json"):
            # A slave writes this file as received.
            assert fastjson.dumps(fastjson.loads(text)) == text
            continue
        assert fastjson.dumps_pretty(fastjson.loads(text)) == text, path.name
        if path.name in CONFIG_FILES and store != "v5":
            assert CONFIG_FILES[path.name].decode(text).encode_pretty() == text, path.name
