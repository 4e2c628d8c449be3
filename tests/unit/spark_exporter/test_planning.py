"""Where a log ends, how it is cut, and that a range never begins at a false record."""

import random
from pathlib import Path

import pytest

from headrace.protocol.record import encode_record
from spark_exporter.errors import DamagedRecords, SourceError
from spark_exporter.planning.log_end import find_settled_end
from spark_exporter.planning.plan import Source, join, open_source
from spark_exporter.planning.shares import even_parts, longest_share
from spark_exporter.reading.next_record import find_next_record
from spark_exporter.reading.range_scan import ByteRange, RangeScan, ScanOptions
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.reading.segments import find_commit_log, list_segments, open_segment
from support.small_log import STORE_MS, SmallLog, write_log

EVERYTHING = ScanOptions(choice=RecordChoice(include_system=True), columns=("commit_log_offset",))


def offsets(source: Source, start: int, end: int, workers: int = 4) -> list[int]:
    """The records of a plan, each range proven."""
    found: list[int] = []
    for byte_range in source.plan(start, end, workers, least_range_bytes=500).ranges:
        scan = RangeScan(byte_range, EVERYTHING, window_bytes=4096)
        for batch in scan.batches():
            found += batch[0].to_pylist()
        assert scan.landed == byte_range.end
    return found


def whole(source: Source) -> ByteRange:
    segment = source.segments[0]
    end = source.find_end()
    return ByteRange(segment, segment.base, end, end)


def test_ranges_cover_the_log_without_overlap(tmp_path: Path) -> None:
    log = write_log(tmp_path, [bytes(number % 700) for number in range(1000)])
    source = open_source(tmp_path)
    assert source.find_end() == log.end
    assert len(source.plan(0, log.end, workers=20, least_range_bytes=500).ranges) > 30
    assert offsets(source, 0, log.end, workers=20) == log.offsets


def test_record_bytes_inside_a_body_are_not_taken_for_a_record(tmp_path: Path) -> None:
    # Dead letters and shipped logs: whole records in bodies, which say that they lie elsewhere.
    planted = encode_record(topic="Orders", body=b"inner" * 20, physical_offset=12345, store_timestamp=STORE_MS)
    log = write_log(tmp_path, [planted * 20 for _ in range(100)], 1 << 20)
    source = open_source(tmp_path)
    assert offsets(source, 0, log.end, workers=20) == log.offsets
    with open_segment(source.segments[0]) as descriptor:
        for wanted in random.Random(1).sample(range(log.end), 50):
            found = find_next_record(descriptor, source.segments[0], wanted, log.end)
            assert found == next(
                (offset for offset in [*log.offsets, None] if offset is None or offset >= wanted), None
            )


def test_joining_repairs_a_false_cut_at_a_forged_record(tmp_path: Path) -> None:
    log = SmallLog(tmp_path, 1 << 20)
    log.append(b"first")
    # A client that knew where its body would lie could plant a record that says so.
    at = log.end + 88
    forged = encode_record(topic="Forged", body=b"x" * 50, physical_offset=at, store_timestamp=STORE_MS)
    log.append(forged + b"padding" * 100)
    log.append(b"last")
    log.write()
    source = open_source(tmp_path)
    segment, end = source.segments[0], source.find_end()
    first, second = ByteRange(segment, 0, at, end), ByteRange(segment, at, end, end)
    scan = RangeScan(first, EVERYTHING)
    assert [row for batch in scan.batches() for row in batch[0].to_pylist()] == log.offsets[:2]
    assert scan.landed != second.start, "the cut is seen to be false"
    joined = RangeScan(join([first, second]), EVERYTHING)
    assert [row for batch in joined.batches() for row in batch[0].to_pylist()] == log.offsets
    assert joined.landed == end


def test_queue_entries_are_cuts_only_at_a_record(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 500] * 200, 1 << 20)
    queue = tmp_path / "consumequeue" / "Orders" / "0"
    queue.mkdir(parents=True)
    entries = b"".join(
        (offset + (7 if number % 2 else 0)).to_bytes(8, "big") + (600).to_bytes(4, "big") + bytes(8)
        for number, offset in enumerate(log.offsets)
    )
    (queue / f"{0:020}").write_bytes(entries)
    source = open_source(tmp_path)
    ranges = source.plan(0, log.end, workers=10, least_range_bytes=500).ranges
    assert len(ranges) == 20
    assert {each.start for each in ranges} <= set(log.offsets)
    assert offsets(source, 0, log.end, workers=10) == log.offsets


