"""Consumer groups: the list."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies.stats import OffsetWrapper
from web.cluster.protection import is_system_group
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import View, Visit
from web.tables.table import Choice, Column, Kind, Table

NORMAL, SYSTEM = "normal", "system"
KINDS: Final = Choice("kind", "Kind", ((NORMAL, "Normal"), (SYSTEM, "System"), ("all", "All")))
ONLINE, OFFLINE = "online", "offline"
_MOST_TOPICS: Final = 3  # limit: requests for the time lag of a group; its own page asks for all topics
MODES: Final = {"CLUSTERING": "clustering", "BROADCASTING": "broadcasting"}


class GroupRow(msgspec.Struct, frozen=True):
    """One group, over all brokers."""

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
    """How long ago the oldest message that waits was stored, ms; 0: none waits."""
    rate: float | None = None
    topics: list[str] | None = None
    problem: str = ""
    """Why the enriched fields are missing."""


def _columns() -> tuple[Column[GroupRow], ...]:
    return (
        Column("group", "Group", link=lambda row: path_of("groups", row.group)),
        Column("state", "State", Kind.WORD, is_enriched=True),
        Column("members", "Members", Kind.NUMBER, is_enriched=True, help="Connected clients of the group."),
        Column("mode", "Mode", Kind.WORD, is_enriched=True),
        Column(
            "lag",
            "Lag",
            Kind.NUMBER,
            is_enriched=True,
            help="Messages that the group has not consumed yet, including those that it retries.",
        ),
        Column(
            "delay",
            "Time lag",
            Kind.DURATION,
            is_enriched=True,
            help="How long ago the oldest message that the group has not consumed was stored.",
        ),
        Column("rate", "Delivered per second", Kind.RATE, is_enriched=True),
        Column(
            "topics",
            "Topics",
            Kind.LIST,
            is_enriched=True,
            links=lambda row: [(topic, path_of("topics", topic)) for topic in row.topics or ()],
        ),
        Column("is_enabled", "Enabled", Kind.YES_NO, help="Whether the group may consume."),
        Column("brokers", "Brokers", Kind.LIST),
        Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
    )


class GroupList:
    """The list of consumer groups."""

    def __init__(self, reads: GroupReads) -> None:
        self._reads = reads

    async def show(self, _visit: Visit) -> View:
        """All groups that have settings at a broker."""
        settings, problems = await self._reads.settings()
        rows = [
            GroupRow(
                name,
                SYSTEM if is_system_group(name) else NORMAL,
                sorted(configs),
                all(config.consume_enable for config in configs.values()),
            )
            for name, configs in settings.items()
        ]
        table = Table(
            "groups",
            GroupRow,
            rows,
            _columns(),
            search=("group", "brokers"),
            choices=(KINDS,),
            choose=_is_of_kind,
            sort="group",
            enrich=self._enrich,
            empty="The cluster has no consumer groups.",
        )
        return View("Consumer groups", "groups/list.html", tables=[table], problems=problems)

    async def _enrich(self, rows: Sequence[GroupRow]) -> Sequence[GroupRow]:
        answers = await self._reads.cluster.map(self._enriched, rows)
        return [
            msgspec.structs.replace(row, problem=str(answer)) if isinstance(answer, Exception) else answer
            for row, answer in zip(rows, answers, strict=True)
        ]

    async def _enriched(self, row: GroupRow) -> GroupRow:
        """A row with its members and its lag, in two requests for each broker, and one for each topic in which messages wait. Raises HeadraceError."""
        connection = await self._reads.members(row.group)
        stats = await self._reads.progress(row.group)
        waiting = {queue: one for queue, one in stats.offset_table.items() if one.broker_offset > one.consumer_offset}
        delays = [await self._reads.delays(row.group, topic) for topic in _consumed_longest_ago(waiting)]
        is_online = bool(connection.connection_set)
        mode = connection.message_model
        return msgspec.structs.replace(
            row,
            state=ONLINE if is_online else OFFLINE,
            members=len(connection.connection_set),
            mode=MODES[mode] if is_online and mode is not None else None,
            lag=sum(max(0, one.broker_offset - one.consumer_offset) for one in stats.offset_table.values()),
            delay=max((queues[queue] for queues in delays for queue in queues.keys() & waiting.keys()), default=0),
            rate=stats.consume_tps,
            topics=sorted({queue.topic for queue in stats.offset_table if not names.is_retry_topic(queue.topic)}),
        )


def _consumed_longest_ago(waiting: Mapping[MessageQueue, OffsetWrapper]) -> list[str]:
    """The topics of queues with waiting messages: of many those from which the group took its last message longest ago, or none yet."""
    last_ms: dict[str, int] = {}
    for queue, one in sorted(waiting.items(), key=lambda item: item[0]):
        last_ms[queue.topic] = min(last_ms.get(queue.topic, one.last_timestamp), one.last_timestamp)
    return sorted(last_ms, key=last_ms.__getitem__)[:_MOST_TOPICS]


def _is_of_kind(row: GroupRow, chosen: Mapping[str, str]) -> bool:
    return chosen["kind"] in {"all", row.kind}
