import pytest

from ipc.counter_page import CounterPage, format_counter_page, size_bytes
from ipc.errors import CounterPageFull
from ipc.posix import Segment, anonymous_segment

CAPACITY = 4


@pytest.fixture
def segment() -> Segment:
    segment = anonymous_segment(size_bytes(CAPACITY))
    format_counter_page(segment, "00c0ffee", CAPACITY)
    return segment


def test_counters_begin_at_zero_with_their_names(segment: Segment) -> None:
    CounterPage.create(segment, ["sends", "pulls"])
    assert CounterPage(segment).read() == {"sends": 0, "pulls": 0}


def test_counts_are_visible_to_readers(segment: Segment) -> None:
    page = CounterPage.create(segment, ["sends", "pulls"])
    reader = CounterPage(segment)
    page.add("sends")
    page.add("sends", 41)
    page.add_at(page.index_of("pulls"), 7)
    assert reader.read() == {"sends": 42, "pulls": 7}


def test_counter_added_later_is_visible_to_readers(segment: Segment) -> None:
    reader = CounterPage(segment)
    CounterPage.create(segment, ["sends"]).add("refused", 2)
    assert reader.read() == {"sends": 0, "refused": 2}


def test_restarted_role_continues_its_counters(segment: Segment) -> None:
    CounterPage.create(segment, ["sends", "pulls"]).add("pulls", 5)
    again = CounterPage.create(segment, ["pulls", "holds"])
    again.add("pulls")
    assert again.read() == {"sends": 0, "pulls": 6, "holds": 0}


def test_counters_named_later_by_a_predecessor_are_continued(segment: Segment) -> None:
    inherited = CounterPage(segment)
    CounterPage.create(segment, ["sends", "pulls"]).add("pulls", 5)
    inherited.add("pulls")
    inherited.add("holds")
    assert inherited.read() == {"sends": 0, "pulls": 6, "holds": 1}


def test_full_page_is_reported(segment: Segment) -> None:
    page = CounterPage.create(segment, [str(number) for number in range(CAPACITY)])
    with pytest.raises(CounterPageFull, match="one-more"):
        page.add("one-more")
    assert len(page.read()) == CAPACITY


@pytest.mark.parametrize("name", ["", "x" * 113])
def test_counter_name_that_does_not_fit_is_refused(segment: Segment, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 112"):
        CounterPage.create(segment, [name])