def test_whole_segments_are_not_cut_if_there_are_enough(tmp_path: Path) -> None:
    write_log(tmp_path, [b"x" * 6000] * 100)
    source = open_source(tmp_path)
    ranges = source.plan(0, source.find_end(), workers=2, least_range_bytes=1).ranges
    assert [each.start for each in ranges] == [segment.base for segment in source.segments]
    certain = source.plan(0, source.find_end(), workers=50, certain=True, least_range_bytes=1)
    assert certain.ranges == ranges


def test_first_segments_stay_whole_and_shares_of_two_workers_are_even(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 200] * 680)
    source = open_source(tmp_path)
    ranges = source.plan(0, log.end, workers=2, least_range_bytes=4096).ranges
    assert log.end / (1 << 16) == pytest.approx(3.1, abs=0.1)
    assert [each.size_bytes for each in ranges[:2]] == [1 << 16] * 2
    assert longest_share([each.size_bytes for each in ranges], 2) < 1.06 * log.end / 2
    assert offsets(source, 0, log.end, workers=2) == log.offsets


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 50])
def test_no_worker_has_much_more_than_its_share(workers: int) -> None:
    chance = random.Random(workers)
    gib, least = 1 << 30, 64 << 20
    for count in [*range(1, 12), 40, 1500]:
        sizes = [gib] * count + [chance.randrange(1, gib)]
        parts = even_parts(sizes, workers, least)
        cut = [size // number for size, number in zip(sizes, parts, strict=True) for _ in range(number)]
        assert min(cut) >= min(least, *sizes)
        # Where the pieces are too few because they would be too small, one of the smallest is what there may be too much.
        assert longest_share(cut, workers) <= max(1.05 * sum(sizes) / workers, sum(sizes) / workers + 2 * least)
        assert all(number == 1 for number in parts) or len(cut) <= max(16 * workers, len(sizes) + 4 * workers)


def test_plan_is_the_same_from_queues_and_from_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path, [bytes(number % 700) for number in range(700)])
    source = open_source(tmp_path)
    plans = [source.plan(0, log.end, workers=3, least_range_bytes=4096)]
    queue = tmp_path / "consumequeue" / "Orders" / "0"
    queue.mkdir(parents=True)
    for known in (len(log.offsets), 350):  # all that is in the log, and as far as it was dispatched
        entries = b"".join(
            offset.to_bytes(8, "big") + (600).to_bytes(4, "big") + bytes(8) for offset in log.offsets[:known]
        )
        (queue / f"{0:020}").write_bytes(entries)
        plans.append(open_source(tmp_path).plan(0, log.end, workers=3, least_range_bytes=4096))
    assert len(plans[0].ranges) > len(source.segments)
    assert plans[1:] == plans[:1] * 2


def test_reading_continues_behind_a_hole_in_a_sealed_file(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 1000] * 100)
    log.overwrite(log.offsets[10], bytes(1500))
    scan = RangeScan(ByteRange((segment := open_source(tmp_path).segments[0]), 0, segment.end, segment.end), EVERYTHING)
    windows = list(scan.windows())
    found = [row for each in windows if each.rows is not None for row in each.rows[0].to_pylist()]
    in_file = [offset for offset in log.offsets if offset < segment.end]
    assert found == in_file[:10] + in_file[12:]
    (damage,) = [damage for each in windows for damage in each.damage]
    assert scan.damaged == 1
    assert (damage.physical_offset, damage.size_bytes) == (in_file[10], in_file[12] - in_file[10])
    assert damage.raw[:1500] == bytes(1500)
    assert scan.landed == segment.end


def test_strict_fails_at_the_first_damage(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 1000] * 10)
    log.overwrite(log.offsets[3] + 100, b"y")
    options = ScanOptions(strict=True)
    with pytest.raises(DamagedRecords, match=f"physical offset {log.offsets[3]}: the body does not match its CRC"):
        list(RangeScan(whole(open_source(tmp_path)), options).batches())


def test_records_beyond_the_end_of_the_log_are_not_read(tmp_path: Path) -> None:
    # A broker's recovery moved the end back; what it cut off still lies there.
    log = write_log(tmp_path, [b"x" * 100] * 20)
    log.overwrite(log.offsets[10], b"\xff" * 40)
    assert open_source(tmp_path).find_end() == log.offsets[10]


