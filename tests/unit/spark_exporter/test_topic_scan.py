"""Reading topic by topic gives what reading in the log's order gives, sorted: rows, damage, and where it landed."""

import pickle
import random
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_exporter.errors import DamagedRecords, SourceError
from spark_exporter.planning.plan import open_source
from spark_exporter.reading import gather_records
from spark_exporter.reading.range_scan import ByteRange, Damage, RangeScan, ScanOptions
from spark_exporter.writing import record_places
from spark_exporter.writing.layout import Layout, Partition
from spark_exporter.writing.topic_scan import TopicScan
from support.interpreted import run_interpreted
from support.small_log import STORE_MS, SmallLog

DAY_MS = 24 * 3600 * 1000
MIB = 1 << 20
FOLDERS = Layout(group_by_topic=True)
TABLES = Layout(table_per_topic=True)
SMALL = Layout(group_by_topic=True, small_topic_bytes=50_000)
Rows = dict[Partition, list[dict[str, Any]]]


def make_log(root: Path) -> ByteRange:
    """Many topics over some days, bodies large and small, some compressed, some damaged in each way there is."""
    log, chance = SmallLog(root, 16 * MIB), random.Random(5)
    for number in range(900):
        kind = chance.random()
        body, flag = chance.randbytes(chance.randrange(2000)), 0
        if kind < 0.1:
            body, flag = zlib.compress(body * 3), 1
        elif kind < 0.13:
            flag = 1  # says that it is compressed, and is not
        topic = "Large" if kind > 0.7 else f"Topic{chance.randrange(23):02}"
        day = min(2, number // 300) - (kind > 0.98)  # now and then a clock is set back
        log.append(body, topic=topic, sys_flag=flag, store_timestamp=STORE_MS + day * DAY_MS + number)
        if kind < 0.02:
            log.append(b"inner", topic="SCHEDULE_TOPIC_XXXX")
    for _ in range(6):  # more than a batch takes
        log.append(zlib.compress(bytes(9 * MIB)), topic="Zeros", sys_flag=1)
    log.append(chance.randbytes(6 * MIB), topic="Topic00")  # more than a window
    log.write(0)
    for number in chance.sample(range(900), 20):
        log.overwrite(log.offsets[number] + chance.choice([0, 4, 90, 95]), b"\x7f\x7f\x7f\x7f")
    return whole(root)


def whole(root: Path, end: int | None = None) -> ByteRange:
    source = open_source(root)
    (only,) = source.plan(0, source.segments[0].end if end is None else end, certain=True).ranges
    return only


def read(byte_range: ByteRange, options: ScanOptions, layout: Layout) -> tuple[TopicScan, Rows, list[Damage]]:
    """Each partition has to come but once."""
    scan = TopicScan(byte_range, options, layout)
    rows: Rows = {}
    damage: list[Damage] = []
    for partition, window in scan.windows():
        damage += window.damage
        if window.rows is not None:
            assert partition is not None
            assert partition not in list(rows)[:-1]
            rows.setdefault(partition, []).extend(window.rows.to_pylist())
    return scan, rows, damage


def expected(byte_range: ByteRange, options: ScanOptions, layout: Layout) -> tuple[RangeScan, Rows, list[Damage]]:
    scan = RangeScan(byte_range, options)
    rows: Rows = defaultdict(list)
    damage: list[Damage] = []
    for window in scan.windows():
        damage += window.damage
        for row in [] if window.rows is None else window.rows.to_pylist():
            rows[layout.partition(row["topic"], row["store_timestamp"].date())].append(row)
    return scan, rows, damage


def in_order(damage: Sequence[Damage]) -> list[Damage]:
    return sorted(damage, key=lambda each: each.physical_offset)


@pytest.mark.parametrize("layout", [FOLDERS, TABLES], ids=["folders", "tables"])
def test_each_topic_and_day_is_complete_and_in_log_order(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_places, "_PART", 200)
    monkeypatch.setattr(record_places, "_TAKEN", 7)
    byte_range = make_log(tmp_path)
    options = ScanOptions("c", "b")
    scan, rows, damage = read(byte_range, options, layout)
    flat, flat_rows, flat_damage = expected(byte_range, options, layout)
    assert rows == flat_rows
    assert len(rows) > 60
    assert list(rows) == sorted(rows, key=lambda each: each.sort_key)
    assert in_order(damage) == in_order(flat_damage)
    assert len(damage) > 20
    assert (scan.rows, scan.damaged) == (flat.rows, flat.damaged)
    assert (scan.first.landed, scan.first.records) == (flat.landed, flat.records)


def test_small_topics_of_a_day_are_read_together(tmp_path: Path) -> None:
    byte_range = make_log(tmp_path)
    _, rows, _ = read(byte_range, ScanOptions(columns=("topic", "commit_log_offset", "store_size")), SMALL)
    large = {partition.group for partition in rows if partition.group is not None}
    assert {"Large", "Topic00"} <= large < {"Large", "Zeros", *(f"Topic{number:02}" for number in range(23))}
    for partition, of_file in rows.items():
        places = [(row["topic"], row["commit_log_offset"]) for row in of_file]
        assert places == sorted(places)
        if partition.group is not None:
            assert {row["topic"] for row in of_file} == {partition.group}


def interpreted(root: bytes) -> bytes:
    """For the interpreter: what is read, and out of which module."""
    _, rows, damage = read(whole(Path(root.decode())), ScanOptions("c", "b"), FOLDERS)
    return pickle.dumps((gather_records.__file__, rows, damage))


@pytest.mark.slow
def test_interpreted_module_gives_the_same_result(tmp_path: Path) -> None:
    make_log(tmp_path)
    said = run_interpreted("unit.spark_exporter.test_topic_scan", "interpreted", str(tmp_path).encode())
    file, rows, damage = pickle.loads(said)
    assert file.endswith(".py")
    assert (rows, damage) == read(whole(tmp_path), ScanOptions("c", "b"), FOLDERS)[1:]


def test_strict_scan_detects_bodies_that_cannot_be_decompressed(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    log.append(b"good")
    at = log.append(b"not compressed", topic="Other", sys_flag=1)
    log.write(0)
    with pytest.raises(DamagedRecords, match=f"physical offset {at}: a compressed body"):
        read(whole(tmp_path, log.end), ScanOptions(strict=True), FOLDERS)


def test_range_without_wanted_records_has_no_files(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    log.append(topic="SCHEDULE_TOPIC_XXXX")
    log.write(0)
    scan, rows, damage = read(whole(tmp_path, log.end), ScanOptions(), FOLDERS)
    assert (rows, damage, scan.rows, scan.first.records, scan.first.landed) == ({}, [], 0, 1, log.end)


@pytest.mark.parametrize("cut", [True, False], ids=["shorter", "other"])
def test_file_that_changes_between_reads_is_refused(cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SmallLog(tmp_path)
    for number in range(20):
        log.append(topic=f"Topic{number % 3}")
    log.write(0)
    byte_range, list_files = whole(tmp_path, log.end), record_places.RecordPlaces.list_files

    def change(places: record_places.RecordPlaces, layout: Layout) -> list[record_places.FilePlaces]:
        path = Path(byte_range.segment.path)
        path.write_bytes(path.read_bytes()[: log.offsets[5]] if cut else bytes(path.stat().st_size))
        return list_files(places, layout)

    monkeypatch.setattr(record_places.RecordPlaces, "list_files", change)
    with pytest.raises(SourceError, match="was truncated" if cut else "changed while it was read"):
        read(byte_range, ScanOptions(), FOLDERS)
