"""Disks of the brokers: does each last the weekend? The forecast is that of `web.history.disk_outlook`."""

import asyncio
import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headrace import Admin
from web.cluster.cluster import Cluster
from web.cluster.runtime_figures import DISK_FULL, REFUSES, RuntimeFigures
from web.history.disk_forecast import DiskForecast
from web.history.disk_outlook import ReadChart, TooEarly, disk_outlook
from web.pages.cluster.cluster_reads import ClusterReads
from web.paths import path_of
from web.sampling.sample import BrokerSample, disk_sizes
from web.tables.table import Column, Kind, Table

_FRESH_S: Final = 60.0
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
YES, NO, UNKNOWN, FULL = "yes", "no", "unknown", "full"
_EARLY_NOTE: Final = "The forecast needs another {minutes} min of history."
_UNKNOWN_NOTE: Final = "The broker does not report what the forecast needs."
_STEEP_NOTE: Final = "Disk usage has risen steeply; the forecast extrapolates the last few minutes."
_FULL_NOTE: Final = "The disk is full: the broker refuses all messages now."


class DiskRow(msgspec.Struct, frozen=True):
    """The disk of one broker. Shares are percents of the file system that has the CommitLog."""

    broker: str
    used_percent: float | None
    free: int | None
    """Bytes."""
    lasts_weekend: str
    """`yes`, `no` or `unknown`."""
    refuses_at: int | None
    """From when on messages are refused, ms since 1970; 0: never, None: unknown."""
    peak_percent: float | None
    """The highest use that is forecast."""
    note: str = ""
    """That the disk is full now, or why there is no forecast."""
    is_full: bool = False
    """Whether the broker refuses messages now because of its disk."""
    address: str = ""
    """Of the broker."""
    needs_minutes: int | None = None
    """How many more minutes of history the forecast needs; None: it does not wait for history."""
    history: int | None = None
    """On how much history the forecast rests, ms, rounded; None: there is no forecast."""
    refuses_in: int | None = None
    """After how long messages are refused, ms, rounded; None: never, or unknown."""


