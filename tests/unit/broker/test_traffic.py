"""Rates and midnights out of counters."""

import time

from broker.admin.runtime_info import size_text
from broker.statistics.traffic import Traffic


class Clock:
    """Wall-clock milliseconds that a test moves."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def test_rates_cover_10_60_and_600_seconds() -> None:
    counts, clock = {"messages_in": 0}, Clock(1_700_000_000_000)
    traffic = Traffic(lambda: counts, clock)
    assert traffic.rates("messages_in") == (0.0, 0.0, 0.0)
    for second in range(700):
        clock.now_ms += 1000
        counts["messages_in"] += 1 if second < 690 else 100
        traffic.sample()
    assert traffic.rates("messages_in") == (100.0, (50 + 1000) / 60, (590 + 1000) / 600)


def test_rate_of_a_partial_window_covers_the_time_since_the_start() -> None:
    counts, clock = {"a": 0, "b": 0}, Clock(0)
    traffic = Traffic(lambda: counts, clock)
    clock.now_ms, counts["a"], counts["b"] = 2000, 6, 4
    traffic.sample()
    assert traffic.rates("a", "b") == (5.0, 5.0, 5.0)
    assert traffic.rates("unknown") == (0.0, 0.0, 0.0)


def test_counts_at_midnight_are_kept_for_two_days() -> None:
    counts, clock = {"a": 1}, Clock(int(time.mktime((2026, 11, 21, 23, 59, 59, 0, 0, -1))) * 1000)
    traffic = Traffic(lambda: counts, clock)
    assert traffic.at_midnights("a") == (0, 0)
    for day, count in ((1, 5), (2, 9), (2, 11)):
        clock.now_ms = int(time.mktime((2026, 11, 21 + day, 0, 0, 1, 0, 0, -1))) * 1000
        counts["a"] = count
        traffic.sample()
    assert traffic.at_midnights("a") == (5, 9)
    assert traffic.total("a") == 11


def test_sizes_are_human_readable() -> None:
    sizes = (0, 1023, 1024, 1536, 1024**2, 5 * 1024**3, 3 * 1024**4)
    assert [size_text(size) for size in sizes] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
