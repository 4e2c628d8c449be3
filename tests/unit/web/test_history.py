"""The history: resolutions, gaps, bounds, damage and kills."""

import asyncio
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.servers import wait_until
from web.history.history_file import HistoryFile, open_history
from web.history.recorder import Recorder, wait_s
from web.history.series import series_of
from web.history.tiers import TIERS, tier_for
from web.sampling.sample import BrokerSample, Progress, Sample, Traffic
from web.sampling.sampler import Sampler

START = 1_800_000_000
DAY = 86_400


@pytest.fixture
def file(tmp_path: Path) -> Iterator[HistoryFile]:
    file = HistoryFile(tmp_path / "history.db")
    yield file
    file.close()


def fill(file: HistoryFile, seconds: int, step: int = 10) -> int:
    """A sample every `step` seconds, of which `x` is its number; returns the time of the last."""
    for number, at in enumerate(range(START, START + seconds + 1, step)):
        file.add(at, {"x": float(number)})
    return at


def test_recent_hour_has_a_point_every_ten_seconds(file: HistoryFile) -> None:
    now = fill(file, 60)
    chart = file.read(["x", "unknown"], now - 60, now, now)
    assert chart.step_s == 10
    assert chart.times == list(range(START, START + 61, 10))
    assert chart.series == {"x": [0, 1, 2, 3, 4, 5, 6], "unknown": [None] * 7}


def test_missing_sample_is_a_gap(file: HistoryFile) -> None:
    file.add(START, {"x": 1.0})
    file.add(START + 20, {"y": 2.0})
    file.add(START + 30, {"x": 3.0})
    chart = file.read(["x", "y"], START, START + 30, START + 30)
    assert chart.series == {"x": [1, None, None, 3], "y": [None, None, 2, None]}


@pytest.mark.parametrize("early", [0.0, 0.0006, 0.4, 2.0, 2.5])
def test_sample_taken_shortly_before_its_time_is_no_gap(file: HistoryFile, early: float) -> None:
    """Timers fire a little early, and a page may have just taken the sample."""
    broker = BrokerSample("c", "b", 0, "a", progress=(Progress("g", "t", 5, 0, 0.0),))
    samples = [Sample(START + 10 * number - early, (broker,)) for number in range(4)]

    class Given(Sampler):
        async def latest(self, max_age_s: float) -> Sample:  # noqa: ARG002
            return samples.pop(0)

    async def main() -> None:
        recorder = Recorder(Given.__new__(Given), file)
        while samples:
            await recorder.record()

    asyncio.run(main())
    chart = file.read(["group.lag/g"], START, START + 30, START + 30)
    assert chart.series["group.lag/g"] == [5, 5, 5, 5]


@pytest.mark.parametrize("now", [START + 9.0, START + 9.4, START + 9.9994, START + 10, START + 10.2, START + 19.4])
def test_next_sample_is_due_at_the_next_full_ten_seconds(now: float) -> None:
    """One that fired early is not repeated."""
    due = now + wait_s(now)
    assert due == pytest.approx(START + (20 if now >= START + 9.5 else 10))


def test_older_points_are_means(file: HistoryFile) -> None:
    now = fill(file, 7200)
    chart = file.read(["x"], now - 7200, now, now)
    assert chart.step_s == 60
    assert chart.series["x"][:2] == [2.5, 8.5]
    week = file.read(["x"], now - 2 * DAY, now, now)
    assert week.step_s == 600
    assert [value for value in week.series["x"] if value is not None][:2] == [29.5, 89.5]
    month = file.read(["x"], now - 20 * DAY, now, now)
    assert month.step_s == 3600
    assert next(value for value in month.series["x"] if value is not None) == 179.5


