"""The brokers and name servers of the cluster."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from web.cluster.runtime_figures import RuntimeFigures
from web.pages.cluster.cluster_reads import STOPPED_IN_ROUTES, STOPPED_ON_BROKER, ClusterReads, permission_of, writes_of
from web.paths import path_of
from web.routes import Access, View, Visit
from web.tables.table import Column, Kind, Table


class ClusterBrokerRow(msgspec.Struct, frozen=True):
    """One broker. Figures that it does not report are None."""

    broker: str
    role: str
    id: int
    address: str
    cluster: str
    version: str | None = None
    writes: str | None = None
    in_per_second: float | None = None
    out_per_second: float | None = None
    in_today: int | None = None
    in_yesterday: int | None = None
    out_today: int | None = None
    out_yesterday: int | None = None
    disk_used_percent: float | None = None
    started: int | None = None
    problem: str = ""


class NameServerRow(msgspec.Struct, frozen=True):
    """One name server."""

    address: str
    brokers: list[str] | None = None
    """The addresses of the brokers that are registered there."""
    count: int | None = None
    problem: str = ""


CHANGEABLE: Final = {
    "allowed": "allowed (change)",
    STOPPED_ON_BROKER: "stopped on the broker (change)",
    STOPPED_IN_ROUTES: "stopped in the routes (change)",
}
"""For operators: that a link leads to where writes are stopped, and allowed again."""
_BROKER_COLUMNS: Final[tuple[Column[ClusterBrokerRow], ...]] = (
    Column("broker", "Broker", link=lambda row: path_of("cluster", "brokers", row.address)),
    Column("role", "Role", Kind.WORD),
    Column("id", "Broker id", Kind.NUMBER, help="0: master. Others: slaves.", is_shown_if_any=True),
    Column("address", "Address", link=lambda row: path_of("cluster", "brokers", row.address)),
    Column("cluster", "Cluster"),
    Column(
        "writes",
        "Writes",
        Kind.WORD,
        link=lambda row: path_of("cluster", "writes", row.broker),
        is_enriched=True,
        help="Whether producers can send to the broker.",
    ),
    Column("version", "RocketMQ version", is_enriched=True),
    Column("in_per_second", "Received per second (10-second average)", Kind.RATE, is_enriched=True),
    Column("out_per_second", "Delivered per second (10-second average)", Kind.RATE, is_enriched=True),
    Column(
        "in_today", "Received today", Kind.NUMBER, is_enriched=True, help="Since midnight in the broker's time zone."
    ),
    Column(
        "out_today", "Delivered today", Kind.NUMBER, is_enriched=True, help="Since midnight in the broker's time zone."
    ),
    Column("disk_used_percent", "Disk used (%)", Kind.PERCENT, is_enriched=True),
    Column("started", "Started", Kind.TIME, is_enriched=True),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)
_OPERATOR_COLUMNS: Final = tuple(
    replace(column, says=lambda row: (CHANGEABLE[row.writes], {}) if row.writes in CHANGEABLE else None)
    if column.key == "writes"
    else column
    for column in _BROKER_COLUMNS
)
_NAME_SERVER_COLUMNS: Final[tuple[Column[NameServerRow], ...]] = (
    Column("address", "Address", link=lambda row: path_of("cluster", "name-servers", row.address)),
    Column(
        "count",
        "Number of brokers",
        Kind.NUMBER,
        is_enriched=True,
        help="Brokers that are registered with this name server.",
    ),
    Column("brokers", "Addresses of brokers", Kind.LIST, is_enriched=True),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)


class ClusterList:
    """The page with both lists."""

    def __init__(self, reads: ClusterReads) -> None:
        self._reads = reads

    async def show(self, visit: Visit) -> View:
        """All registered brokers, and all name servers that the console uses."""
        brokers = [
            ClusterBrokerRow(each.name, each.role, each.id, each.address, each.cluster)
            for each in await self._reads.brokers()
        ]
        columns = _OPERATOR_COLUMNS if visit.access >= Access.OPERATOR else _BROKER_COLUMNS
        if len({row.cluster for row in brokers}) == 1:
            columns = tuple(column for column in columns if column.key != "cluster")
        name_servers = [NameServerRow(address) for address in await self._reads.name_servers()]
        tables: list[Table[Any]] = [
            Table(
                "brokers",
                ClusterBrokerRow,
                brokers,
                columns,
                search=("broker", "address", "cluster"),
                enrich=self._add_figures,
                empty="No broker is registered with the name servers.",
            ),
            Table("name_servers", NameServerRow, name_servers, _NAME_SERVER_COLUMNS, enrich=self._add_brokers),
        ]
        return View("Cluster", "cluster/list.html", tables=tables)

    async def _add_figures(self, rows: Sequence[ClusterBrokerRow]) -> list[ClusterBrokerRow]:
        """Two requests for each row, and one for all."""
        cluster = self._reads.cluster
        [routed] = await cluster.map(lambda _: self._reads.routed_permissions(), [0])
        runtimes = await cluster.map(self._reads.runtime, [row.address for row in rows])
        configs = await cluster.map(self._reads.config, [row.address for row in rows])
        enriched: list[ClusterBrokerRow] = []
        for row, runtime, config in zip(rows, runtimes, configs, strict=True):
            failed = dict.fromkeys(str(answer) for answer in (runtime, config, routed) if isinstance(answer, Exception))
            permission = None if isinstance(config, Exception) else permission_of(config)
            in_routes = None if isinstance(routed, Exception) else routed.get(row.broker)
            figures = RuntimeFigures({} if isinstance(runtime, Exception) else runtime)
            enriched.append(
                msgspec.structs.replace(
                    row,
                    version=figures.version,
                    writes=writes_of(in_routes, permission, figures.refusal) if row.role == "master" else None,
                    in_per_second=figures.in_per_second,
                    out_per_second=figures.out_per_second,
                    in_today=figures.in_today,
                    in_yesterday=figures.in_yesterday,
                    out_today=figures.out_today,
                    out_yesterday=figures.out_yesterday,
                    disk_used_percent=figures.disk_used_percent,
                    started=figures.started,
                    problem="; ".join(failed),
                )
            )
        return enriched

    async def _add_brokers(self, rows: Sequence[NameServerRow]) -> list[NameServerRow]:
        """One request for each row."""
        answers = await self._reads.cluster.map(self._reads.known_to, [row.address for row in rows])
        return [
            msgspec.structs.replace(row, problem=str(answer))
            if isinstance(answer, Exception)
            else msgspec.structs.replace(row, brokers=[each.address for each in answer], count=len(answer))
            for row, answer in zip(rows, answers, strict=True)
        ]
