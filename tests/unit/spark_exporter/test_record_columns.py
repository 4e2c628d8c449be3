"""The decoder's columns are what the plain record codec reads, compiled or not, whatever is in the records."""

import pickle
import random
import zlib
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import HeadraceError
from headrace.model.host import format_host
from headrace.model.message_id import encode_offset_message_id
from headrace.protocol.compression import compress
from headrace.protocol.record import check_record, decode_record, encode_blank, encode_record
from headrace.protocol.record_layout import BLANK_MAGIC, MESSAGE_MAGIC_V2
from spark_exporter.reading import record_columns
from spark_exporter.reading.arrow_batches import as_batch
from spark_exporter.reading.record_columns import BAD, BLANK, END, FULL, MORE, RecordColumns
from support.interpreted import run_interpreted

BASE = 1 << 30
NOW = 1_795_000_000_000


def decode_rows(data: bytes, **options: Any) -> tuple[int, int, list[dict[str, Any]], list[tuple[int, int, str]]]:
    """All that one call says: its answer, how far it came, the rows, the damage."""
    columns = RecordColumns(lambda _topic: True, **options)
    answer = columns.decode(memoryview(data), BASE, 0, len(data), BASE + len(data))
    batch = as_batch(columns, "c", "b")
    batch.validate(full=True)
    return answer, columns.position, [as_plain(row) for row in batch.to_pylist()], columns.damaged


def as_plain(row: dict[str, Any]) -> dict[str, Any]:
    row["properties"] = dict(row["properties"])
    for name in ("born_timestamp", "store_timestamp"):
        row[name] = None if row[name] is None else round(row[name].timestamp() * 1000)
    return row


def expected(data: bytes, at: int) -> dict[str, Any]:
    """The row, by the plain codec."""
    message = decode_record(data, at, inflate=True)
    raw = decode_record(data, at)
    properties = message.properties
    return {
        "cluster": "c", "broker_name": "b", "topic": message.topic, "queue_id": message.queue_id,
        "queue_offset": message.queue_offset, "commit_log_offset": message.physical_offset, "store_size": message.size_bytes,
        "msg_id": properties.get("UNIQ_KEY"),
        "offset_msg_id": encode_offset_message_id(message.store_host, message.physical_offset),
        "keys": properties.get("KEYS"), "tags": properties.get("TAGS"),
        "born_timestamp": message.born_timestamp if -62135596800000 <= message.born_timestamp <= 253402300799999 else None,
        "store_timestamp": message.store_timestamp, "born_host": format_host(message.born_host),
        "store_host": format_host(message.store_host), "reconsume_times": message.reconsume_times, "flag": message.flag,
        "sys_flag": raw.sys_flag, "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc, "real_topic": properties.get("REAL_TOPIC"), "retry_topic": properties.get("RETRY_TOPIC"),
        "properties": {name: value for name, value in properties.items() if name not in {"UNIQ_KEY", "KEYS", "TAGS"}},
        "body": message.body,
    }  # fmt: skip


def random_log(seed: int, records: int = 60) -> tuple[bytes, list[int]]:
    """Records of every kind, one after the other, and where they lie."""
    chance = random.Random(seed)
    data, places = bytearray(), []
    hosts = [
        ("10.0.0.1", 4000),
        ("192.168.100.200", 65535),
        ("::1", 10911),
        ("2001:db8::ff", -1),
        ("::ffff:1.2.3.4", 1),
    ]
    for number in range(records):
        body = chance.randbytes(chance.choice([0, 1, 100, 5000]))
        sys_flag = chance.choice([0, 0, 2, 4, 8, 12, 0x101, 0x201, 0x301, 1, 0xC0])
        if sys_flag & 1:
            body = compress(body, sys_flag)
        v2 = chance.random() < 0.2
        places.append(len(data))
        data += encode_record(
            topic="T" * (200 if v2 and number % 2 else chance.randint(1, 127)) if number % 3 else "Aufträge",
            body=body,
            properties=random_properties(chance),
            queue_id=chance.randint(-(1 << 31), (1 << 31) - 1),
            queue_offset=chance.randint(-(1 << 63), (1 << 63) - 1),
            physical_offset=BASE + len(data),
            sys_flag=sys_flag,
            flag=chance.randint(-(1 << 31), (1 << 31) - 1),
            born_timestamp=chance.choice([NOW + number, 0, -1, (1 << 63) - 1, -(1 << 63)]),
            born_host=chance.choice(hosts),
            store_timestamp=NOW + number,
            store_host=chance.choice(hosts),
            reconsume_times=chance.randint(0, 16),
            prepared_transaction_offset=chance.randint(0, 1 << 40),
            **({"magic": MESSAGE_MAGIC_V2} if v2 else {}),
        )
    return bytes(data), places


