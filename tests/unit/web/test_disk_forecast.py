"""Does the disk last the weekend? Forecasts from rate, retention and ratio."""

from itertools import pairwise

import pytest

from web.history.disk_forecast import INDEX_SHARE, DiskFacts, DiskForecast, forecast, missing_s, steep_rise, write_rate
from web.history.disk_outlook import TooEarly, disk_outlook
from web.history.history_file import Chart
from web.sampling.sample import BrokerSample

DAY = 86_400.0
GIB = 1 << 30


def facts(**changes: float) -> DiskFacts:
    given = {
        "total_bytes": 100 * GIB,
        "free_bytes": 60 * GIB,
        "log_bytes": 30 * GIB,
        "oldest_age_s": DAY,
        "retention_s": 3 * DAY,
        "write_rate": 30 * GIB / DAY,
        **changes,
    }
    return DiskFacts(**given)  # type: ignore[arg-type]


def test_log_grows_until_its_oldest_messages_expire_and_then_stays() -> None:
    found = forecast(facts())
    assert found is not None
    assert found.at(0) == pytest.approx(0.4)
    assert found.at(2 * DAY) == found.at(9 * DAY) == pytest.approx(0.4 + 0.6 * INDEX_SHARE)
    assert found.peak == pytest.approx(0.4 + 0.6 * INDEX_SHARE)  # it does not fit


def test_time_of_the_refusal_is_found_between_the_points() -> None:
    found = forecast(facts())
    assert found is not None
    reached = found.reaches(0.9)
    assert reached == pytest.approx((0.9 - 0.4) / INDEX_SHARE / 0.3 * DAY)
    assert found.lasts(DAY, 0.9)
    assert not found.lasts(2 * DAY, 0.9)


def test_shorter_retention_saves_the_disk() -> None:
    found = forecast(facts(retention_s=1.5 * DAY))
    assert found is not None
    assert found.reaches(0.9) is None
    assert found.lasts(365 * DAY, 0.9)


def test_disk_that_is_full_has_no_time_left() -> None:
    found = forecast(facts(free_bytes=5 * GIB))
    assert found is not None
    assert found.reaches(0.9) == 0


def test_log_shrinks_if_less_is_written_than_before() -> None:
    found = forecast(facts(write_rate=GIB / DAY, oldest_age_s=3 * DAY))
    assert found is not None
    assert found.at(3 * DAY) == pytest.approx(0.4 - 0.27 * INDEX_SHARE)
    assert found.at(1.5 * DAY) == pytest.approx(0.4 - 0.135 * INDEX_SHARE)


@pytest.mark.parametrize(
    "changes",
    [
        {"total_bytes": 0},
        {"retention_s": 0},
        {"log_bytes": 0, "write_rate": 0},
        {"write_rate": -5},
        {"oldest_age_s": 99 * DAY},
    ],
)
def test_extreme_facts_are_no_error(changes: dict[str, float]) -> None:
    found = forecast(facts(**changes))
    assert (found is None) == (changes == {"total_bytes": 0})
    if found is not None:
        assert found.peak >= 0
        found.reaches(0.9)
        found.at(DAY)


@pytest.mark.parametrize(
    ("ends", "rate"),
    [
        ([0, 1200, 2400, 3600], 1.0),
        ([0, None, None, 3600], 1.0),
        ([None, None, None, 3600], None),
        ([9000, 0, 1200, 2400, 3600], 1.0),
        ([0, 1200, 2400, 100], None),
        ([], None),
    ],
)
def test_rate_of_writes_ignores_gaps_and_starts_anew_with_a_new_log(
    ends: list[float | None], rate: float | None
) -> None:
    assert write_rate(range(0, 1200 * len(ends), 1200), ends) == rate
    assert (missing_s(range(0, 1200 * len(ends), 1200), ends) > 0) == (rate is None)


def test_history_that_is_missing_is_counted_from_when_the_log_was_replaced() -> None:
    assert missing_s([], []) == 3600.0
    assert missing_s([0, 60, 120, 180], [5.0, 6.0, 1.0, None]) == 3600.0
    assert missing_s([0, 60, 120, 180], [5.0, 1.0, 2.0, 3.0]) == 3480.0


def test_steep_rise_goes_on_until_the_disk_is_full() -> None:
    times = range(0, 310, 10)
    found = steep_rise(times, [0.27 + 0.22 * at / 300 for at in times], 72 * 3600.0)
    assert found is not None
    assert found.is_steep
    assert found.history_s == 300.0
    assert found.at(0) == pytest.approx(0.49)
    assert found.reaches(0.9) == pytest.approx(0.41 / 0.22 * 300)


def minutes(*shares: float) -> tuple[range, list[float]]:
    """Samples every ten seconds, on straight lines between shares that are a minute apart."""
    lines = [first + (then - first) * part / 6 for first, then in pairwise(shares) for part in range(6)]
    return range(0, 10 * len(lines) + 1, 10), [*lines, shares[-1]]


