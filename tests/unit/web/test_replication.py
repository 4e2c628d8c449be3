"""The page of replication over an Admin that answers from tables, and the ends of logs over time."""

import asyncio
from typing import Any

import pytest

from headrace import BrokerError, ConnectError
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData
from web.cluster.cluster import Cluster
from web.history.series import series_of
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.replication import LogFigures, ReplicationPage, state_of_master, state_of_slave
from web.routes import Access, View, Visit
from web.sampling.log_ends import MOST_POINTS, LogEnds
from web.sampling.sample import BrokerSample, Sample

START_S = 1_800_000_000
MASTER = {"brokerRole": "SYNC_MASTER", "brokerIP2": "10.0.0.1", "haListenPort": "10912"}
SLAVE = {"brokerRole": "SLAVE", "haMasterAddress": "10.0.0.1:10912"}


class Answers:
    """Stands for the Admin: a master and two slaves, and a slave whose master is not registered."""

    def __init__(self) -> None:
        self.ends: dict[str, int | Exception] = {"m:1": 5_000, "s:1": 5_000, "s:2": 2_000, "o:1": 70}
        self.configs: dict[str, dict[str, str] | Exception] = {"m:1": MASTER, "s:1": SLAVE, "s:2": SLAVE, "o:1": {}}
        self.connected: str | None = "2"
        self.asked: list[str] = []

    async def cluster_info(self) -> ClusterInfo:
        brokers = {"a": BrokerData("a", "C", {0: "m:1", 1: "s:1", 2: "s:2"}), "b": BrokerData("b", "C", {1: "o:1"})}
        return ClusterInfo(brokers, {"C": ["a", "b"]})

    async def runtime_info(self, address: str) -> dict[str, str]:
        self.asked.append(address)
        end = self.ends[address]
        if isinstance(end, Exception):
            raise end
        own = {"haSlaveCount": self.connected} if self.connected is not None and address == "m:1" else {}
        return {"commitLogMaxOffset": str(end), **own}

    async def broker_config(self, address: str) -> dict[str, str]:
        config = self.configs[address]
        if isinstance(config, Exception):
            raise config
        return config


def sample(time_s: float, **ends: int) -> Sample:
    """`a` is a master, `a1` its first slave."""
    return Sample(
        time_s,
        tuple(
            BrokerSample("C", name[0], int(name[1:] or 0), "x:1", runtime={"commitLogMaxOffset": str(end)})
            for name, end in ends.items()
        ),
    )


def shown(answers: Answers, log_ends: LogEnds | None = None, now_s: float = START_S) -> View:
    async def main() -> View:
        cluster = Cluster(ClientConfig("n:1"))
        stand_in: Any = answers
        cluster.admin = stand_in
        page = ReplicationPage(ClusterReads(cluster), log_ends or LogEnds(), lambda: now_s)
        return await page.show(Visit("", Access.VIEWER, ""))

    return asyncio.run(main())


def test_masters_and_slaves_are_listed_with_role_addresses_and_lag() -> None:
    view = shown(Answers())
    masters, slaves = view.tables
    [chart] = view.data["charts"].charts
    assert [line.value for line in chart.lines] == [slave.behind for slave in slaves.rows]
    a, b = masters.rows
    assert (a.role, a.ha_address, a.slaves, a.connected, a.behind) == ("SYNC_MASTER", "10.0.0.1:10912", 2, 2, 3_000)
    assert (a.state, b.state, b.slaves) == ("copying", "no master", 1)
    first, second, orphan = slaves.rows
    assert (first.state, first.behind, first.behind_ms) == ("in sync", 0, 0)
    assert (second.state, second.behind, second.behind_ms) == ("copying", 3_000, None)
    assert second.master_address == "10.0.0.1:10912"
    assert (orphan.state, orphan.behind, orphan.max_offset) == ("no master", None, 70)


def test_slaves_are_asked_before_masters() -> None:
    answers = Answers()
    shown(answers)
    assert answers.asked[-1] == "m:1"