def random_properties(chance: random.Random) -> bytes:
    names = [
        "KEYS",
        "TAGS",
        "UNIQ_KEY",
        "REAL_TOPIC",
        "RETRY_TOPIC",
        "CLUSTER",
        "k",
        "ключ",
        "🚀",
        "KEYS2",
        "x" * 10,
        "y" * 11,
    ]
    pieces = []
    for _ in range(chance.choice([0, 1, 3, 8, 100])):
        name, value = chance.choice(names), chance.choice(["", "v", "värde", "a\x01b", "many words", "🚀" * 20])
        pieces.append(chance.choice([f"{name}\x01{value}", f"{name}\x01{value}", name, "", "\x01", f"\x01{value}"]))
    data = "\x02".join(pieces).encode() + chance.choice([b"", b"\x02"])
    if data and chance.random() < 0.2:
        spoilt = bytearray(data)
        spoilt[chance.randrange(len(spoilt))] = chance.choice([0xFF, 0x80, 0xC3, 0, 1, 2])
        data = bytes(spoilt)
    return data[:32767]


@pytest.mark.parametrize("seed", range(20))
def test_rows_equal_records_decoded_by_the_codec(seed: int) -> None:
    data, places = random_log(seed)
    answer, position, rows, damaged = decode_rows(data)
    assert (answer, position, damaged) == (END, len(data), [])
    assert rows == [expected(data, at) for at in places]


def rows_of_seeds(given: bytes) -> bytes:
    """For the interpreter: the rows of some logs, and whether the decoder was compiled."""
    rows = [decode_rows(random_log(seed)[0]) for seed in pickle.loads(given)]
    return pickle.dumps((record_columns.IS_COMPILED, rows))


@pytest.mark.slow
def test_interpreted_module_gives_the_same_columns() -> None:
    is_compiled, rows = pickle.loads(
        run_interpreted("unit.spark_exporter.test_record_columns", "rows_of_seeds", pickle.dumps([100, 101, 102]))
    )
    assert not is_compiled
    assert rows == [decode_rows(random_log(seed)[0]) for seed in (100, 101, 102)]


def test_last_value_of_a_duplicate_property_is_used() -> None:
    data = record(properties="k\x01first\x02KEYS\x01one\x02k\x01last\x02KEYS\x01two")
    (row,) = decode_rows(data)[2]
    assert (row["keys"], row["properties"]) == ("two", {"k": "last"})


def test_all_properties_are_kept_on_request() -> None:
    (row,) = decode_rows(record(properties="KEYS\x01a\x02UNIQ_KEY\x01u\x02x\x01y"), all_properties=True)[2]
    assert row["properties"] == {"KEYS": "a", "UNIQ_KEY": "u", "x": "y"}
    assert (row["keys"], row["msg_id"]) == ("a", "u")


def test_replacing_invalid_utf_8_makes_room_for_longer_text() -> None:
    # 400 bytes of properties a record become 1,200; many records of them outgrow what was reserved for it.
    data = b"".join(
        record(properties=b"k\x01" + b"\xff" * 30000, physical_offset=BASE + number * (91 + 6 + 30002 + 4))
        for number in range(9)
    )
    columns = RecordColumns(lambda _topic: True)
    rows, at = 0, 0
    while at < len(data):
        answer = columns.decode(memoryview(data), BASE, at, len(data), BASE + len(data))
        assert answer in {END, FULL}
        rows += columns.rows
        as_batch(columns, "", "").validate(full=True)
        at = columns.position
    assert rows == 9


def test_decompressed_body_may_be_larger_than_the_range() -> None:
    plain = bytes(5_000_000)
    data = record(body=zlib.compress(plain), sys_flag=1)
    assert decode_rows(data)[2][0]["body"] == plain
    assert decode_rows(data, inflate=False)[2][0]["body"] == zlib.compress(plain)