@pytest.mark.parametrize(
    ("shares", "is_steep"),
    [
        ([0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.5], False),  # a minute
        ([0.3, 0.3, 0.3, 0.3, 0.4, 0.5, 0.6, 0.7], True),
        ([0.3, 0.3, 0.3, 0.4, 0.5, 0.6, 0.7, 0.64], False),  # falls again
        ([0.3, 0.3, 0.3, 0.4, 0.5, 0.6, 0.7, 0.7, 0.7], False),  # over for two minutes
        ([0.3, 0.3, 0.3, 0.4, 0.5, 0.6, 0.7, 0.7], True),
    ],
)
def test_steep_rise_counts_if_it_has_lasted_and_goes_on(shares: list[float], is_steep: bool) -> None:
    assert (steep_rise(*minutes(*shares), 72 * 3600.0) is not None) == is_steep


def test_one_sample_hardly_changes_a_steep_rise() -> None:
    times = range(0, 610, 10)
    shares = [0.3 + 0.1 * at / 600 for at in times]
    even, uneven = steep_rise(times, shares, 72 * 3600.0), steep_rise(times, [*shares[:-1], 0.41], 72 * 3600.0)
    assert even is not None
    assert uneven is not None
    # From the first and the last sample alone, it would be a tenth less.
    assert uneven.reaches(0.9) == pytest.approx(even.reaches(0.9), rel=0.06)


@pytest.mark.parametrize(
    ("times", "shares"),
    [
        ([], []),
        ([0, 60, 290], [0.2, 0.3, 0.6]),  # too short
        ([0, 600], [0.4, 0.4]),
        ([0, 600], [0.4, 0.3]),
        ([0, 600], [0.4, 0.41]),  # full after ten hours
        ([0, 300, 600], [None, 0.2, None]),
        ([0, 600], [0.9, 1.0]),
    ],
)
def test_other_curves_are_not_steep(times: list[int], shares: list[float | None]) -> None:
    assert steep_rise(times, shares, 72 * 3600.0) is None


def test_rise_is_not_steep_if_messages_expire_before_the_disk_is_full() -> None:
    assert steep_rise([0, 600], [0.4, 0.45], 7200.0) is not None
    assert steep_rise([0, 600], [0.4, 0.45], 3600.0) is None


def test_forecast_begins_with_what_is_used_now() -> None:
    found = DiskForecast(((0.0, 0.4), (100.0, 0.48)), 3600.0)
    raised = found.raised_to(0.49)
    assert (raised.at(0), raised.peak) == pytest.approx((0.49, 0.57))
    assert found.raised_to(0.3) is found


def test_outlook_begins_with_the_ratio_that_the_broker_reports() -> None:
    runtime = {
        "commitLogDirCapacity": "Total : 252.0 GiB, Free : 70.0 GiB.", "commitLogDiskRatio": "0.3", "commitLogMinOffset": "0",
        "commitLogMaxOffset": "1000", "earliestMessageTimeStamp": "1000000",
    }  # fmt: skip
    broker = BrokerSample("C", "broker-a", 0, "h:1", runtime=runtime)

    def read(names: list[str], *_: float) -> Chart:
        return Chart(600, [0, 6000], {names[0]: [0.3, 0.3] if "disk" in names[0] else [0, 1000]})

    found = disk_outlook(broker, {"fileReservedTime": "48"}, read, 2000.0)
    assert isinstance(found, DiskForecast)
    assert found.history_s == 6000.0
    assert found.at(0) == pytest.approx(0.3, abs=0.001)


def test_outlook_uses_the_higher_rate_of_day_and_week() -> None:
    runtime = {
        "commitLogDirCapacity": "Total : 100.0 GiB, Free : 60.0 GiB.",
        "commitLogMinOffset": "0",
        "commitLogMaxOffset": str(30 * GIB),
        "earliestMessageTimeStamp": "1000000",
    }
    broker = BrokerSample("C", "broker-a", 0, "h:1", runtime=runtime)

    def read(names: list[str], begin_s: float, end_s: float, now_s: float) -> Chart:
        rate = 10.0 if now_s - begin_s > 2 * DAY else 20.0
        if "disk" in names[0]:
            return Chart(10, [], {names[0]: []})
        return Chart(600, [0, 2400, 4800], {names[0]: [0.0, 2400 * rate, 4800 * rate]})

    found = disk_outlook(broker, {"fileReservedTime": "48"}, read, 1000.0 + DAY)
    assert isinstance(found, DiskForecast)
    assert found.at(DAY) == pytest.approx(0.4 + 20.0 * DAY * INDEX_SHARE / (100 * GIB))
    assert disk_outlook(broker, {}, read, 1000.0 + DAY) is None
    assert disk_outlook(
        broker, {"fileReservedTime": "48"}, lambda names, *_: Chart(600, [], {names[0]: []}), 2000.0
    ) == TooEarly(3600.0)


def test_outlook_continues_a_steep_rise_with_little_history() -> None:
    runtime = {
        "commitLogDirCapacity": "Total : 100.0 GiB, Free : 51.0 GiB.", "commitLogDiskRatio": "0.49", "commitLogMinOffset": "0",
        "commitLogMaxOffset": "1000", "earliestMessageTimeStamp": "1000000",
    }  # fmt: skip
    broker = BrokerSample("C", "broker-a", 0, "h:1", runtime=runtime)

    def read(names: list[str], *_: float) -> Chart:
        return Chart(10, [0, 300], {names[0]: [0.27, 0.49] if "disk" in names[0] else [0.0, 0.0]})

    found = disk_outlook(broker, {"fileReservedTime": "48"}, read, 2000.0)
    assert isinstance(found, DiskForecast)
    assert found.is_steep
    assert not found.lasts(3600.0, 0.9)