def test_lag_in_time_and_speed_come_from_samples() -> None:
    ends = LogEnds()
    for number in range(7):  # the master writes 1,000 bytes in ten seconds
        ends.follow(sample(START_S + 10 * number, a=1_000 * number, a1=100 * number, a2=500), {})
    answers = Answers()
    answers.ends.update({"m:1": 6_000, "s:1": 600, "s:2": 500})
    master, first, second = (
        next(row for row in table.rows if row.broker == "a" and getattr(row, "id", 0) == number)
        for table, number in zip(
            (shown(answers, ends, START_S + 60).tables[0], *(shown(answers, ends, START_S + 60).tables[1],) * 2),
            (0, 1, 2),
            strict=True,
        )
    )
    assert master.bytes_per_second == pytest.approx(100.0)
    assert (first.state, first.behind_ms, first.bytes_per_second) == ("copying", 54_000, pytest.approx(10.0))
    assert (second.state, second.behind_ms, second.bytes_per_second) == ("stalled", 55_000, 0.0)
    assert master.state == "stalled"


def test_broker_that_does_not_answer_is_not_readable_and_not_in_sync() -> None:
    answers = Answers()
    answers.ends["s:1"] = ConnectError("cannot connect to s:1")
    answers.configs["s:2"] = BrokerError.of(1, "refused")
    masters, slaves = shown(answers).tables
    assert (slaves.rows[0].state, slaves.rows[0].behind) == ("not readable", None)
    assert "cannot connect to s:1" in slaves.rows[0].problem
    assert (slaves.rows[1].behind, slaves.rows[1].master_address) == (3_000, None)
    assert "refused" in slaves.rows[1].problem
    answers.ends["m:1"] = ConnectError("cannot connect to m:1")
    masters, slaves = shown(answers).tables
    assert (masters.rows[0].state, masters.rows[0].max_offset) == ("not readable", None)
    assert {row.behind for row in slaves.rows} == {None}


@pytest.mark.parametrize(
    ("slave", "master", "connected", "still_ms", "state"),
    [
        (10, 10, None, None, "in sync"),
        (10, 10, 0, None, "disconnected"),
        (9, 10, 1, 1_000, "copying"),
        (9, 10, 1, 15_000, "stalled"),
        (9, 10, None, 15_000, "stalled"),
        (11, 10, None, None, "ahead of its master"),
        (None, 10, 1, None, "not readable"),
        (10, None, 1, None, "not readable"),
    ],
)
def test_state_of_a_slave(
    slave: int | None, master: int | None, connected: int | None, still_ms: int | None, state: str
) -> None:
    assert state_of_slave(LogFigures(slave), LogFigures(master, connected), still_ms) == state


@pytest.mark.parametrize(
    ("connected", "slaves", "state"),
    [
        (0, [], "no slaves"),
        (None, ["in sync", "stalled"], "stalled"),
        (1, ["in sync", "in sync"], "disconnected"),
        (2, ["in sync", "copying"], "copying"),
        (3, ["in sync"], "in sync"),
    ],
)
def test_state_of_a_master_is_that_of_its_worst_slave(connected: int | None, slaves: list[str], state: str) -> None:
    assert state_of_master(LogFigures(10, connected), slaves) == state


def test_ends_of_logs_are_bounded_and_begin_again_with_another_log() -> None:
    ends = LogEnds()
    for number in range(MOST_POINTS + 10):
        ends.follow(sample(START_S + number, a=number), {})
    assert ends.reached_ms("a", 5) is None
    assert ends.reached_ms("a", 100) == (START_S + 100) * 1000
    assert ends.reached_ms("a", 10**9) == (START_S + MOST_POINTS + 9) * 1000
    ends.follow(sample(START_S + 5_000, a=3), {})
    assert ends.reached_ms("a", 2) is None
    assert ends.bytes_per_second("a", (START_S + 5_001) * 1000, 4) is None
    ends.follow(Sample(START_S + 5_010, (BrokerSample("C", "a", 0, "x:1", problem="down"),)), {})
    ends.follow(Sample(START_S + 5_020, (), problem="no name server"), {})
    assert ends.still_since_ms("a", 3) == (START_S + 5_000) * 1000
    ends.follow(Sample(START_S + 5_030, ()), {})
    assert ends.still_since_ms("a", 3) is None


def test_history_has_what_slaves_have_not_copied() -> None:
    values = series_of(None, sample(START_S, a=1_000, a1=400, a2=1_200, b1=5))
    assert {name: value for name, value in values.items() if "behind" in name} == {
        "broker.behind/a/1": 600.0,
        "broker.behind/a/2": 0.0,
    }
