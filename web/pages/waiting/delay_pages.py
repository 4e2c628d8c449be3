"""DelayPages: delay levels and timers of all brokers, and the messages that wait in them."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace import MessageQueue
from headrace.model import properties as property_names
from headrace.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_row import MessageRow
from web.pages.messages.message_search import parse_offsets
from web.pages.waiting.delay_reads import DelayReads, Delays, LevelRow, TimerRow
from web.pages.waiting.waiting_message import WaitingMessage, real_topic, table_of, waiting, whole
from web.paths import path_of
from web.routes import Problem, Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

MENU: Final = "Delayed messages"
_FOREVER: Final = (1 << 63) - 1
_AT: Final = {"at": "Where the next page starts: `next` of the page before."}


def _of_nothing(row: LevelRow) -> tuple[str, dict[str, str]] | None:
    """In place of a time."""
    return None if row.waiting else ("–", {})


_LEVEL_COLUMNS: Final[tuple[Column[LevelRow], ...]] = (
    Column("broker", "Broker"),
    Column("level", "Delay level", Kind.NUMBER, link=lambda row: path_of("delays", row.broker, str(row.level))),
    Column("delay", "Delay", Kind.DURATION),
    Column("waiting", "Waiting messages", Kind.NUMBER),
    Column("next_due", "Earliest due at", Kind.TIME, is_enriched=True, says=_of_nothing),
    Column("last_due", "Latest due at", Kind.TIME, is_enriched=True, says=_of_nothing),
    Column(
        "delivered", "Delivered in total", Kind.NUMBER, help="All messages of this level that the broker has delivered."
    ),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)
_TIMER_COLUMNS: Final[tuple[Column[TimerRow], ...]] = (
    Column("broker", "Broker"),
    Column(
        "waiting",
        "Waiting messages",
        Kind.NUMBER,
        help="Cancelled messages and their cancellations are counted until they are due.",
    ),
)


class DelayPages:
    """The pages of delayed messages."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._reads = DelayReads(cluster)
        self._messages = MessageReads(cluster)
        self._topics = TopicReader(cluster)
        self._now_ms = now_ms

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query("/delays", self.show, "Show what delay levels and timers hold.", menu=MENU, shortcut="y"),
            Query("/delays/timers", self.show_timers, "Show waiting timer messages.", section=MENU, arguments=_AT),
            Query(
                "/delays/<broker:str>/<level:str>",
                self.show_level,
                "Show the waiting messages of a delay level.",
                section=MENU,
                arguments=_AT,
            ),
        ]

    async def show(self, _visit: Visit) -> View:
        """Delay levels and timers of all masters."""
        found = await self._reads.delays()
        without = _without_timers(found)
        levels = Table(
            "levels",
            LevelRow,
            found.levels,
            _LEVEL_COLUMNS,
            enrich=self._reads.add_times,
            empty="No broker reports delay levels.",
        )
        rows = [row for row in found.timers if row.waiting is not None]
        timers = Table("timers", TimerRow, rows, _TIMER_COLUMNS, sort="broker", empty="No broker supports timers.")
        data = {"waiting": sum(row.waiting for row in found.levels), "without_timers": without}
        return View("Delayed messages", "waiting/delays.html", data, [levels, timers], problems=found.problems)

    async def show_level(self, visit: Visit) -> View:
        """A page of the messages that wait in one level of a broker, in the order in which they are delivered."""
        level = whole(visit.path["level"])
        if level is None:
            raise Invalid("the delay level is not a number", "Choose one from the list.")
        row = await self._reads.level(visit.path["broker"], level)
        queue = MessageQueue(SCHEDULE_TOPIC, row.broker, row.level - 1)
        start = max(row.delivered, whole(visit.arguments.get("at")) or 0)
        messages, at = await self._messages.from_offset(queue, start) if row.waiting else ([], None)
        data: dict[str, Any] = {"row": row, "next": None if at is None else {"at": str(at)}}
        found = [waiting(one, one.stored_at + row.delay) for one in messages]
        return View("Delay level", "waiting/level.html", data, [table_of(found)], f"{row.broker} {row.level}")

    async def show_timers(self, visit: Visit) -> View:
        """A page of the timer topic: the messages that still wait, in the order in which they were sent."""
        data: dict[str, Any] = {"is_used": TIMER_TOPIC in await self._topics.names(), "next": None, "looked_at": 0}
        problems: Sequence[str | Problem] = ()
        rows: list[WaitingMessage] = []
        if data["is_used"]:
            now_ms = self._now_ms()
            begin_ms = now_ms - await self._reads.longest_timer_ms()
            offsets = parse_offsets(visit.arguments.get("at", ""))
            page = await self._messages.by_time_where(
                TIMER_TOPIC, begin_ms, _FOREVER, offsets, lambda row: due_at(row) > now_ms
            )
            rows = still_waiting(page.rows)
            data["looked_at"] = page.scanned
            if page.next_offsets is not None:
                data["next"] = {"at": ".".join(map(str, page.next_offsets))}
        else:
            found = await self._reads.delays()
            data["without_timers"], problems = _without_timers(found), found.problems
        table = table_of(rows) if data["is_used"] else table_of(rows, empty="No timer message has been stored yet.")
        return View("Timer messages", "waiting/timers.html", data, [table], problems=problems)


def _without_timers(found: Delays) -> list[str]:
    """The brokers that do not report timers."""
    return sorted(row.broker for row in found.timers if row.waiting is None)


def due_at(row: MessageRow) -> int:
    """When a message of the timer topic is delivered, ms; 0 if it does not have a time."""
    return whole(row.properties.get(property_names.TIMER_OUT_MS)) or 0


def still_waiting(rows: Sequence[MessageRow]) -> list[WaitingMessage]:
    """The messages without those that others of them cancel."""
    cancelled = {
        # compat: some releases of RocketMQ 5 name only the id.
        target if "+" in target else f"{real_topic(row)}+{target}"
        for row in rows
        if (target := row.properties.get(property_names.TIMER_DEL_UNIQKEY)) is not None
    }
    return [
        waiting(row, due_at(row))
        for row in rows
        if property_names.TIMER_DEL_UNIQKEY not in row.properties and f"{real_topic(row)}+{row.id}" not in cancelled
    ]
