"""The arithmetic of statistics: windows, looks, figures (admin spec 6.2)."""

import pytest

from broker.statistics.stats_item import DAY, HOUR, MINUTE, Figures, StatsItem, Window


def test_statistics_are_empty_before_the_first_sample() -> None:
    item = StatsItem()
    item.add(5)
    assert [item.figures(window) for window in (MINUTE, HOUR, DAY)] == [Figures()] * 3


@pytest.mark.parametrize(("window", "tick_s"), [(MINUTE, 10), (HOUR, 600), (DAY, 3600)])
def test_counts_before_the_first_sample_belong_to_one_interval(window: Window, tick_s: int) -> None:
    item = StatsItem()
    item.add(30, 3)
    item.look(window, 1_000_000_000)
    assert item.figures(window) == Figures(30, 3, 30 / tick_s, 10.0)


def test_window_drops_samples_older_than_its_length() -> None:
    item = StatsItem()
    for look in range(20):
        item.add(100 if look < 13 else 1, 2)
        item.look(MINUTE, look * 10_000)
    # Seven looks lie sixty seconds apart: six additions between them.
    assert item.figures(MINUTE) == Figures(6, 12, 0.1, 0.5)


def test_idle_item_falls_to_zero() -> None:
    item = StatsItem()
    item.add(7)
    for look in range(8):
        item.look(MINUTE, look * 10_000)
    assert item.figures(MINUTE) == Figures(0, 0, 0.0, 0.0)


def test_day_window_spans_24_hours() -> None:
    item = StatsItem()
    for hour in range(30):
        item.add(1)
        item.look(DAY, hour * 3_600_000)
    assert item.figures(DAY).sum == 24


def test_average_without_a_count_is_zero() -> None:
    item = StatsItem()
    item.add(40, 0)
    item.look(MINUTE, 0)
    assert item.figures(MINUTE) == Figures(40, 0, 4.0, 0.0)