@pytest.mark.parametrize("torn", [1, 2, 5])
def test_torn_bodies_at_the_end_are_cut_off_and_others_are_not(tmp_path: Path, torn: int) -> None:
    log = write_log(tmp_path, [b"x" * 100] * 20)
    for offset in log.offsets[-torn:]:
        log.overwrite(offset + 100, b"\0")
    source = open_source(tmp_path)
    assert source.find_end() == log.offsets[-torn]
    log.overwrite(log.offsets[3] + 100, b"\0")
    assert open_source(tmp_path).find_end() == log.offsets[-torn]


def test_end_of_the_log_is_found_from_any_record(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 2000] * 100)
    source = open_source(tmp_path)
    for offset in log.offsets:
        assert source.find_end(offset) == log.end
    last = source.segments[-1]
    assert find_settled_end(last, last.base) == log.end


def test_log_that_ends_in_a_blank_record_ends_with_its_file(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    log.append(b"x" * 40000)
    log.append(b"y" * 40000)
    log.write()
    (log.folder / f"{1 << 16:020}").write_bytes(bytes(1 << 16))  # as if the second file had been reserved only
    assert open_source(tmp_path).find_end() == 1 << 16


def test_flushed_offset_is_used_as_the_end(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 100] * 20)
    source = open_source(tmp_path)
    assert source.find_end(None, log.offsets[7]) == log.offsets[7]
    assert source.find_end(log.offsets[9], log.offsets[7]) == log.offsets[9], "what is exported was flushed"


def test_offset_or_time_selects_the_first_record_at_or_after_it(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 1000] * 300)
    source = open_source(tmp_path)
    for number in (0, 1, 62, 63, 64, 150, 299):
        assert source.find_record_since(STORE_MS + number, log.end) == log.offsets[number]
        assert source.find_record_from(log.offsets[number], log.end) == log.offsets[number]
        assert source.find_record_from(log.offsets[number] - 1, log.end) in {
            log.offsets[number],
            1 << 16,
            2 << 16,
            3 << 16,
            4 << 16,
            0,
        }
    assert source.find_record_since(STORE_MS + 300, log.end) == log.end
    assert source.find_record_since(0, log.end) == 0


def test_source_can_be_a_store_a_data_folder_or_commit_log_files(tmp_path: Path) -> None:
    log = write_log(tmp_path / "data" / "store", [b"x"])
    for path in (tmp_path / "data", tmp_path / "data" / "store", log.folder):
        assert find_commit_log(path) == log.folder


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _path: None, "no such folder"),
        (lambda path: path.write_text("x"), "is a file"),
        (lambda path: path.mkdir(), "is not a store: it contains no commitlog folder"),
        (lambda path: (path / "commitlog").mkdir(parents=True), "its commitlog folder is empty"),
    ],
)
def test_folder_that_is_not_a_store_is_reported_in_one_line(tmp_path: Path, make: object, said: str) -> None:
    make(tmp_path / "it")  # type: ignore[operator]
    with pytest.raises(SourceError, match=said):
        open_source(tmp_path / "it")


def test_files_of_two_logs_are_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x"])
    (log.folder / f"{100:020}").write_bytes(bytes(1 << 16))
    with pytest.raises(SourceError, match="do not belong to the same log"):
        list_segments(log.folder)


def test_truncated_file_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path, [b"x" * 1000] * 20)
    planned = whole(open_source(tmp_path))
    (log.folder / f"{0:020}").write_bytes(b"")
    with pytest.raises(SourceError, match="was truncated while it was read"):
        list(RangeScan(planned, EVERYTHING).batches())


def test_thousands_of_segments_are_planned_without_reading_them(tmp_path: Path) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    record = encode_record(topic="T", body=b"x" * 100, store_timestamp=STORE_MS)
    for number in range(2000):
        data = bytearray(record)
        data[28:36] = (number * 1000).to_bytes(8, "big")
        (folder / f"{number * 1000:020}").write_bytes(bytes(data).ljust(1000, b"\0"))
    source = open_source(tmp_path)
    end = source.find_end()
    assert len(source.plan(0, end, workers=8).ranges) == 2000
    assert end == 1999 * 1000 + len(record)