def test_batch_ends_at_its_body_size_limit() -> None:
    data = record(body=b"x" * 1000) + record(body=b"y" * 1000, physical_offset=BASE + 1096)
    answer, position, rows, _ = decode_rows(data, most_body_bytes=500)
    assert (answer, position, len(rows)) == (FULL, 1096, 1)


def test_body_with_wrong_crc_is_damage_and_the_next_record_is_read() -> None:
    data = bytearray(record(body=b"first") + record(body=b"second", physical_offset=BASE + 101))
    data[88] ^= 1
    answer, _, rows, damaged = decode_rows(bytes(data))
    assert answer == END
    assert damaged == [(BASE, 101, "the body does not match its CRC")]
    assert [row["body"] for row in rows] == [b"second"]


def test_body_that_cannot_be_decompressed_is_damage() -> None:
    _, _, rows, damaged = decode_rows(record(body=b"not zlib at all", sys_flag=1))
    assert rows == []
    assert damaged[0][2].startswith("a compressed body cannot be decompressed")


def test_invalid_store_timestamp_is_damage() -> None:
    _, _, rows, damaged = decode_rows(record(store_timestamp=1 << 62))
    assert (rows, damaged[0][2]) == ([], "its store timestamp is out of range")


def test_record_beyond_the_range_reports_the_missing_bytes() -> None:
    data = record(body=b"x" * 500)
    for length in (0, 4, 7, 8, 35, 36, 100, len(data) - 1):
        columns = RecordColumns(lambda _topic: True)
        answer = columns.decode(memoryview(data)[:length], BASE, 0, max(1, length), BASE + len(data))
        assert (answer, columns.position, columns.needed) == (MORE, 0, 8 if length < 8 else len(data))


def test_blank_record_ends_a_file() -> None:
    data = record() + encode_blank(8)
    assert decode_rows(data)[:2] == (BLANK, len(data) - 8)


@pytest.mark.parametrize("length", [8, 20, 87])
def test_blank_record_of_any_length_is_recognised(length: int) -> None:
    blank = length.to_bytes(4, "big") + (BLANK_MAGIC & 0xFFFFFFFF).to_bytes(4, "big") + b"\xff" * (length - 8)
    assert decode_rows(blank)[0] == BLANK


@pytest.mark.parametrize("seed", range(10))
def test_random_damage_makes_no_row_that_the_codec_rejects(seed: int) -> None:
    data, _ = random_log(seed, 5)
    chance = random.Random(seed + 1000)
    for _ in range(200):
        spoilt = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        _, position, rows, damaged = decode_rows(bytes(spoilt))
        assert position + sum(0 for _ in damaged) <= len(spoilt)
        for row in rows:
            at = row["commit_log_offset"] - BASE
            assert check_record(bytes(spoilt), at).is_ok
            assert row == expected(bytes(spoilt), at)


def test_random_bytes_are_not_read_as_a_record() -> None:
    chance = random.Random(1)
    for _ in range(500):
        answer, position, rows, _ = decode_rows(chance.randbytes(chance.randint(1, 300)))
        assert (answer in {BAD, MORE}, position, rows) == (True, 0, [])


def test_unselected_columns_are_not_read() -> None:
    columns = RecordColumns(lambda topic: topic == "Wanted", with_body=False, with_properties=False)
    data = record(topic="Wanted") + record(topic="Other", physical_offset=BASE + 102)
    assert columns.decode(memoryview(data), BASE, 0, len(data), BASE + len(data)) == END
    assert (columns.rows, columns.records) == (1, 2)
    schema = pa.schema([pa.field("topic", pa.string()), pa.field("queue_id", pa.int32())])
    assert as_batch(columns, "", "", schema).to_pylist() == [{"topic": "Wanted", "queue_id": 0}]


def record(**fields: Any) -> bytes:
    """A record that says that it lies at BASE."""
    return encode_record(**{
        "topic": "Topic", "body": b"body!", "physical_offset": BASE, "store_timestamp": NOW, "born_timestamp": NOW, **fields,
    })  # fmt: skip


def test_codec_reads_records_of_these_tests() -> None:
    with pytest.raises(HeadraceError):
        decode_record(b"x" * 100)
    assert decode_record(record()).body == b"body!"