def test_means_leave_gaps_out_and_survive_a_pause(file: HistoryFile) -> None:
    file.add(START, {"x": 2.0})
    file.add(START + 30, {"x": 4.0})
    file.add(START + 7200, {"x": 9.0})  # the minute of the pause is still summarized
    chart = file.read(["x"], START - 3600, START + 7200, START + 7200)
    values = dict(zip(chart.times, chart.series["x"], strict=True))
    assert (values[START], values[START + 60]) == (3.0, None)


@pytest.mark.parametrize("seconds", [3_600, 6 * 3_600, 2 * DAY, 20 * DAY])
def test_point_that_is_not_complete_yet_is_not_a_gap(file: HistoryFile, seconds: int) -> None:
    now = fill(file, 7_250) + 4
    chart = file.read(["x"], now - seconds, now, now)
    assert chart.series["x"][-1] is not None
    assert chart.times[-1] + chart.step_s <= now + TIERS[0].step_s
    later = now + 3 * chart.step_s
    silent = file.read(["x"], later - seconds, later, later)
    assert silent.series["x"][-1] is None, "samples that are missing for longer are gaps"


@pytest.mark.slow
def test_rows_are_bounded(file: HistoryFile, tmp_path: Path) -> None:
    fill(file, 3 * DAY, 60)
    with sqlite3.connect(tmp_path / "history.db") as connection:
        counts = dict(connection.execute("SELECT tier, count(*) FROM points GROUP BY tier").fetchall())
    connection.close()
    assert counts[0] <= TIERS[0].count
    assert TIERS[1].count - 1 <= counts[1] <= TIERS[1].count
    assert counts[2] == 3 * 144
    assert counts[3] == 3 * 24


def test_series_beyond_the_limit_are_not_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = HistoryFile(tmp_path / "history.db", most_series=2)
    for at in (START, START + 10):
        file.add(at, {"a": 1.0, "b": 2.0, "c": 3.0})
    assert file.names() == ["a", "b"]
    assert caplog.text.count("history full") == 1
    file.close()


def test_slot_of_a_forgotten_series_shows_nothing_of_it(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.db", most_series=1)
    file.add(START, {"old": 1.0})
    later = START + 32 * DAY
    file.add(later, {"new": 2.0})
    assert file.names() == ["new"]
    chart = file.read(["new"], later - 29 * DAY, later + 7200, later + 7200)
    assert set(chart.series["new"]) <= {None, 2.0}
    file.close()


def test_history_continues_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    first = HistoryFile(path)
    first.add(START, {"x": 1.0})
    first.close()
    second = HistoryFile(path)
    second.add(START + 10, {"y": 5.0, "x": 2.0})
    assert second.read(["x", "y"], START, START + 10, START + 10).series == {"x": [1, 2], "y": [None, 5]}
    second.close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b""])
