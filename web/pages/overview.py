"""Overview: whether everything works: firing alerts, disks, groups that need attention, rates with history, the cluster's brokers and the appliance's roles."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headrace import __version__
from headrace.model import names
from headrace.protocol.bodies import ClusterInfo
from web.cluster.cluster import Cluster
from web.cluster.protection import is_system_group
from web.cluster.runtime_figures import RuntimeFigures
from web.pages.alerts.alert_rows import FIRING_COLUMNS, FiringRow
from web.pages.charts import (
    LATENCY,
    NUMBER,
    RANGE_ARGUMENT,
    RATE,
    SHARE,
    STORE_LATENCY,
    Chart,
    Charts,
    Line,
    charts_of,
)
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.stopped import stopped_brokers
from web.pages.disks import Disks, weekend_answer
from web.paths import path_of
from web.routes import Problem, Query, Route, View, Visit
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import BrokerSample, figures_by_group
from web.sampling.sampler import Sampler
from web.tables.table import Column, Kind, Table

BEHIND_MS: Final = 300_000
"""From this time lag on, a group needs attention: the threshold of the built-in rule."""
_SAMPLE_AGE_S: Final = 30.0
_SAMPLE_TIMEOUT_S: Final = 4.0  # limit: half of the page's deadline; the rest of the page does not need the sample


class BrokerRow(msgspec.Struct, frozen=True):
    """One broker."""

    broker: str
    id: int
    address: str
    cluster: str
    version: str = ""
    put_per_second: float | None = None
    get_per_second: float | None = None
    messages_today: int | None = None
    disk_used_percent: float | None = None
    problem: str = ""


class RoleRow(msgspec.Struct, frozen=True):
    """One role of the appliance."""

    role: str
    state: str
    pid: int | None
    restarts: int
    heartbeat_age_ms: int | None
    note: str


class AttentionRow(msgspec.Struct, frozen=True):
    """A consumer group without members whose messages wait, that is far behind, or with unhandled dead letters."""

    group: str
    members: int
    lag: int
    delay: int | None
    """How long ago its oldest waiting message was stored, ms; None if unknown."""
    dead_letters: int
    """Stored ones that are not marked as handled."""


class FindingRow(msgspec.Struct, frozen=True):
    """A problem of a consumer group."""

    group: str
    kind: str
    what: str
    advice: str
    since: int


_BROKER_COLUMNS: Final[tuple[Column[BrokerRow], ...]] = (
    Column("broker", "Broker", link=lambda row: path_of("cluster", "brokers", row.address)),
    Column("id", "Broker id", Kind.NUMBER, help="0: master. Others: slaves."),
    Column("address", "Address"),
    Column("cluster", "Cluster"),
    Column("version", "RocketMQ version", is_enriched=True),
    Column("put_per_second", "Received per second (10-second average)", Kind.RATE, is_enriched=True),
    Column("get_per_second", "Delivered per second (10-second average)", Kind.RATE, is_enriched=True),
    Column(
        "messages_today",
        "Received today",
        Kind.NUMBER,
        is_enriched=True,
        help="Since midnight in the broker's time zone.",
    ),
    Column(
        "disk_used_percent",
        "Disk used (%)",
        Kind.PERCENT,
        is_enriched=True,
        help="Usage of the file system that holds the CommitLog.",
    ),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)
_ROLE_COLUMNS: Final[tuple[Column[RoleRow], ...]] = (
    Column("role", "Appliance role"),
    Column("state", "State", is_word=True),
    Column("pid", "PID"),
    Column("restarts", "Restarts", Kind.NUMBER),
    Column("heartbeat_age_ms", "Since last heartbeat", Kind.DURATION),
    Column("note", "Note", is_shown_if_any=True),
)
_ATTENTION_COLUMNS: Final[tuple[Column[AttentionRow], ...]] = (
    Column("group", "Consumer group", link=lambda row: path_of("groups", row.group)),
    Column("members", "Members", Kind.NUMBER, help="Connected clients of the group."),
    Column("lag", "Lag", Kind.NUMBER, help="Messages that the group has not consumed yet."),
    Column(
        "delay",
        "Time lag",
        Kind.DURATION,
        help="How long ago the oldest message that the group has not consumed was stored.",
        none="unknown",
    ),
    Column(
        "dead_letters",
        "Dead letters",
        Kind.NUMBER,
        link=lambda row: path_of("dead-letters", row.group) if row.dead_letters else None,
        help="Stored dead letters that are not marked as handled; they are deleted after the retention time.",
    ),
)
_FINDING_COLUMNS: Final[tuple[Column[FindingRow], ...]] = (
    Column("group", "Consumer group", link=lambda row: path_of("groups", row.group)),
    Column("kind", "Problem", is_word=True),
    Column("what", "Finding"),
    Column("advice", "What to do", is_word=True),
    Column("since", "Since", Kind.TIME),
)


class OverviewPages:
    """The start page."""

    def __init__(
        self,
        cluster: Cluster,
        own: OwnAppliance,
        sampler: Sampler,
        disks: Disks,
        firing: Callable[[], Sequence[FiringRow]],
        handled: Callable[[Sequence[BrokerSample]], Awaitable[Mapping[str, int]]],
    ) -> None:
        """`firing`: the alerts that fire now; `handled`: how many stored dead letters of each group are marked as handled."""
        self._cluster = cluster
        self._reads = ClusterReads(cluster)
        self._firing = firing
        self._handled = handled
        self._own = own
        self._sampler = sampler
        self._disks = disks

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/",
                self.show,
                "Show the state of the cluster and of the appliance.",
                menu="Dashboard",
                shortcut="h",
                arguments=RANGE_ARGUMENT,
            )
        ]

    async def show(self, visit: Visit) -> View:
        """The state now. What cannot be read is a problem at the top of the page; the rest is shown."""
        problems: list[str | Problem] = []
        tables: list[Table[Any]] = []
        info = ClusterInfo()
        try:
            info = await self._cluster.read(("cluster info",), lambda admin: admin.cluster_info())
        except Exception as error:
            if not self._own.exists:
                raise
            problems.append(Problem("brokers: {error}", {"error": error}))
        clusters = {broker: name for name, brokers in info.cluster_addr_table.items() for broker in brokers}
        brokers = [
            BrokerRow(name, broker_id, address, clusters.get(name, ""))
            for name, data in sorted(info.broker_addr_table.items())
            for broker_id, address in sorted(data.broker_addrs.items())
        ]
        empty = "No broker is registered with the name servers."
        tables.append(Table("brokers", BrokerRow, brokers, _BROKER_COLUMNS, enrich=self._add_runtime, empty=empty))
        data: dict[str, Any] = {"is_appliance": self._own.exists, "state": "", "uptime_ms": 0, "version": __version__}
        data["attention_time_lag_ms"] = BEHIND_MS
        masters = {row.broker: row.address for row in brokers if row.id == names.MASTER_ID}
        (waiting, disks, present), data["stopped"] = await asyncio.gather(
            self._sampled(problems), stopped_brokers(self._reads, masters)
        )
        data["charts"] = _charts(visit, sorted(info.broker_addr_table), present)
        data["weekend"] = weekend_answer(disks.rows)
        tables.append(disks)
        empty = "No alert is firing."
        tables.append(Table("alerts", FiringRow, self._firing(), FIRING_COLUMNS, sort="-since", empty=empty))
        tables.append(waiting)
        if self._own.exists:
            known, problem = await self._own.read()
            if problem is not None:
                problems.append(problem)
            status: Mapping[str, Any] = known or {"roles": {}, "state": "unknown", "uptime_ms": 0}
            data.update(state=status["state"], uptime_ms=status["uptime_ms"])
            tables.append(Table("roles", RoleRow, _roles(status), _ROLE_COLUMNS))
            findings = _findings(status)
            empty = "The brokers check that the connected members of a group have the same subscriptions and different client ids, and that every queue has a member. They found no problem. Groups without members are not checked here, nor is lag."
            tables.append(Table("findings", FindingRow, findings, _FINDING_COLUMNS, empty=empty))
        return View("Dashboard", "overview.html", data, tables, problems=problems)

    async def _sampled(
        self, problems: list[str | Problem]
    ) -> tuple[Table[AttentionRow], Table[Any], Sequence[BrokerSample]]:
        """Groups that need attention, disks, and the brokers that answered. Adds to `problems` what could not be read."""
        try:
            async with asyncio.timeout(_SAMPLE_TIMEOUT_S):
                sample = await self._sampler.latest(_SAMPLE_AGE_S)
                problems += [f"{broker.key}: {broker.problem}" for broker in sample.brokers if broker.problem]
                handled = await self._handled(sample.brokers)
                present = await self._disks.present(sample.brokers)
                return _attention_table(sample.brokers, handled), await self._disks.table(present), present
        except TimeoutError:
            values = {"seconds": f"{_SAMPLE_TIMEOUT_S:g}"}
            problems.append(Problem("disks: the brokers did not answer within {seconds} s", values))
            return _attention_table((), {}), await self._disks.table(()), ()

    async def _add_runtime(self, rows: Sequence[BrokerRow]) -> list[BrokerRow]:
        answers = await self._cluster.map(self._reads.runtime, [row.address for row in rows])
        return [
            msgspec.structs.replace(row, problem=str(answer))
            if isinstance(answer, Exception)
            else _with_runtime(row, answer)
            for row, answer in zip(rows, answers, strict=True)
        ]


def _charts(visit: Visit, names_of_brokers: Sequence[str], present: Sequence[BrokerSample]) -> Charts:
    """The charts begin with the figures that the tables show."""
    masters = {one.name: RuntimeFigures(one.runtime) for one in present if one.is_master}
    lags = [one.lag for group, one in figures_by_group(present).items() if not is_system_group(group)]
    return charts_of(
        visit,
        Chart(
            "Messages per second",
            RATE,
            (
                Line("cluster.in", "Received", value=_sum([one.in_per_second for one in masters.values()])),
                Line("cluster.out", "Delivered", value=_sum([one.out_per_second for one in masters.values()])),
            ),
        ),
        Chart(
            "Lag of all groups",
            NUMBER,
            (Line("cluster.lag", "All groups", value=sum(lags) if masters else None),),
        ),
        Chart(
            "Disk used",
            SHARE,
            tuple(
                Line(
                    f"broker.disk/{name}",
                    name,
                    is_name=True,
                    value=masters[name].disk_used if name in masters else None,
                )
                for name in names_of_brokers
            ),
        ),
        Chart(
            STORE_LATENCY,
            LATENCY,
            tuple(Line(f"broker.p99/{name}", name, is_name=True) for name in names_of_brokers),
        ),
    )


def _sum(figures: Sequence[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [one for one in figures if one is not None]
    return sum(known) if known else None


def _with_runtime(row: BrokerRow, runtime: Mapping[str, str]) -> BrokerRow:
    figures = RuntimeFigures(runtime)
    return msgspec.structs.replace(
        row,
        version=figures.version or "",
        put_per_second=figures.in_per_second,
        get_per_second=figures.out_per_second,
        messages_today=figures.in_today,
        disk_used_percent=figures.disk_used_percent,
    )


def _attention_table(brokers: Sequence[BrokerSample], handled: Mapping[str, int]) -> Table[AttentionRow]:
    masters = [broker for broker in brokers if broker.is_master]
    is_known = bool(masters) and all(broker.problem is None for broker in masters)
    empty = "Every group with a lag has members and a time lag of less than 5 minutes, and no group has unhandled dead letters."
    if not is_known:
        empty = "Not all brokers could be read, so this is unknown."
    return Table(
        "attention", AttentionRow, attention_rows(brokers, handled), _ATTENTION_COLUMNS, sort="-lag", empty=empty
    )


def attention_rows(brokers: Sequence[BrokerSample], handled: Mapping[str, int]) -> list[AttentionRow]:
    """The groups without members whose messages wait, those that are far behind, and those with unhandled dead letters."""
    return [
        AttentionRow(group, one.members, one.lag, one.lag_ms, unhandled)
        for group, one in sorted(figures_by_group(brokers).items())
        for unhandled in [one.dead_letters - handled.get(group, 0)]
        if not is_system_group(group)
        and (unhandled or (one.lag and (not one.members or (one.lag_ms or 0) >= BEHIND_MS)))
    ]


def _roles(status: Mapping[str, Any]) -> list[RoleRow]:
    return [
        RoleRow(
            name,
            role["state"],
            role["pid"],
            role["restarts"],
            role["heartbeat_age_ms"],
            role["long_call"] or role["problem"] or "",
        )
        for name, role in status["roles"].items()
    ]


def _findings(status: Mapping[str, Any]) -> list[FindingRow]:
    brokers = status["brokers"].values() if "brokers" in status else [status]
    return [
        FindingRow(finding["group"], finding.get("kind", ""), finding["what"], finding["advice"], finding["since"])
        for broker in brokers
        for finding in broker.get("findings", [])
    ]
