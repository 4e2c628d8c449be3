"""What `verify` walks over it would not have found wanting, and it walks over almost everything."""

import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.message import MessageExt
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, FILLER
from headrace.protocol.record_layout import MESSAGE_MAGIC_V2
from store.config import StoreConfig
from store.inspect import verify as verify_module
from store.inspect.agreement import Agreement
from store.inspect.finding import Finding
from store.inspect.log import InspectedLog
from store.inspect.verify import verify
from support.dispatched_store import FIRST_TIMESTAMP, SMALL, HandWrittenLog, dispatched_store

SLOTS, ENTRIES = SMALL.max_hash_slot_num, SMALL.max_index_num
EXTENDED = dataclasses.replace(
    SMALL, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=20000, enable_multi_dispatch=True
)
ROUNDS = 100


class LooksAtAll:
    """An Agreement that walks over nothing."""

    last = -1

    def __init__(self, *_: object) -> None:
        pass

    def walk(self, _view: memoryview, position: int, *_: int) -> int:
        return position


def said(root: Path, slots: int = SLOTS, entries: int = ENTRIES) -> list[str]:
    return [f"{found} {found.physical_offset} {found.count}" for found in verify(root, slots, entries) if isinstance(found, Finding)]  # fmt: skip


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The physical offsets of the records that were not only walked over."""
    offsets: list[int] = []
    read = InspectedLog.read

    def noted(log: InspectedLog, agreement: Agreement) -> Iterator[object]:
        for seen in read(log, agreement):
            if isinstance(seen, MessageExt):
                offsets.append(seen.physical_offset)
            yield seen

    monkeypatch.setattr(InspectedLog, "read", noted)
    return offsets


def usual(log: HandWrittenLog, number: int) -> int:
    return log.append(
        queue_id=number % 2,
        properties=f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01order-{number}  of-{number % 7}\x02TAGS\x01Tag{number % 3}",
        body=bytes([number % 251]) * (number % 300),
        store_timestamp=FIRST_TIMESTAMP + number * 1500,
    )


def make_store(root: Path, config: StoreConfig = SMALL) -> None:
    """Of all kinds of records, with several files of each kind."""
    chance = random.Random(7)
    with dispatched_store(root, config) as store:
        log = HandWrittenLog(store.paths, store.config)
        for number in range(260):
            usual(log, number)
            kind = chance.randrange(12)
            if kind == 0:
                log.append("Other", body=b"without properties")
            elif kind == 1:
                log.append("SCHEDULE_TOPIC_XXXX", queue_id=2, properties="DELAY\x013\x02KEYS\x01late")
            elif kind == 2:
                log.append("RMQ_SYS_TRANS_HALF_TOPIC", sys_flag=4, properties="UNIQ_KEY\x01half\x02TAGS\x01Tag")
            elif kind == 3:
                log.append(sys_flag=12, properties="UNIQ_KEY\x01half\x02KEYS\x01x")
            elif kind == 4:
                log.append(sys_flag=8, queue_id=1, properties="UNIQ_KEY\x01polygenelubricants")
            elif kind == 5:
                log.append(properties="KEYS\x01größe x x\x02TAGS\x01größe")
            elif kind == 6:
                log.append(properties="TAGS\x01a\x02TAGS\x01b\x02KEYS\x01\x02KEYS\x01 a b \x02x\x01")
            elif kind == 7:
                log.append("Topic" * 30, magic=MESSAGE_MAGIC_V2, properties="KEYS\x01long")
            elif kind == 8:
                log.append(
                    properties="INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02TAGS\x01l"
                )
        store.recovered(log.end)
        store.dispatch()


@pytest.mark.slow
@pytest.mark.parametrize("config", [SMALL, EXTENDED], ids=["small", "extended"])
def test_damaged_stores_have_the_same_findings_if_all_records_are_looked_at(
    config: StoreConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(tmp_path / "whole", config)
    chance = random.Random(11)
    with_findings = 0
    for _ in range(ROUNDS):
        shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
        done = [damage(chance, tmp_path / "damaged") for _ in range(chance.randrange(1, 4))]
        found = said(tmp_path / "damaged")
        with monkeypatch.context() as patched:
            patched.setattr(verify_module, "Agreement", LooksAtAll)
            assert found == said(tmp_path / "damaged"), done
        with_findings += bool(found)
    assert with_findings > ROUNDS // 2


def damage(chance: random.Random, root: Path) -> str:
    """Changes something in one of the store's files; returns what."""
    kind = chance.choice(("commitlog", "consumequeue", "consumequeue_ext", "index"))
    files = [path for path in sorted((root / kind).rglob("*")) if path.is_file()]
    if not files:
        return "nothing"
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    used = max(40, len(data.rstrip(b"\0")))
    at = chance.randrange(used)
    entry = chance.randrange(used // ENTRY_SIZE) * ENTRY_SIZE
    kind = chance.randrange(9)
    if kind == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at : at + 4] = chance.choice((b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff"))
    elif kind == 2:
        data[entry : entry + 8] = chance.choice((0, 1 << 62, (1 << 64) - 1, 1 << 63, 5)).to_bytes(8, "big")
    elif kind == 3:
        data[at : at + 60] = bytes(60)
    elif kind == 4:
        data = data[:at]
    elif kind == 5:
        source = chance.randrange(used // ENTRY_SIZE) * ENTRY_SIZE
        data[entry : entry + ENTRY_SIZE] = data[source : source + ENTRY_SIZE]
    elif kind == 6:
        data[entry : entry + ENTRY_SIZE] = chance.choice((FILLER, ENTRY.pack(1 << 40, 100, 7)))
    elif kind == 7:
        path.unlink()
        return f"{path} deleted"
    else:
        path.rename(path.with_name(str(chance.choice((7, 1 << 61, (1 << 63) - 1, 10**19))).zfill(len(path.name))))
        return f"{path} renamed"
    path.write_bytes(data)
    return f"{path} kind {kind} at {at}"


def test_usual_records_are_only_walked_over(tmp_path: Path, looked_at: list[int]) -> None:
    """Looking at one takes fifty times as long."""
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for number in range(400):
            usual(log, number)
        late = log.append("SCHEDULE_TOPIC_XXXX", queue_id=2, properties="DELAY\x013")
        usual(log, 400)
        store.recovered(log.end)
        store.dispatch()
        assert said(tmp_path) == []
    assert looked_at == [late]
    assert log.end > SMALL.mapped_file_size_commit_log
