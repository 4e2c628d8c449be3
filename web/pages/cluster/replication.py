"""Replication: by broker name the master and its slaves, how far each slave is behind, and whether it copies."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from headrace import Admin
from headrace.errors import HeadraceError
from headrace.model import names
from web.cluster.runtime_figures import RuntimeFigures
from web.pages.charts import BYTES, Chart, Line, charts_of
from web.pages.cluster.cluster_reads import Broker, ClusterReads
from web.paths import path_of
from web.routes import View, Visit
from web.sampling.log_ends import LogEnds
from web.tables.table import Column, Kind, Table

STALLED_MS: Final = 15_000
"""A slave that is behind and has copied nothing for so long is stalled: more than a pause between two attempts to connect."""
_AT_ONCE: Final = 8  # limit: requests in progress for this page

IN_SYNC, COPYING, STALLED, DISCONNECTED = "in sync", "copying", "stalled", "disconnected"
DIVERGED, NO_MASTER, NO_SLAVES, UNREADABLE = "ahead of its master", "no master", "no slaves", "not readable"
_WORST_LAST: Final = (IN_SYNC, COPYING, UNREADABLE, STALLED, DISCONNECTED, DIVERGED)


class MasterRow(msgspec.Struct, frozen=True):
    """The master of a broker name. Figures that it does not report are None."""

    broker: str
    state: str
    role: str | None
    address: str
    ha_address: str | None
    slaves: int
    """Registered slaves."""
    connected: int | None
    """Slaves that are connected to the master; Apache's brokers do not report it."""
    max_offset: int | None
    bytes_per_second: float | None
    behind: int | None
    """Of the slave that is furthest behind."""
    problem: str = ""


class SlaveRow(msgspec.Struct, frozen=True):
    """One slave."""

    broker: str
    id: int
    state: str
    address: str
    master_address: str | None
    """The master's HA address in the slave's configuration."""
    max_offset: int | None
    behind: int | None
    behind_ms: int | None
    bytes_per_second: float | None
    problem: str = ""


_MASTER_COLUMNS: Final[tuple[Column[MasterRow], ...]] = (
    Column("broker", "Broker"),
    Column("state", "State", Kind.WORD),
    Column("role", "Role", help="SYNC_MASTER waits for a slave before it confirms a message, ASYNC_MASTER does not."),
    Column("address", "Address", link=lambda row: path_of("cluster", "brokers", row.address) if row.address else None),
    Column("ha_address", "HA address", help="Slaves connect to it."),
    Column("slaves", "Slaves", Kind.NUMBER, help="Slaves that are registered with the name servers."),
    Column("connected", "Connected", Kind.NUMBER, help="Slaves that are connected. Apache's brokers do not report it."),
    Column("max_offset", "Max offset of the CommitLog", Kind.NUMBER),
    Column("bytes_per_second", "Written per second (10–20 s average)", Kind.BYTES),
    Column("behind", "Furthest behind", Kind.BYTES, help="Bytes that the last slave has not copied yet."),
    Column("problem", "Problem", is_shown_if_any=True),
)
_SLAVE_COLUMNS: Final[tuple[Column[SlaveRow], ...]] = (
    Column("broker", "Broker"),
    Column("id", "Broker id", Kind.NUMBER),
    Column("state", "State", Kind.WORD),
    Column("address", "Address", link=lambda row: path_of("cluster", "brokers", row.address)),
    Column("master_address", "Copies from", help="haMasterAddress; without it, Apache's slaves ask the name servers."),
    Column("max_offset", "Max offset of the CommitLog", Kind.NUMBER),
    Column("behind", "Behind", Kind.BYTES, help="Bytes that the slave has not copied yet."),
    Column(
        "behind_ms",
        "Behind in time",
        Kind.DURATION,
        help="How long ago the master wrote what the slave copies next; known for the last six hours of this console.",
    ),
    Column("bytes_per_second", "Copied per second (10–20 s average)", Kind.BYTES),
    Column("problem", "Problem", is_shown_if_any=True),
)


class LogFigures(Struct, frozen=True):
    """What a broker answered about its CommitLog."""

    end: int | None = None
    connected: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Member:
    """A broker with what is known of it."""

    broker: Broker
    log: LogFigures
    config: Mapping[str, str] | Exception

    @property
    def key(self) -> str:
        """As BrokerSample's."""
        broker = self.broker
        return broker.name if broker.id == names.MASTER_ID else f"{broker.name}/{broker.id}"

    @property
    def problem(self) -> str:
        """Why something is unknown."""
        config = str(self.config) if isinstance(self.config, Exception) else ""
        return "; ".join(dict.fromkeys(filter(None, (self.log.problem, config))))

    def option(self, key: str) -> str | None:
        """An option of its configuration; None without one. Java writes null."""
        value = None if isinstance(self.config, Exception) else self.config.get(key)
        return None if value in {None, "", "null"} else value


