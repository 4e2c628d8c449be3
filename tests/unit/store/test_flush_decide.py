import pytest

from store.flush.decide import Piece, has_gathered, is_due, pieces_to_sync

SIZE = 100_000
PAGE = 4096


@pytest.mark.parametrize(
    ("flushed", "wrote", "pieces"),
    [
        (0, 0, []),
        (50, 50, []),
        (60, 50, []),
        (SIZE, SIZE, []),
        (0, 1, [Piece(0, 1)]),
        (0, SIZE, [Piece(0, SIZE)]),
        (10, SIZE + 1, [Piece(0, SIZE), Piece(SIZE, SIZE + 1)]),
        (SIZE, SIZE + 5, [Piece(SIZE, SIZE + 5)]),
        (SIZE - 1, 3 * SIZE, [Piece(0, SIZE), Piece(SIZE, 2 * SIZE), Piece(2 * SIZE, 3 * SIZE)]),
    ],
)
def test_pieces_to_sync_cover_flushed_to_written(flushed: int, wrote: int, pieces: list[Piece]) -> None:
    assert pieces_to_sync(flushed, wrote, SIZE) == pieces


@pytest.mark.parametrize(
    ("flushed", "wrote", "least_pages", "expected"),
    [
        (0, 0, 4, False),
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 1, 4, False),
        (0, 4 * PAGE - 1, 4, False),
        (0, 4 * PAGE, 4, True),
        (PAGE - 1, 4 * PAGE, 4, True),
        (PAGE, 4 * PAGE, 4, False),
        (SIZE - 1, SIZE, 4, True),
        (SIZE, SIZE + 1, 4, False),
        (7, 5, 0, False),
    ],
)
def test_whole_pages_or_a_full_file_trigger_a_sync(flushed: int, wrote: int, least_pages: int, expected: bool) -> None:
    assert has_gathered(flushed, wrote, least_pages, SIZE) is expected


@pytest.mark.parametrize(
    ("now", "last", "due"),
    [(99, 0, False), (100, 0, True), (1000, 0, True), (0, 0, False), (-1, 0, True), (5, 50, True)],
)
def test_interval_ends_when_it_has_passed_or_the_clock_was_set_back(now: int, last: int, due: bool) -> None:
    assert is_due(now, last, 100) is due
