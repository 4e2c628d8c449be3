from pathlib import Path

import pytest

from store.index.layout import HEADER
from store.recovery.index_files import IndexHead, decide_index, read_heads

LOG = {"log_min_offset": 100, "log_end_offset": 10_000}
CRASH = {"is_clean": False, "is_same_boot": False, "is_dispatched": False}
KILL = CRASH | {"is_same_boot": True}
KILL_AFTER_DISPATCH = KILL | {"is_dispatched": True}
CLEAN_STOP = CRASH | {"is_clean": True}


def head(number: int, end_timestamp: int, end_offset: int, full: bool = True, right: bool = True) -> IndexHead:
    return IndexHead(Path(f"2026010100000000{number}"), end_timestamp, end_offset, full, right)


THREE = [head(1, 1000, 2000), head(2, 2000, 4000), head(3, 3000, 6000, full=False)]


def names(heads: tuple[IndexHead, ...]) -> list[int]:
    return [int(one.path.name[-1]) for one in heads]


def test_all_index_files_are_kept_after_a_clean_stop() -> None:
    decision = decide_index(THREE, **CLEAN_STOP, checkpoint_timestamp=0, **LOG)
    assert (names(decision.dropped), decision.rebuild_from, decision.end_timestamp) == ([], None, 2000)


@pytest.mark.parametrize(
    ("checkpoint", "dropped", "rebuild_from"),
    [
        (0, [1, 2, 3], 100),
        (999, [1, 2, 3], 100),
        (1000, [2, 3], 2000),
        (2000, [3], 4000),
        (9000, [3], 4000),
    ],
)
def test_only_full_and_synced_index_files_are_kept_after_a_crash(
    checkpoint: int, dropped: list[int], rebuild_from: int
) -> None:
    decision = decide_index(THREE, **CRASH, checkpoint_timestamp=checkpoint, **LOG)
    assert (names(decision.dropped), decision.rebuild_from) == (dropped, rebuild_from)


def test_index_files_after_a_discarded_one_are_discarded() -> None:
    heads = [head(1, 1000, 2000), head(2, 9000, 4000), head(3, 1500, 6000)]
    assert names(decide_index(heads, **CRASH, checkpoint_timestamp=2000, **LOG).dropped) == [2, 3]


@pytest.mark.parametrize(("checkpoint", "unsynced"), [(0, [1, 2]), (1000, [2]), (2000, [])])
def test_all_index_files_are_kept_after_a_kill_under_the_same_kernel(checkpoint: int, unsynced: list[int]) -> None:
    decision = decide_index(THREE, **KILL, checkpoint_timestamp=checkpoint, **LOG)
    assert (names(decision.dropped), decision.rebuild_from, decision.end_timestamp) == ([], 6000, 2000)
    assert names(decision.unsynced) == unsynced


def test_nothing_older_is_indexed_again_if_all_was_dispatched_before_a_kill() -> None:
    """The last key may be old: most stores have messages without keys."""
    decision = decide_index(THREE, **KILL_AFTER_DISPATCH, checkpoint_timestamp=1000, **LOG)
    assert (names(decision.dropped), decision.rebuild_from, names(decision.unsynced)) == ([], None, [2])
    lost = decide_index([], **KILL_AFTER_DISPATCH, checkpoint_timestamp=1000, **LOG)
    assert lost.rebuild_from == 100


@pytest.mark.parametrize("stop", [CLEAN_STOP, CRASH, KILL, KILL_AFTER_DISPATCH])
def test_index_file_with_records_beyond_the_end_is_discarded(stop: dict[str, bool]) -> None:
    heads = [head(1, 1000, 2000), head(2, 2000, 10_000)]
    decision = decide_index(heads, **stop, checkpoint_timestamp=5000, **LOG)
    assert (names(decision.dropped), decision.rebuild_from) == ([2], 2000)


def test_index_file_of_another_length_is_discarded() -> None:
    heads = [head(1, 1000, 2000), head(2, 2000, 4000, right=False)]
    assert names(decide_index(heads, **CLEAN_STOP, checkpoint_timestamp=5000, **LOG).dropped) == [2]


def test_lost_index_files_are_rebuilt_from_the_first_record_after_a_crash() -> None:
    assert decide_index([], **CRASH, checkpoint_timestamp=5000, **LOG).rebuild_from == 100


def test_missing_index_is_not_rebuilt_if_there_never_was_one() -> None:
    for stop in (CRASH, KILL):
        assert decide_index([], **stop, checkpoint_timestamp=0, **LOG).rebuild_from is None
    assert decide_index([], **CLEAN_STOP, checkpoint_timestamp=5000, **LOG).rebuild_from is None


def test_headers_are_read_from_the_files(tmp_path: Path) -> None:
    (tmp_path / "20260101000000002").write_bytes(HEADER.pack(1, 2, 3, 4, 5, 20) + bytes(60))
    (tmp_path / "20260101000000001").write_bytes(HEADER.pack(1, 2, 3, 4, 5, 19) + bytes(61))
    (tmp_path / "20260101000000003").write_bytes(b"short")
    (tmp_path / "notes").write_bytes(b"")
    first, second, third = read_heads(tmp_path, 100, 20)
    assert (first.end_timestamp, first.end_physical_offset, first.is_full, first.has_right_length) == (
        2,
        4,
        False,
        False,
    )
    assert (second.is_full, second.has_right_length) == (True, True)
    assert (third.end_physical_offset, third.is_full, third.has_right_length) == (0, False, False)
    assert read_heads(tmp_path / "none", 100, 20) == []


@pytest.mark.parametrize(
    "header",
    [(1, 2, 3, 4, 5, 21), (1, 2, 3, 4, 5, 2**31 - 1), (3, 2, 3, 4, 5, 20), (1, 2, 5, 4, 5, 20), (-5, -4, 3, 4, 5, 20)],
)
def test_file_with_a_garbled_header_does_not_count_as_full(tmp_path: Path, header: tuple[int, ...]) -> None:
    (tmp_path / "20260101000000001").write_bytes(HEADER.pack(*header) + bytes(60))
    assert not read_heads(tmp_path, 100, 20)[0].is_full
