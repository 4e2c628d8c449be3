"""Consumer groups: the list. It is filtered and sorted by the last sample, because figures of all groups would take requests for each of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headrace.model import names
from web.cluster.protection import is_system_group
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import Problem, View, Visit
from web.sampling.sample import GroupFigures, figures_by_group
from web.sampling.sampler import PAGE_TIMEOUT_S, Sampler
from web.tables.table import Choice, Column, Kind, Table

NORMAL, SYSTEM = "normal", "system"
KINDS: Final = Choice("kind", "Kind", ((NORMAL, "Normal"), (SYSTEM, "System"), ("all", "All")))
ONLINE, OFFLINE = "online", "offline"
STATES: Final = Choice("state", "State", (("all", "All"), (ONLINE, "Online"), (OFFLINE, "Offline")))
_NO_SAMPLE: Final = "the brokers did not answer within {seconds} s, so groups cannot be sorted by lag and members"
MODES: Final = {"CLUSTERING": "clustering", "BROADCASTING": "broadcasting"}


class GroupRow(msgspec.Struct, frozen=True):
    """One group, over all brokers. State, members and lags are those of the last sample until the row is shown."""

    group: str
    kind: str
    brokers: list[str]
    is_enabled: bool
    """Whether it may consume at every broker."""
    state: str | None = None
    members: int | None = None
    mode: str | None = None
    lag: int | None = None
    delay: int | None = None
    """How long ago the oldest message that waits was stored, ms, in the last sample; 0: none waits."""
    rate: float | None = None
    topics: list[str] | None = None
    problem: str = ""
    """Why the enriched fields are missing."""


def _columns() -> tuple[Column[GroupRow], ...]:
    return (
        Column("group", "Group", link=lambda row: path_of("groups", row.group)),
        Column("state", "State", Kind.WORD),
        Column("members", "Members", Kind.NUMBER, help="Connected clients of the group."),
        Column("mode", "Mode", Kind.WORD, is_enriched=True),
        Column(
            "lag",
            "Lag",
            Kind.NUMBER,
            help="Messages that the group has not consumed yet, including those that it retries.",
        ),
        Column(
            "delay",
            "Time lag",
            Kind.DURATION,
            help="How long ago the oldest message that the group has not consumed was stored.",
        ),
        Column("rate", "Delivered per second (1-minute average)", Kind.RATE, is_enriched=True),
        Column(
            "topics",
            "Topics",
            Kind.LIST,
            is_enriched=True,
            links=lambda row: [(topic, path_of("topics", topic)) for topic in row.topics or ()],
        ),
        Column(
            "is_enabled",
            "Consumption",
            Kind.WORD,
            says=lambda row: (consumption_word(is_enabled=row.is_enabled), {}),
            help="Whether brokers answer the pulls of the group (consumeEnable).",
        ),
        Column("brokers", "Brokers", Kind.LIST),
        Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
    )


class GroupList:
    """The list of consumer groups."""

    def __init__(self, reads: GroupReads, sampler: Sampler) -> None:
        self._reads = reads
        self._sampler = sampler

    async def show(self, _visit: Visit) -> View:
        """All groups that have settings at a broker."""
        (settings, unread), sample = await asyncio.gather(self._reads.settings(), self._sampler.for_page())
        problems: list[str | Problem] = [*unread]
        rows = [
            GroupRow(
                name,
                SYSTEM if is_system_group(name) else NORMAL,
                sorted(configs),
                all(config.consume_enable for config in configs.values()),
            )
            for name, configs in settings.items()
        ]
        if sample is None:
            problems.append(Problem(_NO_SAMPLE, {"seconds": f"{PAGE_TIMEOUT_S:g}"}))
        else:
            figures = figures_by_group(sample.brokers)
            rows = [_with_figures(row, figures.get(row.group, GroupFigures(lag_ms=0))) for row in rows]
        table = Table(
            "groups",
            GroupRow,
            rows,
            _columns(),
            search=("group", "brokers"),
            choices=(KINDS, STATES),
            choose=_is_chosen,
            sort="group",
            enrich=self._enrich,
            empty="The cluster has no consumer groups.",
        )
        data = {"sampled_at": None if sample is None else int(sample.time_s * 1000)}
        return View("Consumer groups", "groups/list.html", data, [table], problems=problems)

    async def _enrich(self, rows: Sequence[GroupRow]) -> Sequence[GroupRow]:
        answers = await self._reads.cluster.map(self._enriched, rows)
        return [
            msgspec.structs.replace(row, problem=str(answer)) if isinstance(answer, Exception) else answer
            for row, answer in zip(rows, answers, strict=True)
        ]

    async def _enriched(self, row: GroupRow) -> GroupRow:
        """A row with its members and its lag. Raises HeadraceError."""
        connection = await self._reads.members(row.group)
        stats = await self._reads.progress(row.group)
        topics = {queue.topic for queue in stats.offset_table}
        lag = sum(max(0, one.broker_offset - one.consumer_offset) for one in stats.offset_table.values())
        is_online = bool(connection.connection_set)
        mode = connection.message_model
        return msgspec.structs.replace(
            row,
            state=ONLINE if is_online else OFFLINE,
            members=len(connection.connection_set),
            mode=MODES[mode] if is_online and mode is not None else None,
            lag=lag,
            delay=(row.delay or None) if lag else 0,  # 0: the messages came after the sample
            rate=stats.consume_tps,
            topics=sorted(topic for topic in topics if not names.is_retry_topic(topic)),
        )


def consumption_word(*, is_enabled: bool) -> str:
    """Whether brokers answer the pulls of a group."""
    return "allowed" if is_enabled else "paused"


def _with_figures(row: GroupRow, one: GroupFigures) -> GroupRow:
    state = ONLINE if one.members else OFFLINE
    return msgspec.structs.replace(row, state=state, members=one.members, lag=one.lag, delay=one.lag_ms)


def _is_chosen(row: GroupRow, chosen: Mapping[str, str]) -> bool:
    return chosen["kind"] in {"all", row.kind} and chosen["state"] in {"all", row.state}
