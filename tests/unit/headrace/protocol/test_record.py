import random
import tracemalloc
from typing import Any

import pytest
import zstandard

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model import decode_properties, sys_flag
from headrace.protocol import compression
from headrace.protocol.compression import compress, decompress, decompress_beginning
from headrace.protocol.record import (
    RecordCheck,
    body_crc,
    check_record,
    decode_record,
    decode_records,
    encode_blank,
    encode_message,
    encode_record,
)
from headrace.protocol.record_layout import BLANK_MAGIC, MESSAGE_MAGIC_V2, RECORD_OVERHEAD, store_timestamp_at

PROPERTIES = (
    "KEYS\x01order-1001\x02UNIQ_KEY\x017F00000100012A139A550E5D5B500000\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
)
WORKED = bytes.fromhex(
    "000000ccdaa320a769c865ed00000002000000000000000000000007000000004000040000000000"
    "0000018bcfe5687bc0a8010a0000c8220000018bcfe569c80a00000500002a9f00000000000000000000000000"
    "00000e48656c6c6f20526f636b65744d5109546f70696354657374005a4b455953016f726465722d31303031"
    "02554e49515f4b455901374630303030303130303031324131333941353530453544354235303030303002434c"
    "55535445520144656661756c74436c757374657202544147530154616741"
)


def worked(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "topic": "TopicTest",
        "body": b"Hello RocketMQ",
        "properties": PROPERTIES,
        "queue_id": 2,
        "queue_offset": 7,
        "physical_offset": (1 << 30) + 1024,
        "born_timestamp": 1700000000123,
        "born_host": ("192.168.1.10", 51234),
        "store_timestamp": 1700000000456,
        "store_host": ("10.0.0.5", 10911),
    }
    return encode_record(**(fields | changes))


def test_worked_example_is_encoded_byte_for_byte() -> None:
    assert worked() == WORKED
    assert len(WORKED) == RECORD_OVERHEAD + 14 + 9 + 90


def test_worked_example_is_decoded_field_for_field() -> None:
    message = decode_record(b"xx" + WORKED + b"yy", 2)
    assert (message.topic, message.queue_id, message.queue_offset) == ("TopicTest", 2, 7)
    assert (message.born_host, message.store_host) == (("192.168.1.10", 51234), ("10.0.0.5", 10911))
    assert (message.born_timestamp, message.store_timestamp) == (1700000000123, 1700000000456)
    assert (message.body, message.body_crc, message.size_bytes) == (b"Hello RocketMQ", 1774740973, 204)
    assert message.properties == decode_properties(PROPERTIES)
    assert message.properties_raw == PROPERTIES.encode()
    assert message.offset_message_id == "0A00000500002A9F0000000040000400"
    assert encode_message(message) == WORKED


@pytest.mark.parametrize(
    ("born", "store", "extra", "bits"),
    [
        ("2001:db8::1", "10.0.0.5", 12, sys_flag.BORN_HOST_V6),
        ("10.0.0.5", "2001:db8::1", 12, sys_flag.STORE_HOST_V6),
        ("2001:db8::1", "2001:db8::2", 24, sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6),
    ],
)
def test_ipv6_hosts_are_longer_and_marked_in_the_sys_flag(born: str, store: str, extra: int, bits: int) -> None:
    record = worked(born_host=(born, 1), store_host=(store, 2), sys_flag=0x301)
    message = decode_record(record)
    assert (message.born_host, message.store_host, message.sys_flag) == ((born, 1), (store, 2), 0x301 | bits)
    assert len(record) == len(WORKED) + extra
    assert check_record(record) == (True, len(record))
    assert int.from_bytes(record[store_timestamp_at(bits) :][:8], "big") == 1700000000456
    assert worked(sys_flag=0x30) == WORKED, "bits that are not true are cleared"


def test_long_topic_needs_the_second_version() -> None:
    with pytest.raises(LocalProtocolError):
        worked(topic="t" * 128)
    record = worked(topic="t" * 255, magic=MESSAGE_MAGIC_V2)
    assert decode_record(record).topic == "t" * 255
    assert check_record(record) == (True, len(record))
    with pytest.raises(LocalProtocolError):
        worked(topic="t" * 256, magic=MESSAGE_MAGIC_V2)


def test_message_too_large_for_a_record_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        worked(properties="p" * 32768)
    with pytest.raises(LocalProtocolError):
        worked(queue_id=1 << 40)


def test_empty_record_has_only_the_overhead_and_no_crc() -> None:
    record = encode_record(topic="", body=b"")
    assert len(record) == RECORD_OVERHEAD
    assert decode_record(record).body_crc == 0 == body_crc(b"")


def test_consecutive_records_are_decoded() -> None:
    assert [message.queue_id for message in decode_records(worked(queue_id=1) + worked(queue_id=2))] == [1, 2]
    assert decode_records(b"") == []
    with pytest.raises(RemoteProtocolError):
        decode_records(WORKED + WORKED[:50])


