"""ClusterReads: what the pages of the cluster read, of registered servers only."""

from typing import Final

from msgspec import Struct

from headrace.model import names
from headrace.model.permission import WRITE
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies import ClusterInfo
from web.cluster.cluster import Cluster
from web.errors import NotFound

STOPPED_ON_BROKER: Final = "stopped on the broker"
STOPPED_IN_ROUTES: Final = "stopped in the routes"
"""Words for a broker whose writes an operator stopped."""


class Broker(Struct, frozen=True):
    """A registered broker."""

    name: str
    id: int
    address: str
    cluster: str

    @property
    def role(self) -> str:
        """Master or slave: a word."""
        return "master" if self.id == names.MASTER_ID else "slave"


class ClusterReads:
    """Reads through the shared answers of `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def brokers(self) -> list[Broker]:
        """All registered brokers, by name and id."""
        return brokers_of(await self.cluster.read(("cluster info",), lambda admin: admin.cluster_info()))

    async def broker_at(self, address: str) -> Broker:
        """The broker at an address. Raises NotFound: no other address is ever connected to."""
        for broker in await self.brokers():
            if broker.address == address:
                return broker
        raise NotFound(
            "no broker is registered at the address {address}", "Choose one from the list.", address=address[:80]
        )

    async def master(self, name: str) -> Broker:
        """The master of a broker name. Raises NotFound."""
        for broker in await self.brokers():
            if broker.name == name and broker.id == names.MASTER_ID:
                return broker
        raise NotFound("no master of the broker {name} is registered", "Choose one from the list.", name=name[:80])

    async def name_servers(self) -> list[str]:
        """The addresses of the name servers."""
        return await self.cluster.admin.name_servers()

    async def known_to(self, name_server: str) -> list[Broker]:
        """The brokers that are registered at one name server."""
        info = await self.cluster.read(
            ("cluster info", name_server), lambda admin: admin.cluster_info(name_server=name_server)
        )
        return brokers_of(info)

    async def runtime(self, address: str) -> dict[str, str]:
        """A broker's run-time figures."""
        return await self.cluster.read(("runtime info", address), lambda admin: admin.runtime_info(address))

    async def config(self, address: str) -> dict[str, str]:
        """A broker's configuration."""
        return await self.cluster.read(("broker config", address), lambda admin: admin.broker_config(address))

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """The topics of a broker."""
        return await self.cluster.read(("topic configs", address), lambda admin: admin.topic_configs(address))

    async def name_server_config(self, address: str) -> dict[str, str]:
        """A name server's configuration."""
        found = await self.cluster.read(
            ("name server config", address), lambda admin: admin.name_server_configs(name_server=address)
        )
        return found[address]

    async def routed_permissions(self) -> dict[str, int]:
        """What the routes permit, by broker name. A topic that every broker has, and nobody changes, stands for all."""
        route = await self.cluster.read(("self test route",), lambda admin: admin.topic_route(names.SELF_TEST_TOPIC))
        return {queue.broker_name: queue.perm for queue in route.queue_datas}


def brokers_of(info: ClusterInfo) -> list[Broker]:
    """The brokers of a list of name servers, by name and id."""
    clusters = {name: cluster for cluster, of_it in info.cluster_addr_table.items() for name in of_it}
    return [
        Broker(name, broker_id, address, clusters.get(name, ""))
        for name, data in sorted(info.broker_addr_table.items())
        for broker_id, address in sorted(data.broker_addrs.items())
    ]


def writes_of(routed: int | None, own: int | None, refusal: str | None) -> str | None:
    """Whether a broker gets messages: a word; None if unknown. `own`: the permission in its own configuration; `refusal`: its store's reason."""
    if refusal is not None:
        return refusal
    if own is not None and not own & WRITE:
        return STOPPED_ON_BROKER
    if routed is None:
        return None
    return "allowed" if routed & WRITE else STOPPED_IN_ROUTES


def permission_of(config: dict[str, str]) -> int | None:
    """BrokerPermission of a configuration; None if it has none."""
    text = config.get("brokerPermission", "")
    return int(text) if len(text) == 1 and text in "01234567" else None
