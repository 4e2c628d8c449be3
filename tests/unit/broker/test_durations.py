"""How long something took: the last minute's shares and ranges, and the longest of all."""

from broker.statistics.durations import Durations

MS, MINUTE = 10**6, 60 * 10**9


class Stopwatch:
    """Durations on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0
        self.durations = Durations(lambda: self.now)

    def take(self, took_ns: int, times: int = 1) -> None:
        self.now += took_ns
        self.durations.add(self.now - took_ns, times)


def counted(distribution: str) -> dict[str, int]:
    return {name: int(number) for name, number in (one.rsplit(":", 1) for one in distribution.split())}


def test_new_statistics_are_zero_in_every_range() -> None:
    durations = Stopwatch().durations
    assert (durations.longest_ms, durations.below_ms(0.99)) == (0, 0.0)
    assert set(counted(durations.distribution()).values()) == {0}
    assert len(counted(durations.distribution())) == 13


def test_percentiles_are_at_most_a_sixteenth_too_low() -> None:
    watch = Stopwatch()
    for _ in range(990):
        watch.take(3 * MS)
    for _ in range(10):
        watch.take(700 * MS)
    assert 3 * 15 / 16 <= watch.durations.below_ms(0.99) <= 3
    assert 700 * 15 / 16 <= watch.durations.below_ms(0.999) <= 700
    assert watch.durations.longest_ms == 700


def test_each_request_of_a_batch_is_counted() -> None:
    watch = Stopwatch()
    watch.take(MS // 2, 40)
    watch.take(20 * MS, 2)
    assert counted(watch.durations.distribution()) | {"[<=0ms]": 40, "[10~50ms]": 2} == counted(
        watch.durations.distribution()
    )


def test_ranges_equal_rocketmqs() -> None:
    watch = Stopwatch()
    for ms in (0, 8, 44, 92, 184, 480, 960, 1920, 2880, 3840, 4800, 9600, 19200):
        watch.now = 0
        watch.take(ms * MS)
    assert set(counted(watch.durations.distribution()).values()) == {1}


def test_last_complete_minute_is_reported_and_empty_if_idle() -> None:
    watch = Stopwatch()
    watch.take(5 * MS)
    assert watch.durations.below_ms(1) > 4, "the first minute is told while it lasts"
    watch.now = MINUTE + 1
    watch.take(80 * MS)
    assert watch.durations.below_ms(1) < 6, "the second is not over"
    watch.now = 2 * MINUTE + 1
    assert watch.durations.below_ms(1) > 70
    watch.now = 4 * MINUTE + 1
    assert watch.durations.below_ms(1) == 0
    assert watch.durations.longest_ms == 80, "that is of all minutes"