@pytest.mark.parametrize("cut", [0, 3, 7, 50, 88, 100, 110, 112, 113, 203])
def test_truncated_record_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(WORKED[:cut])
    assert check_record(WORKED[:cut]) == (False, -1)


def patched(at: int, data: bytes) -> bytes:
    return WORKED[:at] + data + WORKED[at + len(data) :]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WORKED, (True, 204)),
        (WORKED + b"trailing", (True, 204)),
        (encode_blank(4096) + bytes(4088), (True, 0)),
        (bytes(100), (False, -1)),
        (patched(4, b"\x00\x00\x00\x01"), (False, -1)),
        (patched(90, b"X"), (False, -1)),  # the body is another
        (patched(0, (205).to_bytes(4, "big")), (False, 205)),
        (patched(0, (-5).to_bytes(4, "big", signed=True)), (False, -1)),
        (patched(84, (-1).to_bytes(4, "big", signed=True)), (False, -1)),
        (patched(84, (1 << 30).to_bytes(4, "big")), (False, -1)),
        (patched(102, b"\xff"), (False, -1)),
        (patched(112, b"\x7f\xff"), (False, -1)),
        (patched(112, b"\x00\x59"), (False, 204)),
        (patched(112, b"\xff\xff"), (False, 204)),  # negative: no properties, so the lengths do not agree
    ],
)
def test_record_is_checked_as_by_recovery(data: bytes, expected: Any) -> None:
    assert check_record(data) == expected


def test_body_crc_is_checked_only_on_request() -> None:
    assert check_record(patched(90, b"X"), check_crc=False) == (True, 204)


def test_check_recognises_a_blank_record() -> None:
    assert check_record(encode_blank(8)).is_blank
    assert not check_record(WORKED).is_blank
    assert not RecordCheck(is_ok=False, size=0).is_blank


def test_blank_record_needs_eight_bytes() -> None:
    assert encode_blank(4096).hex() == "00001000cbd43194"
    assert BLANK_MAGIC == -875286124
    with pytest.raises(LocalProtocolError):
        encode_blank(7)


@pytest.mark.parametrize("kind", [0, sys_flag.COMPRESSION_LZ4, sys_flag.COMPRESSION_ZSTD, sys_flag.COMPRESSION_ZLIB])
def test_compressed_body_is_decompressed_on_request(kind: Any) -> None:
    plain = b"Hello RocketMQ" * 100
    flag = sys_flag.COMPRESSED | kind
    body = compress(plain, flag)
    assert len(body) < len(plain)
    record = worked(body=body, sys_flag=flag)
    assert decode_record(record).body == body
    inflated = decode_record(record, inflate=True)
    assert (inflated.body, inflated.is_compressed) == (plain, False)
    for broken in (body[:-3], b"", b"garbage" * 9):
        with pytest.raises(RemoteProtocolError):
            decompress(broken, flag)


def test_decompression_bomb_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_PLAIN_SIZE", 1 << 20)
    body = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(256 << 20))
    assert len(body) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="or larger than 1048576 bytes"):
            decompress(body, sys_flag.COMPRESSION_ZSTD)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    plain = random.Random(7).randbytes(1 << 19) + bytes(1 << 18)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    assert decompress(unsized, sys_flag.COMPRESSION_ZSTD) == plain
    with pytest.raises(RemoteProtocolError):
        decompress(unsized[:-5], sys_flag.COMPRESSION_ZSTD)


@pytest.mark.parametrize("kind", [sys_flag.COMPRESSION_LZ4, sys_flag.COMPRESSION_ZSTD, sys_flag.COMPRESSION_ZLIB])
def test_beginning_of_a_compressed_body_takes_no_memory_for_the_rest(kind: int) -> None:
    plain = b"x" * (64 << 20)
    bodies = [compress(plain, kind)]
    if kind == sys_flag.COMPRESSION_ZSTD:
        bodies.append(zstandard.ZstdCompressor(write_content_size=False).compress(plain))
    for body in bodies:
        tracemalloc.start()
        try:
            assert decompress_beginning(body, kind, 480) == (plain[:480], False)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
    assert decompress_beginning(compress(b"short", kind), kind, 5) == (b"short", True)
    assert decompress_beginning(compress(b"short", kind), kind, 4) == (b"shor", False)
    with pytest.raises(RemoteProtocolError, match="cannot be decompressed"):
        decompress_beginning(b"garbage" * 9, kind, 480)


def test_unknown_compression_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(b"x", 0x701)
    with pytest.raises(RemoteProtocolError):
        decompress_beginning(b"x", 0x701, 1)
    with pytest.raises(LocalProtocolError):
        compress(b"x", 0x701)