def test_damaged_file_is_kept_aside(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(damage)
    file = HistoryFile(path)
    file.add(START, {"x": 1.0})
    file.close()
    assert path.with_name("history.db.damaged").exists() == bool(damage)
    assert ("history corrupt" in caplog.text) == bool(damage)


def test_history_that_cannot_be_opened_is_kept_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "history.db"
    path.symlink_to(tmp_path / "elsewhere.db")
    file = open_history(path)
    file.add(START, {"x": 1.0})
    assert file.read(["x"], START, START, START).series == {"x": [1]}
    assert "history kept in memory only" in caplog.text
    assert not (tmp_path / "elsewhere.db").exists()
    file.close()


def test_failed_write_leaves_no_half_known_series(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.db")
    file.add(START, {"x": 1.0})
    file._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.Error):
        file.add(START + 10, {"y": 1.0})
    file._connection.execute("PRAGMA query_only = OFF")
    assert file.names() == ["x"]
    file.add(START + 20, {"y": 3.0})
    assert file.read(["y"], START, START + 20, START + 20).series == {"y": [None, None, 3]}
    file.close()


@pytest.mark.slow
def test_kill_at_any_time_leaves_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    program = (
        "import sys, itertools; from pathlib import Path; from web.history.history_file import HistoryFile\n"
        "file = HistoryFile(Path(sys.argv[1])); print('open', flush=True)\n"
        f"for n in itertools.count(int(sys.argv[2])): file.add({START} + 10 * n, dict.fromkeys(map(str, range(500)), n))"
    )
    first = 0
    for pause in (1, 40, 90):
        with subprocess.Popen([sys.executable, "-c", program, str(path), str(first)], stdout=subprocess.PIPE) as writer:
            wal, seen = path.with_name("history.db-wal"), itertools.count()
            assert writer.stdout is not None
            writer.stdout.readline()
            wait_until(lambda: wal.exists() and wal.stat().st_size > pause * 4096 and next(seen) > 3, 30, "samples")  # noqa: B023
            os.kill(writer.pid, signal.SIGKILL)
        file = HistoryFile(path)
        (newest,) = file._connection.execute("SELECT max(at) FROM points WHERE tier = 0").fetchone()
        number = (newest - START) // 10
        assert file.read(["7", "499"], newest, newest, newest).series == {"7": [number], "499": [number]}
        first = number + 1
        file.close()
        assert not path.with_name("history.db.damaged").exists()


@pytest.mark.parametrize(
    ("seconds", "step"), [(60, 10), (3600, 10), (3601, 60), (DAY, 60), (2 * DAY, 600), (60 * DAY, 3600)]
)
def test_finest_resolution_that_reaches_back_is_chosen(seconds: int, step: int) -> None:
    assert TIERS[tier_for(START - seconds, START)].step_s == step


BROKER = BrokerSample(
    "C",
    "broker-a",
    0,
    "10.0.0.1:10911",
    runtime={
        "commitLogDiskRatio": "0.5",
        "commitLogMaxOffset": "400",
        "commitLogDirCapacity": "Total : 2 B, Free : 1 B.",
    },
    topic_in={"Orders": Traffic(100, 0), "SCHEDULE_TOPIC_XXXX": Traffic(10, 0)},
    group_out={("Orders", "billing"): Traffic(50, 0)},
    progress=(Progress("billing", "Orders", 6, 5000, 1.5, 106),),
    dead_letters={"billing": 3},
)


def later(**changes: object) -> Sample:
    return Sample(START + 10.0, (replace(BROKER, **changes),))  # type: ignore[arg-type]


def test_rates_are_differences_of_two_samples() -> None:
    before = Sample(float(START), (BROKER,))
    now = later(
        topic_in={"Orders": Traffic(150, 0), "New": Traffic(10, 0), "SCHEDULE_TOPIC_XXXX": Traffic(30, 0)},
        group_out={("Orders", "billing"): Traffic(70, 0)},
    )
    values = series_of(before, now)
    assert {
        "topic.in/Orders": 5.0,
        "topic.in/New": 1.0,
        "topic.out/Orders": 2.0,
        "group.out/billing": 2.0,
    }.items() <= values.items()
    assert {"broker.in/broker-a": 8.0, "cluster.in": 8.0, "broker.out/broker-a": 2.0}.items() <= values.items()
    assert {
        "group.lag/billing": 6.0,
        "cluster.lag": 6.0,
        "group.time/billing": 5000,
        "group.dead/billing": 3,
    }.items() <= values.items()
    assert {
        "broker.disk/broker-a": 0.5,
        "broker.log/broker-a": 400.0,
        "broker.free/broker-a": 1,
    }.items() <= values.items()
    assert "topic.in/SCHEDULE_TOPIC_XXXX" not in values


def test_restarted_broker_and_first_sample_are_gaps_of_rates() -> None:
    before = Sample(float(START), (BROKER,))
    values = series_of(before, later(topic_in={"Orders": Traffic(5, 0)}, group_out={}))
    assert "topic.in/Orders" not in values
    assert "cluster.in" not in series_of(None, before)
    down = Sample(START + 10.0, (BrokerSample("C", "broker-a", 0, "10.0.0.1:10911", problem="gone"),))
    assert series_of(before, down) == {}
