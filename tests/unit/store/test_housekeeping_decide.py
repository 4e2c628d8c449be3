import pytest

from store.housekeeping.decide import (
    DiskState,
    LogFile,
    disk_state,
    files_ahead,
    files_between,
    files_to_delete,
    files_to_reserve,
    safe_to_delete_offset,
    unused_files,
    worth_syncing_from,
)

GIB = 1 << 30
SIZE = 1000
HOUR = 3_600_000
NOW = 100 * HOUR


@pytest.mark.parametrize(
    ("file_size", "count"), [(GIB, 2), (64 << 20, 2), (32 << 20, 2), (16 << 20, 4), (4 << 20, 16), (1 << 17, 16)]
)
def test_more_files_are_reserved_ahead_if_they_are_small(file_size: int, count: int) -> None:
    assert files_ahead(file_size) == count


@pytest.mark.parametrize(
    ("wrote", "allocated", "starts"),
    [
        (0, 0, [0, 1, 2]),
        (0, 1, [1, 2]),
        (0, 3, []),
        (0.5, 3, []),
        (1, 3, [3]),
        (1.5, 3, [3]),
        (5, 3, [5, 6, 7]),
        (2, 2, [2, 3, 4]),
    ],
)
def test_file_being_written_and_two_more_are_reserved(wrote: float, allocated: int, starts: list[int]) -> None:
    assert list(files_to_reserve(int(wrote * GIB), allocated * GIB, GIB)) == [start * GIB for start in starts]


def test_unwritten_files_are_unused_last_file_first() -> None:
    assert unused_files([0, 1000, 2000, 3000], 1500) == [3000, 2000]
    assert unused_files([0, 1000, 2000], 1000) == [2000, 1000]
    assert unused_files([0, 1000], 0) == [1000, 0]
    assert unused_files([0, 1000], 1001) == []


@pytest.mark.parametrize(
    ("log_ratio", "queue_ratio", "state"),
    [
        (0.5, 0.5, DiskState(is_full=False, delete_expired=False, delete_oldest=False)),
        (0.75, 0.75, DiskState(is_full=False, delete_expired=False, delete_oldest=False)),
        (0.76, 0.1, DiskState(is_full=False, delete_expired=True, delete_oldest=False)),
        (0.1, 0.76, DiskState(is_full=False, delete_expired=True, delete_oldest=False)),
        (0.85, 0.1, DiskState(is_full=False, delete_expired=True, delete_oldest=False)),
        (0.86, 0.1, DiskState(is_full=False, delete_expired=True, delete_oldest=True)),
        (0.90, 0.1, DiskState(is_full=False, delete_expired=True, delete_oldest=True)),
        (0.91, 0.1, DiskState(is_full=True, delete_expired=True, delete_oldest=True)),
        (0.1, 0.91, DiskState(is_full=True, delete_expired=True, delete_oldest=True)),
        (-1, 0.1, DiskState(is_full=False, delete_expired=True, delete_oldest=False)),
    ],
)
def test_disk_usage_levels_equal_rocketmqs(log_ratio: float, queue_ratio: float, state: DiskState) -> None:
    assert disk_state(log_ratio, queue_ratio, 0.75) == state


def files(*ages_in_hours: float) -> list[LogFile]:
    return [LogFile(number * SIZE, int(NOW - age * HOUR)) for number, age in enumerate(ages_in_hours)]


@pytest.mark.parametrize(
    ("ages", "safe", "oldest", "doomed"),
    [
        ([], 0, False, []),
        ([80, 75, 10], 3 * SIZE, False, [0, 1]),
        ([80, 75, 10], SIZE, False, [0]),
        ([80, 75, 10], 2 * SIZE - 1, False, [0]),
        ([80, 10, 75], 3 * SIZE, False, [0]),
        ([71.9, 80], 2 * SIZE, False, []),
        ([72, 80], 2 * SIZE, False, [0, 1]),
        ([1, 1, 1], 2 * SIZE, True, [0, 1]),
        ([1, 1, 1], 0, True, []),
        ([80] * 15, 15 * SIZE, False, list(range(10))),
    ],
)
def test_oldest_deletable_files_are_deleted_first(
    ages: list[float], safe: int, oldest: bool, doomed: list[int]
) -> None:
    chosen = files_to_delete(files(*ages), NOW, 72 * HOUR, safe, SIZE, delete_oldest=oldest)
    assert chosen == [number * SIZE for number in doomed]


@pytest.mark.parametrize(
    ("wrote", "flushed", "reput", "safe"),
    [
        (0, 0, 0, 0),
        (SIZE, SIZE, SIZE, 0),
        (SIZE + 1, SIZE + 1, SIZE + 1, SIZE),
        (3500, 3500, 3500, 3000),
        (3500, 1200, 3500, 1200),
        (3500, 3500, 700, 700),
    ],
)
def test_last_file_and_files_not_durable_or_dispatched_are_kept(
    wrote: int, flushed: int, reput: int, safe: int
) -> None:
    assert safe_to_delete_offset(wrote, flushed, reput, SIZE) == safe


@pytest.mark.parametrize(
    ("synced", "pages", "worth"), [(0, 2, 8192), (4095, 2, 8192), (4096, 2, 12_288), (0, 0, 4096), (20, 0, 4096)]
)
def test_queue_is_synced_between_thorough_rounds_after_enough_pages(synced: int, pages: int, worth: int) -> None:
    assert worth_syncing_from(synced, pages) == worth


def test_only_the_files_with_new_entries_are_synced() -> None:
    assert list(files_between(0, 0, SIZE)) == []
    assert list(files_between(20, 40, SIZE)) == [0]
    assert list(files_between(980, 1020, SIZE)) == [0, 1000]
    assert list(files_between(1000, 1020, SIZE)) == [1000]