def _refusal(row: DiskRow) -> tuple[str, Mapping[str, Any]] | None:
    """When messages are refused, as pages show it: a forecast is not exact to the minute."""
    if row.is_full:
        return "now", {}
    if row.refuses_at == 0:
        return "not expected", {}
    if row.refuses_in is None:
        return None
    if row.refuses_in < _HOUR_MS:
        return "in less than an hour", {}
    if row.refuses_in < 2 * _DAY_MS:
        return "in about {hours} h", {"hours": row.refuses_in // _HOUR_MS}
    return "in about {days} days", {"days": row.refuses_in // _DAY_MS}


DISK_COLUMNS: Final[tuple[Column[DiskRow], ...]] = (
    Column("broker", "Broker", link=lambda row: path_of("cluster", "brokers", row.address) if row.address else None),
    Column(
        "lasts_weekend",
        "Lasts through the weekend",
        is_word=True,
        help="Until Monday 0:00 UTC, at the present rate of writes.",
    ),
    Column(
        "refuses_at",
        "Starts refusing messages",
        Kind.TIME,
        says=_refusal,
        help="When the disk is 90 % full, at the present rate of writes.",
    ),
    Column("used_percent", "Disk used (%)", Kind.PERCENT, help="Usage of the file system that holds the CommitLog."),
    Column("free", "Free", Kind.BYTES),
    Column("peak_percent", "Forecast peak (%)", Kind.PERCENT, help="Messages expire after fileReservedTime."),
    Column("history", "History", Kind.DURATION, help="How much history the forecast is based on."),
    Column(
        "note",
        "Note",
        is_word=True,
        is_shown_if_any=True,
        says=lambda row: None if row.needs_minutes is None else (_EARLY_NOTE, {"minutes": row.needs_minutes}),
    ),
)


class Disks:
    """Forecasts, each computed once a minute, however many pages ask."""

    def __init__(self, cluster: Cluster, read_chart: ReadChart, now_s: Callable[[], float]) -> None:
        self._cluster = cluster
        self._read_chart = read_chart
        self._now_s = now_s

    async def present(self, brokers: Sequence[BrokerSample]) -> list[BrokerSample]:
        """Those that answered, with their run-time figures of now, which other parts of the page show: whether a broker refuses messages must not be half a minute old."""
        answering = [broker for broker in brokers if broker.problem is None]
        runtimes = await self._cluster.map(
            ClusterReads(self._cluster).runtime, [broker.address for broker in answering]
        )
        return [
            broker if isinstance(runtime, Exception) else replace(broker, runtime=runtime)
            for broker, runtime in zip(answering, runtimes, strict=True)
        ]

    async def table(self, brokers: Sequence[BrokerSample]) -> Table[DiskRow]:
        """The disks of `present` brokers."""
        outlooks = await self._cluster.map(self._outlook, brokers)
        rows = [disk_row(broker, outlook, self._now_s()) for broker, outlook in zip(brokers, outlooks, strict=True)]
        return Table("disks", DiskRow, rows, DISK_COLUMNS, empty="No broker has reported its disk yet.")

    async def _outlook(self, broker: BrokerSample) -> DiskForecast | TooEarly | None:
        async def fetch(admin: Admin) -> DiskForecast | TooEarly | None:
            config = await admin.broker_config(broker.address)
            return await asyncio.to_thread(disk_outlook, broker, config, self._read_chart, self._now_s())

        return await self._cluster.read(("disk outlook", broker.key), fetch, _FRESH_S)


def disk_row(broker: BrokerSample, outlook: DiskForecast | TooEarly | Exception | None, now_s: float) -> DiskRow:
    """The row of a broker's disk."""
    ratio, sizes = broker.number("commitLogDiskRatio"), disk_sizes(broker.runtime)
    used = None if ratio is None else ratio * 100
    free = None if sizes is None else sizes[1]
    history = None
    if isinstance(outlook, DiskForecast):
        outlook = outlook if ratio is None else outlook.raised_to(ratio)
        history = _rounded(outlook.history_s * 1000)
    if RuntimeFigures(broker.runtime).refusal == DISK_FULL:
        now_ms, peak = int(now_s * 1000), min(outlook.peak, 1) * 100 if isinstance(outlook, DiskForecast) else None
        return DiskRow(
            broker.key, used, free, NO, now_ms, peak, _FULL_NOTE, is_full=True, address=broker.address, history=history
        )
    if not isinstance(outlook, DiskForecast):
        minutes = math.ceil(outlook.needs_s / 60) if isinstance(outlook, TooEarly) else None
        note = str(outlook) if isinstance(outlook, Exception) else _UNKNOWN_NOTE
        if minutes is not None:
            note = _EARLY_NOTE.format(minutes=minutes)
        return DiskRow(broker.key, used, free, UNKNOWN, None, None, note, address=broker.address, needs_minutes=minutes)
    reached_s = outlook.reaches(REFUSES)
    lasts = YES if outlook.lasts(weekend_end(now_s) - now_s, REFUSES) else NO
    refuses_at = 0 if reached_s is None else int((now_s + reached_s) * 1000)
    note = _STEEP_NOTE if outlook.is_steep else ""
    peak = min(outlook.peak, 1) * 100
    row = DiskRow(broker.key, used, free, lasts, refuses_at, peak, note, address=broker.address, history=history)
    return row if reached_s is None else msgspec.structs.replace(row, refuses_in=_rounded(reached_s * 1000))


def _rounded(ms: float) -> int:
    """To days from two days on, to hours from an hour on; below, whole minutes."""
    for unit, least in ((_DAY_MS, 2 * _DAY_MS), (_HOUR_MS, _HOUR_MS)):
        if ms >= least:
            return round(ms / unit) * unit
    return int(ms) // _MINUTE_MS * _MINUTE_MS


def weekend_answer(rows: Sequence[DiskRow]) -> Mapping[str, Any]:
    """Whether all disks last the weekend: `full` with a broker whose disk is full now, `yes`, `no` with the broker whose disk is full first, or `unknown`."""
    full = [row for row in rows if row.is_full]
    if full:
        return {"answer": FULL, "broker": full[0].broker, "refuses_at": full[0].refuses_at}
    short = [row for row in rows if row.lasts_weekend == NO]
    if short:
        first = min(short, key=lambda row: row.refuses_at or 0)
        return {
            "answer": NO,
            "broker": first.broker,
            "refuses_at": first.refuses_at,
            "refuses_in": first.refuses_in or 0,
            "history": first.history or 0,
        }
    is_known = bool(rows) and all(row.lasts_weekend == YES for row in rows)
    waits = [row.needs_minutes for row in rows if row.needs_minutes is not None]
    answer: dict[str, Any] = {"answer": YES if is_known else UNKNOWN, "broker": "", "refuses_at": 0}
    if is_known:
        answer["history"] = min(row.history or 0 for row in rows)
    return answer | ({"needs_minutes": max(waits)} if waits else {})


def weekend_end(now_s: float) -> float:
    """The next Monday, 0:00 UTC."""
    today = dt.datetime.fromtimestamp(now_s, dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today + dt.timedelta(days=7 - today.weekday())).timestamp()