class ReplicationPage:
    """Two requests for each broker, whatever the number of its slaves."""

    def __init__(self, reads: ClusterReads, log_ends: LogEnds, now_s: Callable[[], float] = time.time) -> None:
        self._reads = reads
        self._log_ends = log_ends
        self._now_s = now_s

    async def show(self, visit: Visit) -> View:
        """All masters and slaves."""
        brokers = await self._reads.brokers()
        logs = await self._reads.cluster.read(("replication",), lambda admin: _read_logs(admin, brokers))
        configs = await self._reads.cluster.map(self._reads.config, [each.address for each in brokers])
        members = [
            _Member(broker, logs.get(broker.address, LogFigures()), config)
            for broker, config in zip(brokers, configs, strict=True)
        ]
        masters = {each.broker.name: each for each in members if each.broker.id == names.MASTER_ID}
        copies = [each for each in members if each.broker.id != names.MASTER_ID]
        now_ms = int(self._now_s() * 1000)
        slaves = [self._slave(each, masters.get(each.broker.name), now_ms) for each in copies]
        of_name: dict[str, list[SlaveRow]] = {each.broker.name: [] for each in members}
        for slave in slaves:
            of_name[slave.broker].append(slave)
        lines = tuple(
            Line(f"broker.behind/{each.key}", each.key, is_name=True, value=slave.behind)
            for each, slave in zip(copies, slaves, strict=True)
        )
        tables: list[Table[Any]] = [
            Table(
                "masters",
                MasterRow,
                [self._master(name, masters.get(name), own, now_ms) for name, own in of_name.items()],
                _MASTER_COLUMNS,
                search=("broker", "address", "state"),
                empty="No broker is registered with the name servers.",
            ),
            Table(
                "slaves",
                SlaveRow,
                slaves,
                _SLAVE_COLUMNS,
                search=("broker", "address", "state"),
                empty="No slave is registered with the name servers.",
            ),
        ]
        data = {"charts": charts_of(visit, Chart("Bytes that slaves have not copied", BYTES, lines))}
        return View("Replication", "cluster/replication.html", data, tables)

    def _master(self, name: str, master: _Member | None, slaves: Sequence[SlaveRow], now_ms: int) -> MasterRow:
        if master is None:
            return MasterRow(name, NO_MASTER, None, "", None, len(slaves), None, None, None, None)
        host, port = master.option("brokerIP2"), master.option("haListenPort")
        log = master.log
        return MasterRow(
            name,
            state_of_master(log, [slave.state for slave in slaves]),
            master.option("brokerRole"),
            master.broker.address,
            f"{host}:{port}" if host and port else None,
            len(slaves),
            log.connected,
            log.end,
            None if log.end is None else self._log_ends.bytes_per_second(master.key, now_ms, log.end),
            max((slave.behind for slave in slaves if slave.behind is not None), default=None),
            master.problem,
        )

    def _slave(self, slave: _Member, master: _Member | None, now_ms: int) -> SlaveRow:
        end = slave.log.end
        target = None if master is None else master.log.end
        behind = None if end is None or target is None else max(target - end, 0)
        reached = None
        if end is not None and behind and master is not None:
            reached = self._log_ends.reached_ms(master.key, end)
        still = None if end is None else self._log_ends.still_since_ms(slave.key, end)
        return SlaveRow(
            slave.broker.name,
            slave.broker.id,
            state_of_slave(
                slave.log,
                None if master is None else master.log,
                None if still is None else now_ms - still,
            ),
            slave.broker.address,
            slave.option("haMasterAddress"),
            end,
            behind,
            0 if behind == 0 else None if reached is None else max(now_ms - reached, 0),
            None if end is None else self._log_ends.bytes_per_second(slave.key, now_ms, end),
            slave.problem,
        )


def state_of_slave(slave: LogFigures, master: LogFigures | None, still_ms: int | None) -> str:
    """A word. `still_ms`: for how long its log has not grown; None: it has grown, or this is unknown."""
    if slave.end is None:
        return UNREADABLE
    if master is None:
        return NO_MASTER
    if master.connected == 0:
        return DISCONNECTED
    if master.end is None:
        return UNREADABLE
    if slave.end > master.end:
        return DIVERGED
    if slave.end == master.end:
        return IN_SYNC
    return STALLED if still_ms is not None and still_ms >= STALLED_MS else COPYING


def state_of_master(master: LogFigures, slaves: Sequence[str]) -> str:
    """A word: of its slaves the worst state."""
    if master.end is None:
        return UNREADABLE
    if not slaves:
        return NO_SLAVES
    if master.connected is not None and 0 < master.connected < len(slaves):
        return DISCONNECTED
    return max(slaves, key=_WORST_LAST.index)


async def _read_logs(admin: Admin, brokers: Sequence[Broker]) -> dict[str, LogFigures]:
    """By address. Slaves are asked first: a slave whose log ends behind that of its master then has what the master has not."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def ask(broker: Broker) -> tuple[str, LogFigures]:
        try:
            async with room:
                runtime = RuntimeFigures(await admin.runtime_info(broker.address))
        except HeadraceError as error:
            return broker.address, LogFigures(problem=str(error))
        return broker.address, LogFigures(runtime.log_end, runtime.count("haSlaveCount"))

    slaves = await asyncio.gather(*(ask(each) for each in brokers if each.id != names.MASTER_ID))
    masters = await asyncio.gather(*(ask(each) for each in brokers if each.id == names.MASTER_ID))
    return dict((*slaves, *masters))
