"""The hot path stores and answers sends as the plain path would, except for the order of properties."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.message import MessageExt
from headrace.model.topic_config import TopicFilterType
from headrace.protocol.batch import decode_batch
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand
from support import hot_sends
from support.small_broker import SmallBroker

NAMES = [
    "TAGS",
    "KEYS",
    "UNIQ_KEY",
    "WAIT",
    "WAITS",
    "CLUSTER",
    "color",
    "DELAY",
    "DELAYED",
    "TRAN_MSG",
    "TAGS2",
    "x",
    "",
    "größe",
    "a b",
]
VALUES = [
    "a",
    "true",
    "false",
    "TRUE",
    "tRUE",
    "trueish",
    'q"uote',
    "back\\slash",
    "a/b",
    "é",
    "😀",
    "3",
    "0",
    "",
    "\x01",
    "v\x01w",
    "tab\t",
    "\x7f",
]
NUMBERS = [
    "0",
    "0",
    "1",
    "7",
    "8",
    "-1",
    "-0",
    "007",
    "+5",
    " 5",
    "5 ",
    "x",
    "",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9" * 19,
]


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SmallBroker]:
    broker = SmallBroker(tmp_path)
    broker.topic("TopicTest", 8)
    broker.topic("MultiTag", 1, filter_type=TopicFilterType.MULTI_TAG)
    yield broker
    broker.close()


def random_frame(chance: random.Random, opaque: int) -> bytes:
    """A send request in which most fields are nearly always valid."""
    pairs = [f"{chance.choice(NAMES)}\x01{chance.choice(VALUES)}" for _ in range(chance.choice([0, 1, 1, 2, 4]))]
    odd_pieces = ["", "\x01", "x", "\x02", "x\x01", "\x01y", "no separator"]
    pairs += chance.sample(odd_pieces, chance.choice([0, 0, 1, 2]))
    chance.shuffle(pairs)
    ext: dict[str, Any] = {
        "a": "PG",
        "b": chance.choice(["TopicTest"] * 8 + ["MultiTag", "Unknown", "not legal!"]),
        "c": "TBW102",
        "d": "4",
        "e": str(chance.randrange(8)),
        "f": str(chance.choice([0, 0, 0, 1, 0x301, 4, 0x30])),
        "g": str(chance.randrange(1 << 41)),
        "h": str(chance.choice([0, 5, -5])),
        "i": "\x02".join(pairs) + chance.choice(["", "\x02"]),
        "j": str(chance.choice([0, 0, 3])),
        "k": "false",
        "m": chance.choice(["false"] * 5 + ["true"] * 4 + ["TRUE"]),
    }
    if not chance.randrange(3):
        ext[chance.choice("efghj")] = chance.choice(NUMBERS)
    if not chance.randrange(6):
        del ext[chance.choice(list(ext))]
    if not chance.randrange(6):
        ext[chance.choice(["l", "n", "ReqT"])] = "3"
    header = {
        "code": chance.choice([310, 310, 320]), "extFields": ext, "flag": 0, "language": "JAVA", "opaque": chance.choice([opaque, -opaque]),
        "serializeTypeCurrentRPC": "JSON", "version": 409,
    }  # fmt: skip
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=chance.choice([True, False]))
    return hot_sends.frame(text.encode(), hot_sends.random_body(chance, ext.get("m") == "true"))


def shown(record: MessageExt) -> dict[str, Any]:
    return {
        "topic": record.topic, "queue": record.queue_id, "offset": record.queue_offset, "at": record.physical_offset,
        "size": record.size_bytes, "flag": record.flag, "sys_flag": record.sys_flag, "born": record.born_timestamp,
        "hosts": (record.born_host, record.store_host), "times": record.reconsume_times, "body": record.body,
        "properties": sorted(record.properties_raw.split(b"\x02")), "prepared": record.prepared_transaction_offset,
    }  # fmt: skip


def told(command: RemotingCommand) -> dict[str, Any]:
    return {
        "opaque": command.opaque, "code": command.code, "remark": command.remark, "ext": command.ext_fields,
        "flag": command.flag, "version": command.version, "language": command.language, "body": command.body,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_hot_and_plain_sends_store_and_answer_the_same(plain: SmallBroker, seed: int) -> None:
    chance = random.Random(seed)
    hot = hot_sends.LogInMemory(file_size=plain.file_size)
    path = hot_sends.send_path(hot)
    client = plain.connect()
    taken = batches = 0
    for opaque in range(250):
        frame = random_frame(chance, opaque)
        before, there = hot.appender.wrote_offset, len(plain.records())
        hot.appender.begin(hot_sends.NOW_MS)
        if hot_sends.take_all(path, frame):
            assert hot.appender.wrote_offset == before
            continue
        taken += 1
        hot.appender.publish()
        (hot_answer,) = FrameDecoder().feed(path.take_answers())
        client.handle(frame)
        (plain_answer,) = client.received()
        assert told(hot_answer) == told(plain_answer), frame
        hot_records = [shown(record) for record in decode_records(hot.bytes()[before:])]
        assert hot_records == [shown(record) for record in plain.records()[there:]], frame
        (sent,) = FrameDecoder().feed(frame)
        if sent.ext.get("m") == "true":
            # Both paths share the loop over a batch's messages.
            entries = decode_batch(sent.body)
            assert [(one["body"], one["flag"]) for one in hot_records] == [(one.body, one.flag) for one in entries]
            for one, record in zip(entries, hot_records, strict=True):
                assert {*one.properties_raw.split(b"\x02")} - {b""} <= {*record["properties"]}
        batches += len(hot_records) > 1
    assert 40 < taken < 200
    assert batches > 10
