"""Runs one after the other, targets that do not fit, what is refused, and what operators see."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_exporter.errors import DamagedRecords, ExportError, SourceError, TargetBusy, TargetError, TargetMismatch
from spark_exporter.planning.plan import open_source
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.running.compact import compact
from spark_exporter.running.engines import local, open_engine
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export, Summary, follow
from spark_exporter.running.held_segments import HeldSegments, count_held
from spark_exporter.running.segment_hold import SegmentHold, delete_abandoned, too_full
from spark_exporter.running.status import read_status
from spark_exporter.running.verify import verify
from spark_exporter.storage import location
from spark_exporter.storage.location import Location
from spark_exporter.targets.open_sink import open_sink
from spark_exporter.targets.open_target import find_target, open_target
from spark_exporter.targets.target_lock import TargetLock
from spark_exporter.writing.layout import Layout, group_of, name_in_group, table_name
from spark_exporter.writing.range_result import RangeResult
from support.exported import FORMATS, export, iceberg_table, read, read_quarantine, request, rows_of
from support.small_log import STORE_MS, SmallLog, write_log

DAY_MS = 24 * 3600 * 1000


def exported_offsets(target: Path, table_format: str = "parquet") -> list[int]:
    return [row["commit_log_offset"] for row in rows_of(read(target, table_format))]


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_each_run_exports_only_new_messages(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    target = tmp_path / "target"
    for number in range(4):
        for _ in range(30):
            log.append(b"x" * 900)
        log.write()
        summary = export(log.root, target, table_format)
        assert (summary.rows, summary.end) == (30, log.end), number
        again = export(log.root, target, table_format)
        assert (again.rows, again.commits) == (0, 0), "nothing new is no commit"
    assert exported_offsets(target, table_format) == log.offsets
    status = read_status(open_target(str(target)))
    assert (status.rows, status.progress["broker"].end, status.is_pending) == (120, log.end, False)
    assert status.progress["broker"].last_store_ms == STORE_MS + 119


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_logs_of_two_brokers_are_exported_into_one_target(table_format: str, tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", [b"x"] * 5)
    two = write_log(tmp_path / "two", [b"yy"] * 7)
    target = tmp_path / "target"
    export(one.root, target, table_format, broker_name="a", cluster="c")
    export(two.root, target, table_format, broker_name="b", cluster="c")
    assert export(one.root, target, table_format, broker_name="a", cluster="c").rows == 0
    rows = rows_of(read(target, table_format))
    assert sorted((row["cluster"], row["broker_name"]) for row in rows) == [("c", "a")] * 5 + [("c", "b")] * 7
    for log, name in ((one, "a"), (two, "b")):
        assert verify(open_source(log.root), open_target(str(target)), name).differences == ()


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_compaction_merges_each_day_except_the_last(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    target = tmp_path / "target"
    for number in range(24):
        log.append(b"x" * 300, store_timestamp=STORE_MS + number // 8 * DAY_MS)
        if number % 2:
            log.write()
            export(log.root, target, table_format)
    before = rows_of(read(target, table_format))
    assert len(before) == 24
    assert counted_files(target) == [12, sum(path.stat().st_size for path in live_paths(target, table_format))]
    done = compact(open_target(str(target)))
    assert (done.partitions, done.files_before, done.files_after) == (2, 8, 2)
    live = sum(path.stat().st_size for path in live_paths(target, table_format))
    assert counted_files(target) == [6, live], "what readers open, not what was once exported"
    assert rows_of(read(target, table_format)) == before
    assert verify(open_source(log.root), open_target(str(target)), "broker").differences == ()
    assert compact(open_target(str(target))).partitions == 0
    log.append(b"more", store_timestamp=STORE_MS + 3 * DAY_MS)
    log.write()
    assert export(log.root, target, table_format).rows == 1
    assert len(rows_of(read(target, table_format))) == 25
    if table_format == "parquet":
        days = sorted(path.name for path in target.iterdir() if path.name.startswith("dt="))
        first = datetime.fromtimestamp(STORE_MS / 1000, UTC).date()
        assert days == [f"dt={first + timedelta(days=number)}" for number in range(4)]
        assert len(list((target / days[0]).iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_verify_detects_missing_duplicate_and_changed_rows(table_format: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 100] * 50)
    target = tmp_path / "target"
    export(log.root, target, table_format)
    opened = open_target(str(target))
    batches = list(opened.sink.read(opened.ledger, list(_columns())))

    class Altered:
        """A sink whose readers see other rows."""

        def __init__(self, seen: list[Any]) -> None:
            self.seen = seen

        def read(self, *_: object) -> list[Any]:
            return self.seen

        def count_quarantined(self, _: object) -> int:
            return 0

        def strays(self, _: object) -> list[str]:
            return []

    def said(seen: list[Any]) -> list[str]:
        altered = type(opened)(opened.spec, Altered(seen), opened.ledger)  # type: ignore[arg-type]
        return [each.said for each in verify(open_source(log.root), altered, "broker").differences]

    assert said(batches) == []
    assert said([*batches[:-1], batches[-1].slice(1)]) == ["49 rows in the table, 50 in the log"]
    assert said([*batches, batches[0].slice(0, 1)]) == ["51 rows in the table, 50 in the log"]
    swapped = batches[0].set_column(
        batches[0].schema.get_field_index("queue_offset"),
        "queue_offset",
        batches[0]["queue_offset"].take(list(reversed(range(batches[0].num_rows)))),
    )
    assert said([swapped, *batches[1:]]) == ["50 rows with different content"]


def _columns() -> tuple[str, ...]:
    from spark_exporter.running.verify import _COMPARED  # noqa: PLC0415

    return _COMPARED


def test_damaged_records_are_quarantined_and_strict_leaves_the_target_unchanged(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 100] * 50)
    log.overwrite(log.offsets[7] + 100, b"y")
    target = tmp_path / "target"
    with pytest.raises(DamagedRecords):
        export(log.root, target, strict=True)
    assert find_target(str(target)) is not None
    assert not list(target.rglob("*.parquet"))
    summary = export(log.root, target)
    assert (summary.rows, summary.damaged) == (49, 1)
    (row,) = read_quarantine(target, "parquet")
    assert (row["commit_log_offset"], row["reason"]) == (log.offsets[7], "the body does not match its CRC")
    assert len(row["raw"]) == row["size"]


def test_large_damage_is_quarantined_in_parts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [bytes(1 << 20)] * 40, 64 << 20)
    for offset in log.offsets[:-1]:
        log.overwrite(offset + 1000, b"y")
    target = tmp_path / "target"
    assert export(log.root, target, least_range_bytes=64 << 20).damaged == 39
    assert [row["commit_log_offset"] for row in read_quarantine(target, "parquet")] == log.offsets[:-1]
    (file,) = (target / "_quarantine").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups == 3


def test_run_can_begin_and_end_at_an_offset_or_a_time(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 100)
    export(log.root, tmp_path / "a", from_offset=log.offsets[10] + 1, to_offset=log.offsets[20])
    assert exported_offsets(tmp_path / "a") == log.offsets[11:20]
    export(log.root, tmp_path / "b", from_ms=STORE_MS + 70, to_ms=STORE_MS + 80)
    assert exported_offsets(tmp_path / "b") == log.offsets[70:80]
    export(log.root, tmp_path / "b")
    assert exported_offsets(tmp_path / "b") == log.offsets[70:], "the next run goes on where the last one ended"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"layout": Layout(group_by_topic=True)}, "was created with layout"),
        ({"choice": RecordChoice(frozenset({"Orders"}))}, "was created with choice"),
        ({"table_format": "delta"}, "was created with format"),
    ],
)
def test_target_with_other_settings_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    export(log.root, tmp_path / "target")
    with pytest.raises(TargetMismatch, match=said):
        export(log.root, tmp_path / "target", **more)


def test_target_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    export(log.root, tmp_path / "target")
    path = tmp_path / "target" / "_export" / "target.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    with pytest.raises(TargetMismatch, match="schema_version 99, not 1"):
        export(log.root, tmp_path / "target")


def test_target_of_another_store_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 100)
    export(log.root, tmp_path / "target")
    shorter = write_log(tmp_path / "shorter", [b"x"])
    with pytest.raises(SourceError, match="the store is different or was truncated"):
        export(shorter.root, tmp_path / "target")
    longer = write_log(tmp_path / "longer", [b"x" * 1001] * 200)
    with pytest.raises(SourceError, match="is not the log that was exported before"):
        export(longer.root, tmp_path / "target")
    assert exported_offsets(tmp_path / "target") == log.offsets


def test_deleted_files_that_were_not_exported_are_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 10)
    export(log.root, tmp_path / "target")
    for _ in range(200):
        log.append(b"y" * 1000)
    log.write()
    for path in sorted(log.folder.iterdir())[:2]:
        path.unlink()
    with pytest.raises(SourceError, match="the records in between were deleted"):
        export(log.root, tmp_path / "target")


def test_files_missing_in_the_middle_are_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 200)
    (log.folder / f"{1 << 16:020}").unlink()
    summary = export(log.root, tmp_path / "target")
    assert summary.notes == ["65,536 bytes of the log are missing at 65,536: their files do not exist"]
    assert exported_offsets(tmp_path / "target") == [each for each in log.offsets if not 1 << 16 <= each < 2 << 16]


def test_invalid_source_creates_no_target(tmp_path: Path) -> None:
    for table_format in FORMATS:
        with pytest.raises(SourceError):
            export(tmp_path / "nowhere", tmp_path / "target", table_format)
    assert not (tmp_path / "target").exists()


def test_unwritable_target_is_reported_in_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    (tmp_path / "file").write_text("not a folder")
    for table_format in FORMATS:
        with pytest.raises(TargetError) as error:
            export(log.root, tmp_path / "file" / "target", table_format)
        assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_missing_or_corrupt_table_file_is_reported_in_one_line(table_format: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 50)
    target = tmp_path / "target"
    export(log.root, target, table_format)
    path = live_paths(target, table_format)[0]
    for damage in (lambda: path.write_bytes(b"PAR1 no more"), path.unlink):
        damage()
        with pytest.raises(TargetError) as error:
            verify(open_source(log.root), open_target(str(target)), "broker")
        assert "\n" not in str(error.value)


def test_unreachable_catalog_is_reported_in_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(TargetError) as error:
        export(log.root, f"sqlite:////{tmp_path}/missing/folder/catalog.db#ns.table", "iceberg")
    assert "\n" not in str(error.value)


def test_iceberg_table_of_a_catalog_is_an_export_target(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = f"sqlite:///{tmp_path}/catalog.db?warehouse=file://{tmp_path}/warehouse#lake.messages"
    assert find_target(target) is None
    assert export(log.root, target, "iceberg").rows == 5
    assert export(log.root, target, "iceberg").rows == 0
    verified = verify(open_source(log.root), open_target(target), "broker")
    assert (verified.rows, verified.differences) == (5, ())


def test_full_disk_leaves_the_target_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = tmp_path / "target"
    export(log.root, target)
    for _ in range(5):
        log.append(b"more")
    log.write()

    def is_full(_path: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(location, "_sync", is_full)
        with pytest.raises(TargetError, match="No space left on device"):
            export(log.root, target)
    assert exported_offsets(target) == log.offsets[:5]
    assert export(log.root, target).rows == 5


def test_follow_exports_in_rounds_until_stopped(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 3)
    heard: list[Summary] = []
    waited: list[float] = []

    def append_more(seconds: float) -> None:
        waited.append(seconds)
        log.append(b"y")
        log.write()

    with Export(request(log.root, tmp_path / "target"), LocalEngine(1)) as run:
        total = follow(run, 5.0, heard.append, lambda: len(heard) < 3, append_more)
    assert [each.rows for each in heard] == [3, 1, 1]
    assert (total.rows, total.end, total.commits) == (5, log.end, 3)
    assert len(waited) == 2
    assert all(0 < each <= 5 for each in waited)


def test_unflushed_messages_are_not_exported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 10)
    flushed = log.offsets[4]
    asked = request(log.root, tmp_path / "target", flushed_offset=lambda: flushed)
    with Export(asked, LocalEngine(1)) as run:
        assert run.run_once().rows == 4
        flushed = log.offsets[9]
        assert run.run_once().rows == 5


def test_new_broker_has_nothing_to_export(tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    log.write()
    with Export(request(log.root, tmp_path / "target", flushed_offset=lambda: log.end), LocalEngine(1)) as run:
        assert run.run_once().rows == 0
        log.append(b"first")
        log.write()
        assert run.run_once().rows == 1
    empty = SmallLog(tmp_path / "other")
    empty.write()
    with pytest.raises(SourceError, match="contains no records"):
        export(empty.root, tmp_path / "target-2")


@pytest.mark.slow
def test_same_range_gives_the_same_bytes_in_every_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "store", [bytes(number % 251) * 3 for number in range(600)])
    asked: dict[str, Any] = {"layout": Layout(group_by_topic=True), "least_range_bytes": 20_000}
    export(log.root, tmp_path / "here", **asked)
    export(log.root, tmp_path / "again", **asked)
    monkeypatch.setattr(local, "_SMALL_BYTES", 0)
    export(log.root, tmp_path / "pool", **asked)
    files = {
        name: {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.parquet")}
        for name in ("here", "again", "pool")
    }
    assert len(files["here"]) > 2
    assert files["here"] == files["again"] == files["pool"]


def test_local_engine_needs_no_master_and_unknown_format_is_refused() -> None:
    assert open_engine("local", None, 3).workers == 3
    with pytest.raises(ExportError):
        open_engine("local", "spark://somewhere")
    with pytest.raises(ExportError, match="unknown format csv"):
        open_sink("csv", "/tmp/x")


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
def test_small_topics_share_a_file_and_large_topics_have_their_own(table_format: str, tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store", 1 << 20)
    target = tmp_path / "target"
    layout = Layout(group_by_topic=True, small_topic_bytes=8_000)
    for day in range(2):
        for part in range(2):
            for number in range(60):
                log.append(b"x" * 500, topic="Large", store_timestamp=STORE_MS + day * DAY_MS)
                if number % 6 == 0:
                    log.append(b"y", topic=f"Small-{9 - number // 6}", store_timestamp=STORE_MS + day * DAY_MS)
            log.append(b"z", topic="%RETRY%g", store_timestamp=STORE_MS + day * DAY_MS)
            log.write()
            asked: dict[str, Any] = {"layout": layout, "least_range_bytes": 1 << 20}
            assert export(log.root, target, table_format, **asked).files == 2, part
    rows = rows_of(read(target, table_format))
    assert [row["commit_log_offset"] for row in rows] == log.offsets
    assert verify(open_source(log.root), open_target(str(target)), "broker").differences == ()
    for done in (False, True):
        if done:
            compacted = compact(open_target(str(target)))
            if table_format == "delta":  # it has a compaction of its own, which knows nothing of topics
                break
            assert (compacted.partitions, compacted.files_before, compacted.files_after) == (2, 4, 2)
        topics = sorted(
            tuple(pq.ParquetFile(path).read(["topic"])["topic"].to_pylist())
            for path in live_paths(target, table_format)
        )
        small = ("%RETRY%g", *[f"Small-{number}" for number in range(10)])
        assert {tuple(sorted(set(each))) for each in topics} == {small, ("Large",)}
        assert len(topics) == (6 if done else 8)
        if not done:
            assert all(list(each) == sorted(each) for each in topics)
        assert rows_of(read(target, table_format)) == rows
    assert verify(open_source(log.root), open_target(str(target)), "broker").differences == ()


def live_paths(target: Path, table_format: str) -> list[Path]:
    """The files that make the table now, as its readers find them."""
    if table_format == "iceberg":
        table = iceberg_table(target, "headrace.messages")
        return [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]
    if table_format == "delta":
        from deltalake import DeltaTable  # noqa: PLC0415

        return [Path(uri.removeprefix("file://")) for uri in DeltaTable(str(target)).file_uris()]
    return list(target.glob("dt=*/*.parquet"))


def counted_files(target: Path) -> list[int]:
    """What `headrace export status` says: files and their bytes."""
    status = read_status(open_target(str(target)))
    return [status.files, status.file_bytes]


def test_file_name_of_a_long_topic_fits_the_file_system() -> None:
    names = {name_in_group("part-b.parquet", "%" * 126 + last) for last in "ab"}
    assert len(names) == 2
    assert all(len(each) < 200 and group_of(f"dt=2026-11-21/{each}") for each in names)
    assert group_of("dt=2026-11-21/part-b.parquet") == ""


def test_table_names_contain_only_plain_characters() -> None:
    assert table_name("%RETRY%g-1_a") == "~25RETRY~25g-1_a"
    assert table_name("a/../ö") == "a~2f~2e~2e~2f~c3~b6"


def test_segments_held_by_a_dead_run_are_released(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 1000] * 100)
    source = open_source(tmp_path)
    ranges = source.plan(0, source.find_end()).ranges
    hold = SegmentHold(source.commit_log, "alive")
    held = hold.take(ranges)
    assert hold.problem is None
    assert [Path(each.segment.held_path).parent for each in held] == [tmp_path / "hold" / "alive"] * len(ranges)
    (log.folder / f"{0:020}").unlink()
    assert count_held(tmp_path) == HeldSegments(1, len(ranges), 1 << 16)
    dead = tmp_path / "hold" / "dead"
    dead.mkdir()
    (dead / "owner").write_text("{}")
    delete_abandoned(source.commit_log)
    assert [path.name for path in (tmp_path / "hold").iterdir()] == ["alive"]
    hold.release_through(1 << 16)
    assert count_held(tmp_path) == HeldSegments(1, len(ranges) - 1, 0)
    hold.release()
    assert not (tmp_path / "hold").exists()
    assert count_held(tmp_path) == HeldSegments(0, 0, 0)


def test_export_continues_with_a_warning_if_segments_cannot_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 3)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "link", refuse)
    summary = export(log.root, tmp_path / "target")
    assert (summary.rows, summary.notes) == (3, ["segments are not protected from deletion: Permission denied"])


def test_no_segments_are_held_above_the_cleaning_level_and_one_warning_is_logged(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 3)
    warned: list[str] = []
    dead = log.root / "hold" / "dead"
    dead.mkdir(parents=True)
    (dead / "owner").write_text("{}")
    os.link(log.folder / f"{0:020}", dead / f"{0:020}")
    asked = request(log.root, tmp_path / "target", cleaning_level=0.0, warn=warned.append)
    with Export(asked, LocalEngine(1)) as run:
        assert (run.run_once().notes, warned) == ([too_full(0.0)], [too_full(0.0)])
        assert not (log.root / "hold").exists(), "nor by a run that died"
        log.append(b"more")
        log.write()
        assert (run.run_once().rows, warned) == (1, [too_full(0.0)])


def test_idle_run_releases_segments_of_a_run_that_died_after_its_last_commit(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"] * 3)
    assert export(log.root, tmp_path / "target").rows == 3
    dead = log.root / "hold" / "dead"
    dead.mkdir(parents=True)
    (dead / "owner").write_text("{}")
    os.link(log.folder / f"{0:020}", dead / f"{0:020}")
    assert export(log.root, tmp_path / "target").rows == 0
    assert not (log.root / "hold").exists()


def test_held_segments_are_released_when_the_disk_fills_and_export_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 300)
    warned: list[tuple[str, int]] = []
    reads: list[int] = []
    used = [75]
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(100, used[0], 100 - used[0]))  # type: ignore[attr-defined]

    def warn(note: str) -> None:
        warned.append((note, count_held(log.root).segments))

    class FillingEngine(LocalEngine):
        """The disk fills while the second range is read."""

        def write(self, *of: Any) -> Iterator[RangeResult]:
            for result in super().write(*of):
                if not reads:
                    assert count_held(log.root).segments == 6
                reads.append(result.start)
                if len(reads) == 2:
                    used[0] = 76
                yield result

    asked = request(log.root, tmp_path / "target", cleaning_level=0.75, warn=warn)
    with Export(asked, FillingEngine(1)) as run:
        summary = run.run_once()
    assert warned == [(too_full(0.75), 0)]
    assert (summary.rows, summary.notes) == (300, [too_full(0.75)])
    assert len(reads) > 4
    assert exported_offsets(tmp_path / "target") == log.offsets


def test_deletion_of_a_segment_not_held_ends_the_export_in_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 300)
    target = tmp_path / "target"

    class DeletingEngine(LocalEngine):
        """The broker deletes a file that is still to be read."""

        def write(self, *of: Any) -> Iterator[RangeResult]:
            for number, result in enumerate(super().write(*of)):
                if number == 1:
                    (log.folder / f"{3 << 16:020}").unlink()
                yield result

    asked = request(log.root, target, cleaning_level=0.0, commit_every_s=0.0)
    with pytest.raises(SourceError) as error, Export(asked, DeletingEngine(1)) as run:
        run.run_once()
    assert str(error.value).startswith(
        f"{log.folder / f'{3 << 16:020}'} was deleted before it was read; run this again"
    )
    assert exported_offsets(target) == [each for each in log.offsets if each < 3 << 16], "what was committed stays"


@pytest.mark.slow
def test_target_can_be_a_url(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 100)
    target = f"memory://bucket{tmp_path}"
    with Export(request(log.root, target), LocalEngine(1)) as run:
        assert run.run_once().rows == 100
    opened = open_target(target)
    verified = verify(open_source(log.root), opened, "broker")
    assert (verified.rows, verified.differences) == (100, ())
    names = opened.sink.work.list("", below=True)
    assert not any("staging" in name for name in names)


def test_target_at_a_url_is_locked_by_an_object(tmp_path: Path) -> None:
    remote = _Remote(str(tmp_path / "remote"))
    second = TargetLock(remote, "two", "x")
    with (
        TargetLock(remote, "one", "headrace export"),
        pytest.raises(TargetBusy, match="in use by headrace export"),
        second,
    ):
        pass
    with TargetLock(remote, "three", "x") as lock:
        assert (lock.token, lock.was_abandoned) == (2, False)


class _Remote(Location):
    """A folder that behaves as if it were behind a URL."""

    is_local = False
