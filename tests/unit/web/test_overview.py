"""The groups and the brokers that the dashboard names."""

import asyncio
from typing import Any

import pytest

from headrace import ConnectError
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from web.cluster.cluster import Cluster
from web.pages.disks import Disks
from web.pages.overview import AttentionRow, OverviewPages, StoppedBroker, attention_rows
from web.routes import Access, Visit
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import BrokerSample, ClientKind, Progress
from web.sampling.sampler import Sampler


def test_groups_without_members_or_with_dead_letters_need_attention() -> None:
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
            Progress("TOOLS_CONSUMER", "Orders", 9, 5_000, 0.0),
        ),
        consumers={ClientKind("audit", "JAVA", "V4_9_8", "PUSH"): 1, ClientKind("audit", "GO", "V4_9_8", "PUSH"): 1},
        dead_letters={"fraud-check": 30, "idle": 0},
    )
    second = BrokerSample("C", "broker-b", 0, "h:2", progress=(Progress("billing", "Orders", 40, 5_000, 0.0),))
    assert attention_rows([first, second]) == [
        AttentionRow("billing", 0, 340, 0),
        AttentionRow("fraud-check", 0, 0, 30),
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
        (4, "4", "refused by the broker"),
        (6, "0", "refused by the broker"),
    ],
)
def test_brokers_whose_writes_are_stopped_need_attention(routed: int, own: str, state: str | None) -> None:
    async def data() -> dict[str, Any]:
        cluster, appliance = Cluster(ClientConfig("n:1")), OwnAppliance(None)
        stand_in: Any = Brokers(routed, own)
        cluster.admin = stand_in
        disks = Disks(cluster, lambda *_: None, lambda: 0.0)  # type: ignore[arg-type, return-value]
        pages = OverviewPages(cluster, appliance, Sampler(cluster.admin, appliance), disks, list)
        return dict((await pages.show(Visit("", Access.VIEWER, ""))).data)

    stopped = asyncio.run(data())["stopped"]
    assert stopped == ([StoppedBroker("a", state, "/cluster/writes/a")] if state is not None else [])
