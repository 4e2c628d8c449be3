"""The arithmetic of statistics: windows, looks, figures (admin spec 6.2)."""

import pytest

from broker.statistics.stats_item import DAY, HOUR, MINUTE, Figures, StatsItem, Window


def test_nothing_is_said_before_the_first_look() -> None:
    item = StatsItem()
    item.add(5)
    assert [item.figures(window) for window in (MINUTE, HOUR, DAY)] == [Figures()] * 3


@pytest.mark.parametrize(("window", "tick_s"), [(MINUTE, 10), (HOUR, 600), (DAY, 3600)])
def test_what_came_before_the_first_look_came_within_one_tick(window: Window, tick_s: int) -> None:
    item = StatsItem()
    item.add(30, 3)
    item.look(window, 1_000_000_000)
    assert item.figures(window) == Figures(30, 3, 30 / tick_s, 10.0)


def test_a_window_forgets_what_is_older_than_its_looks() -> None:
    item = StatsItem()
    for look in range(20):
        item.add(100 if look < 13 else 1, 2)
        item.look(MINUTE, look * 10_000)
    # Seven looks lie sixty seconds apart: six additions between them.
    assert item.figures(MINUTE) == Figures(6, 12, 0.1, 0.5)


def test_an_idle_item_falls_to_nothing() -> None:
    item = StatsItem()
    item.add(7)
    for look in range(8):
        item.look(MINUTE, look * 10_000)
    assert item.figures(MINUTE) == Figures(0, 0, 0.0, 0.0)


def test_a_day_spans_twenty_four_hours() -> None:
    item = StatsItem()
    for hour in range(30):
        item.add(1)
        item.look(DAY, hour * 3_600_000)
    assert item.figures(DAY).sum == 24


def test_additions_of_no_times_have_no_average() -> None:
    item = StatsItem()
    item.add(40, 0)
    item.look(MINUTE, 0)
    assert item.figures(MINUTE) == Figures(40, 0, 4.0, 0.0)
