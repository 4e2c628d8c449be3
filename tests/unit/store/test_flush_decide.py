import pytest

from store.flush.decide import has_gathered, is_due

SIZE = 100_000
PAGE = 4096


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
