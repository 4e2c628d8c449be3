"""The groups and the brokers that the dashboard names."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import ConnectError
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from web.cluster.cluster import Cluster
from web.pages import overview
from web.pages.charts import STORE_LATENCY
from web.pages.cluster.stopped import StoppedBroker
from web.pages.disks import Disks
from web.pages.overview import AttentionRow, OverviewPages, attention_rows
from web.routes import Access, View, Visit
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import BrokerSample, ClientKind, Progress, Sample
from web.sampling.sampler import Sampler


def test_groups_without_members_far_behind_or_with_dead_letters_need_attention() -> None:
    first = BrokerSample(
        "C",
        "broker-a",
        0,
        "h:1",
        progress=(
            Progress("billing", "Orders", 300, 5_000, 0.0),
            Progress("audit", "Orders", 7, 5_000, 0.0),
            Progress("idle", "Orders", 0, 0, 0.0),
            Progress("fraud-check", "Orders", 0, 0, 0.0),
            Progress("late", "Orders", 5, 300_000, 0.0),
            Progress("TOOLS_CONSUMER", "Orders", 9, 5_000, 0.0),
        ),
        consumers={
            ClientKind("audit", "JAVA", "V4_9_8", "PUSH"): 1,
            ClientKind("late", "JAVA", "V4_9_8", "PUSH"): 1,
            ClientKind("fraud-check", "JAVA", "V4_9_8", "PUSH"): 1,
            ClientKind("fraud-check", "GO", "V4_9_8", "PUSH"): 1,
        },
        dead_letters={"fraud-check": 31, "idle": 7},
        stored_dead_letters={"fraud-check": 30, "idle": 0},
    )
    second = BrokerSample(
        "C",
        "broker-b",
        0,
        "h:2",
        progress=(Progress("billing", "Orders", 40, 5_000, 0.0),),
        consumers={ClientKind("fraud-check", "JAVA", "V4_9_8", "PUSH"): 1},
        stored_dead_letters={"fraud-check": 3, "settled": 2},
    )
    assert attention_rows([first, second], {"fraud-check": 2, "settled": 2}) == [
        AttentionRow("billing", 0, 340, 5_000, 0),
        AttentionRow("fraud-check", 2, 0, 0, 31),
        AttentionRow("late", 1, 5, 300_000, 0),
    ]


class Brokers:
    """Stands for the Admin: a master and its slave, with the permissions given, and a master that does not answer."""

    def __init__(self, routed: int, own: str) -> None:
        self.routed, self.own = routed, own

    async def cluster_info(self) -> ClusterInfo:
        data = {"a": BrokerData("a", "C", {0: "h:1", 1: "h:2"}), "b": BrokerData("b", "C", {0: "h:3"})}
        return ClusterInfo(data, {"C": ["a", "b"]})

    async def broker_config(self, address: str) -> dict[str, str]:
        if address != "h:1":
            raise ConnectError(f"cannot connect to {address}")
        return {"brokerPermission": self.own}

    async def topic_route(self, _topic: str) -> TopicRouteData:
        return TopicRouteData([QueueData("a", 1, 1, self.routed)])

    async def runtime_info(self, address: str) -> dict[str, str]:
        raise ConnectError(f"cannot connect to {address}")


@pytest.mark.parametrize(
    ("routed", "own", "state"),
    [
        (6, "6", None),
        (6, "2", None),
        (4, "6", "stopped in the routes"),
        (4, "4", "stopped on the broker"),
        (6, "0", "stopped on the broker"),
    ],
)
def test_brokers_whose_writes_are_stopped_need_attention(routed: int, own: str, state: str | None) -> None:
    stopped = show(Brokers(routed, own)).data["stopped"]
    assert stopped == ([StoppedBroker("a", state, "/cluster/writes/a")] if state is not None else [])


async def none_handled(_brokers: Sequence[BrokerSample]) -> dict[str, int]:
    return {}


def show(stand_in: Any, control_socket: Path | None = None) -> View:
    """The dashboard of a cluster for which `stand_in` answers."""

    async def view() -> View:
        cluster, appliance = Cluster(ClientConfig("n:1")), OwnAppliance(control_socket)
        cluster.admin = stand_in
        disks = Disks(cluster, lambda *_: None, lambda: 0.0)  # type: ignore[arg-type, return-value]
        sampler = Sampler(cluster.admin, appliance)
        view = await OverviewPages(cluster, appliance, sampler, disks, list, none_handled).show(
            Visit("", Access.VIEWER, "")
        )
        await sampler.close()
        return view

    return asyncio.run(view())


class Full(Brokers):
    """The disk of the first master is full."""

    async def runtime_info(self, address: str) -> dict[str, str]:
        return {"runningFlags": "16" if address == "h:1" else "0", "commitLogDiskRatio": "0.97"}

    async def topic_configs(self, address: str) -> dict[str, object]:
        raise ConnectError(f"cannot connect to {address}")


def test_broker_whose_disk_is_full_needs_attention() -> None:
    [stopped] = show(Full(6, "6")).data["stopped"]
    assert stopped == StoppedBroker("a", "refused: the disk is full", "/cluster/writes/a", 97.0)


class Many(Brokers):
    """Eight brokers that do not answer."""

    async def cluster_info(self) -> ClusterInfo:
        names = [f"b{number}" for number in range(8)]
        return ClusterInfo({name: BrokerData(name, "C", {0: "h:3"}) for name in names}, {"C": names})


def test_charts_have_every_broker() -> None:
    charts = {chart.title: chart for chart in show(Many(6, "6")).data["charts"].charts}
    for title in ("Disk used", STORE_LATENCY):
        assert [line.label for line in charts[title].lines] == [f"b{number}" for number in range(8)]
        assert [(first, last) for first, last, _ in charts[title].others] == [(7, 8)]


class Busy(Brokers):
    """Two masters that answer, one of which has a slave."""

    async def broker_config(self, _address: str) -> dict[str, str]:
        return {"brokerPermission": "6"}

    async def runtime_info(self, address: str) -> dict[str, str]:
        number = int(address.removeprefix("h:"))
        rates = {"putTps": f"{number}.5 1 1", "getTransferedTps": f"{number * 10} 1 1"}
        return {**rates, "commitLogDiskRatio": f"0.{number}", "commitLogMaxOffset": "1"}


def test_charts_begin_with_the_figures_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sampled(_self: Sampler, _max_age_s: float) -> Sample:
        progress = (Progress("billing", "Orders", 30, 0, 0.0), Progress("TOOLS_CONSUMER", "Orders", 9, 0, 0.0))
        hosts = (("a", 0, "h:1"), ("a", 1, "h:2"), ("b", 0, "h:3"))
        return Sample(1.0, tuple(BrokerSample("C", *host, progress=progress[: 2 - host[1]]) for host in hosts))

    monkeypatch.setattr(Sampler, "latest", sampled)
    view = show(Busy(6, "6"))
    tables = {table.name: table for table in view.tables}
    traffic, lag, disk, latency = view.data["charts"].charts
    assert [line.value for line in traffic.lines] == [1.5 + 3.5, 10 + 30]
    assert [line.value for line in lag.lines] == [sum(row.lag for row in tables["attention"].rows)] == [90]
    used = {row.broker: row.used_percent / 100 for row in tables["disks"].rows}
    assert {line.label: line.value for line in disk.lines} == {name: used[name] for name in ("a", "b")}
    assert [line.value for line in latency.lines] == [None, None]


def test_charts_begin_with_nothing_if_no_broker_answers() -> None:
    unknown = show(Brokers(6, "6")).data["charts"].charts
    assert [line.value for chart in unknown for line in chart.lines] == [None] * 7


class NoNameServer(Brokers):
    """No name server answers."""

    async def cluster_info(self) -> ClusterInfo:
        raise ConnectError("cannot connect to n:1")


class Silent(Brokers):
    """No broker answers."""

    async def runtime_info(self, address: str) -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError(address)


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        (Brokers(6, "6"), "b: cannot connect to h:3"),
        (NoNameServer(6, "6"), "brokers: cannot connect to n:1"),
        (Silent(6, "6"), "disks: the brokers did not answer within 0.05 s"),
    ],
    ids=["broker", "name server", "timeout"],
)
def test_groups_that_need_attention_are_unknown_if_brokers_could_not_be_read(
    cluster: Brokers, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(cluster, Silent):
        monkeypatch.setattr(overview, "_SAMPLE_TIMEOUT_S", 0.05)
    view = show(cluster, tmp_path / "none")
    [table] = [table for table in view.tables if table.name == "attention"]
    assert table.empty == "Not all brokers could be read, so this is unknown."
    assert problem in [str(one) for one in view.problems]
