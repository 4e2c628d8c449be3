import pytest

from store.recovery.decide import first_file_after_clean_stop, first_file_after_crash, reput_offset


@pytest.mark.parametrize(
    ("starts", "first"), [([], 0), ([5], 5), ([5, 6], 5), ([5, 6, 7], 5), ([5, 6, 7, 8], 6), (list(range(20)), 17)]
)
def test_last_three_files_are_read_after_a_clean_stop(starts: list[int], first: int) -> None:
    assert first_file_after_clean_stop(starts) == first


@pytest.mark.parametrize(
    ("timestamps", "min_timestamp", "first"),
    [
        ([], 100, 0),
        ([10, 20, 30], 100, 2),
        ([10, 20, 30], 30, 2),
        ([10, 20, 30], 29, 1),
        ([10, 20, 30], 5, 0),
        ([10, 20, None], 100, 1),
        ([10, None, 30], 25, 0),
        ([None, None], 100, 0),
        ([10, 0, 30], 25, 0),
        ([10, 20, 30], 0, 0),
    ],
)
def test_reading_begins_at_the_last_safe_file_after_a_crash(
    timestamps: list[int | None], min_timestamp: int, first: int
) -> None:
    assert first_file_after_crash(list(enumerate(timestamps)), min_timestamp) == first


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 900),
        ({"is_clean": False}, 500),
        ({"first_missing": 700}, 700),
        ({"first_missing": 700, "older_missing": 300}, 300),
        ({"is_clean": False, "first_missing": 700}, 500),
        ({"is_clean": False, "older_missing": 300}, 300),
        ({"index_rebuild_from": 200}, 200),
        ({"is_clean": False, "index_rebuild_from": 800}, 500),
        ({"index_rebuild_from": 50}, 100),
        ({"has_queue_entries": False}, 100),
        ({"is_clean": False, "survey_start": 1000}, 900),
    ],
)
def test_dispatch_begins_at_the_lowest_missing_offset(changes: dict[str, int], expected: int) -> None:
    facts = {
        "is_clean": True,
        "log_min_offset": 100,
        "survey_start": 500,
        "end_offset": 900,
        "first_missing": -1,
        "older_missing": -1,
        "index_rebuild_from": None,
        "has_queue_entries": True,
    }
    assert reput_offset(**{**facts, **changes}) == expected  # type: ignore[arg-type]
