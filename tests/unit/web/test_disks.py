"""Whether the disks last the weekend."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from headrace import RequestTimeout
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.history.disk_forecast import DiskForecast
from web.history.disk_outlook import TooEarly
from web.history.history_file import Chart
from web.pages.disks import DISK_COLUMNS, DiskRow, Disks, disk_row, weekend_answer, weekend_end
from web.sampling.sample import BrokerSample

GIB = 1 << 30
DAY = 86_400.0
FRIDAY = dt.datetime(2026, 11, 20, 15, tzinfo=dt.UTC).timestamp()
RUNTIME = {
    "commitLogDirCapacity": "Total : 100.0 GiB, Free : 60.0 GiB.",
    "commitLogDiskRatio": "0.4",
    "commitLogMinOffset": "0",
    "commitLogMaxOffset": str(30 * GIB),
    "earliestMessageTimeStamp": str(int((FRIDAY - 3600) * 1000)),
}
BROKER = BrokerSample("C", "broker-a", 0, "h:1", runtime=RUNTIME)


class Answers:
    """Stands for the Admin."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None
        self.runtime = RUNTIME

    async def runtime_info(self, _address: str) -> dict[str, str]:
        return self.runtime

    async def broker_config(self, _address: str) -> dict[str, str]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return {"fileReservedTime": "72"}


def table_rows(answers: Answers, rate: float, pages: int = 1) -> list[DiskRow]:
    """The rows of the table, for a log that grows by so many bytes a second."""

    def read(names: list[str], _begin_s: float, _end_s: float, _now_s: float) -> Chart:
        if "disk" in names[0]:
            return Chart(10, [], {names[0]: []})
        return Chart(600, [0, 1800, 3600], {names[0]: [0.0, 1800 * rate, 3600 * rate]})

    async def main() -> list[DiskRow]:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        stand_in: Any = answers
        cluster.admin = stand_in
        disks = Disks(cluster, read, lambda: FRIDAY)
        for _ in range(pages):
            present = await disks.present([BROKER, BrokerSample("C", "broker-b", 0, "h:2", problem="down")])
            table = await disks.table(present)
        return list(table.rows)

    return asyncio.run(main())


@pytest.mark.parametrize(("day", "monday"), [(20, 23), (22, 23), (23, 30), (24, 30)])
def test_weekend_ends_on_the_next_monday(day: int, monday: int) -> None:
    now = dt.datetime(2026, 11, day, 15, tzinfo=dt.UTC).timestamp()
    assert weekend_end(now) == dt.datetime(2026, 11, monday, tzinfo=dt.UTC).timestamp()


def test_disk_with_few_writes_lasts_the_weekend() -> None:
    [row] = table_rows(Answers(), rate=1000.0)
    assert (row.broker, row.lasts_weekend, row.refuses_at, row.used_percent, row.free) == (
        "broker-a",
        "yes",
        0,
        40.0,
        60 * GIB,
    )
    assert row.history == 3_600_000
    assert weekend_answer([row]) == {"answer": "yes", "broker": "", "refuses_at": 0, "history": 3_600_000}


def test_disk_with_many_writes_is_full_at_a_time_before_monday() -> None:
    [row] = table_rows(Answers(), rate=50 * GIB / DAY)
    assert row.lasts_weekend == "no"
    assert row.refuses_at is not None
    assert FRIDAY < row.refuses_at / 1000 < weekend_end(FRIDAY)
    later = DiskRow("broker-b", 1.0, 1, "no", row.refuses_at + 1, 100.0)
    assert weekend_answer([later, row]) == {
        "answer": "no",
        "broker": "broker-a",
        "refuses_at": row.refuses_at,
        "refuses_in": row.refuses_in,
        "history": row.history,
    }


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (3_500.0, "in less than an hour"),
        (4_000.0, "in about 1 h"),
        (1.9 * DAY, "in about 46 h"),
        (2.6 * DAY, "in about 3 days"),
    ],
)
def test_time_of_the_refusal_is_shown_in_hours_and_days(seconds: float, shown: str) -> None:
    row = disk_row(BROKER, DiskForecast(((0.0, 0.4), (seconds, 0.9)), 4_000.0), FRIDAY)
    [says] = [column.says for column in DISK_COLUMNS if column.key == "refuses_at"]
    assert says is not None
    said = says(row)
    assert said is not None
    assert said[0].format(**said[1]) == shown
    assert row.history == 3_600_000


