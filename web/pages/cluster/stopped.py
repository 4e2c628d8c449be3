"""Brokers that get no messages: their writes were stopped, or their stores refuse them."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from web.cluster.runtime_figures import RuntimeFigures
from web.pages.cluster.cluster_reads import STOPPED_IN_ROUTES, STOPPED_ON_BROKER, ClusterReads, permission_of, writes_of
from web.paths import path_of

_TIMEOUT_S: Final = 4.0  # limit: half of a page's deadline; the rest of the page does not need the answers


class StoppedBroker(msgspec.Struct, frozen=True):
    """A broker that gets no messages: its writes were stopped, or its store refuses them."""

    broker: str
    state: str
    """How: the word that the page of its writes shows."""
    page: str
    """The path of that page."""
    disk_used_percent: float | None = None
    """Of the file system that has the CommitLog."""

    @property
    def is_by_operator(self) -> bool:
        """Whether an operator stopped its writes."""
        return self.state in {STOPPED_ON_BROKER, STOPPED_IN_ROUTES}


async def stopped_brokers(reads: ClusterReads, masters: Mapping[str, str]) -> list[StoppedBroker]:
    """Those of these masters, addresses by name, that get no messages now. Masters that do not answer are left out."""
    if not masters:
        return []
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            [routed], configs, runtimes = await asyncio.gather(
                reads.cluster.map(lambda _: reads.routed_permissions(), [0]),
                reads.cluster.map(reads.config, masters.values()),
                reads.cluster.map(reads.runtime, masters.values()),
            )
    except TimeoutError:
        return []
    in_routes = {} if isinstance(routed, Exception) else routed
    stopped: list[StoppedBroker] = []
    for broker, config, runtime in zip(masters, configs, runtimes, strict=True):
        own = None if isinstance(config, Exception) else permission_of(config)
        figures = RuntimeFigures({} if isinstance(runtime, Exception) else runtime)
        state = writes_of(in_routes.get(broker), own, figures.refusal)
        if state not in {None, "allowed"}:
            page = path_of("cluster", "writes", broker)
            stopped.append(StoppedBroker(broker, str(state), page, figures.disk_used_percent))
    return stopped