def test_forecast_is_not_below_the_present_use() -> None:
    used = BrokerSample("C", "broker-a", 0, "h:1", runtime=RUNTIME | {"commitLogDiskRatio": "0.49"})
    row = disk_row(used, DiskForecast(((0.0, 0.4), (1.0, 0.48)), 3600.0), FRIDAY)
    assert row.used_percent == pytest.approx(49.0)
    assert row.peak_percent == pytest.approx(57.0)


def test_steep_rise_is_noted() -> None:
    row = disk_row(BROKER, DiskForecast(((0.0, 0.4), (600.0, 1.0)), 240.0, is_steep=True), FRIDAY)
    assert (row.lasts_weekend, row.history) == ("no", 240_000)
    assert row.refuses_at == pytest.approx((FRIDAY + 500) * 1000, abs=1)
    assert row.note.startswith("Disk usage has risen steeply")


def test_forecast_that_is_impossible_is_unknown_with_its_reason() -> None:
    early = disk_row(BROKER, TooEarly(130.0), FRIDAY)
    assert (early.lasts_weekend, early.note) == ("unknown", "The forecast needs another 3 min of history.")
    assert weekend_answer([early])["needs_minutes"] == 3
    row = disk_row(BROKER, None, FRIDAY)
    assert (row.lasts_weekend, row.refuses_at, row.note) == (
        "unknown",
        None,
        "The broker does not report what the forecast needs.",
    )
    answers = Answers()
    answers.failure = RequestTimeout("broker-a did not answer")
    [row] = table_rows(answers, rate=1.0)
    assert (row.lasts_weekend, row.note) == ("unknown", "broker-a did not answer")
    good = disk_row(BROKER, DiskForecast(((0.0, 0.4), (1.0, 0.5))), FRIDAY)
    assert weekend_answer([good, row])["answer"] == "unknown"
    assert weekend_answer([])["answer"] == "unknown"


@pytest.mark.parametrize("outlook", [None, DiskForecast(((0.0, 0.4), (1.0, 0.5)))], ids=["no forecast", "forecast"])
def test_disk_that_is_full_refuses_messages_now_whatever_the_forecast(outlook: DiskForecast | None) -> None:
    full = BrokerSample("C", "broker-b", 0, "h:2", runtime=RUNTIME | {"commitLogDiskRatio": "0.97"})
    row = disk_row(full, outlook, FRIDAY)
    assert (row.lasts_weekend, row.refuses_at, row.is_full) == ("no", int(FRIDAY * 1000), True)
    assert DISK_COLUMNS[0].link is not None
    assert DISK_COLUMNS[0].link(row) == "/cluster/brokers/h%3A2"
    assert row.note == "The disk is full: the broker refuses all messages now."
    soon = DiskRow("broker-a", 1.0, 1, "no", 1, 100.0)
    assert weekend_answer([soon, row]) == {"answer": "full", "broker": "broker-b", "refuses_at": row.refuses_at}


def test_disk_that_became_full_after_the_sample_is_full() -> None:
    answers = Answers()
    answers.runtime = RUNTIME | {"runningFlags": "16", "commitLogDiskRatio": "0.97"}
    [row] = table_rows(answers, rate=1.0)
    assert (row.is_full, row.used_percent) == (True, 97.0)


def test_pages_share_a_forecast() -> None:
    answers = Answers()
    table_rows(answers, rate=1.0, pages=5)
    assert answers.asked == 1
