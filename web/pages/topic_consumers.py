"""Who consumes each queue of a topic: the groups, and in each the member that reads the queue."""

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.protocol.bodies import ConsumerRunningInfo
from web.cluster.topic_reader import TopicReader
from web.errors import NotFound, QueryFailed
from web.pages.groups.group_page import member_path, queue_rows
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import View, Visit
from web.tables.table import Column, Kind, Table


class ConsumerRow(msgspec.Struct, frozen=True):
    """One queue and one group."""

    broker: str
    queue: int
    group: str
    client: str | None
    """The member that reads the queue; None: no member reports that it does."""
    lag: int
    delay: int | None
    """How long ago the group's next message was stored, ms; 0: none waits; None: it could not be read."""


_COLUMNS: tuple[Column[ConsumerRow], ...] = (
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.NUMBER),
    Column("group", "Consumer group", link=lambda row: path_of("groups", row.group)),
    Column(
        "client",
        "Read by",
        link=lambda row: member_path(row.group, row.client) if row.client else None,
        help="The member to which the queue is assigned, as members report it.",
        none="no reader reported",
    ),
    Column("lag", "Lag", Kind.NUMBER, help="Messages that the group has not consumed yet."),
    Column("delay", "Time lag", Kind.DURATION, help="How long ago the group's next message was stored."),
)


class TopicConsumers:
    """The page of a topic's consumers."""

    def __init__(self, topics: TopicReader, groups: GroupReads) -> None:
        self._topics = topics
        self._groups = groups

    async def show(self, visit: Visit) -> View:
        """All queues, or the one of `?broker=&queue=`. A group that cannot be read is a problem; the others are shown."""
        topic = visit.path["topic"]
        if topic not in await self._topics.names():
            raise NotFound("the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic)
        broker, queue = visit.arguments.get("broker", ""), visit.arguments.get("queue", "")
        offsets = await self._topics.group_offsets({topic})
        online = await self._groups.cluster.read(("groups of", topic), lambda admin: admin.topic_groups(topic))
        names = sorted({*offsets.by_topic.get(topic, {}), *online})
        answers = await self._groups.cluster.map(lambda group: self._rows(topic, group), names)
        rows: list[ConsumerRow] = []
        problems = list(offsets.problems)
        for group, answer in zip(names, answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{group}: {answer}")
            else:
                found, failures = answer
                rows += found
                problems += failures
        if problems and not rows:
            raise QueryFailed(
                "; ".join(problems), "Check that the brokers are running and reachable, then reload the page."
            )
        shown = [row for row in rows if (not broker or row.broker == broker) and (not queue or str(row.queue) == queue)]
        data: dict[str, Any] = {"topic": topic, "broker": broker, "queue": queue}
        table = Table(
            "consumers",
            ConsumerRow,
            sorted(shown, key=lambda row: (row.broker, row.queue, row.group)),
            _COLUMNS,
            search=("group", "client", "broker"),
            empty="No consumer group consumes it.",
        )
        return View("Consumers of the topic", "topics/consumers.html", data, [table], topic, problems)

    async def _rows(self, topic: str, group: str) -> tuple[list[ConsumerRow], list[str]]:
        """The queues of one group, and what its members did not report. Raises HeadraceError."""
        stats = await self._groups.progress(group)
        connection = await self._groups.members(group)
        reports: dict[str, ConsumerRunningInfo] = {}
        problems: list[str] = []
        clients = sorted({one.client_id for one in connection.connection_set if one.client_id is not None})
        answers = await self._groups.cluster.map(lambda client: self._groups.running(group, client), clients)
        for client, answer in zip(clients, answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{group}, {client}: {answer}")
            else:
                reports[client] = answer
        delays: Mapping[Any, int] = {}
        try:
            delays = await self._groups.delays(group, topic)
        except HeadraceError as error:
            problems.append(f"{group}: {error}")
        rows = [
            ConsumerRow(row.broker, row.queue, group, row.client, row.lag, row.delay)
            for row in queue_rows(stats, delays, reports)
            if row.topic == topic
        ]
        return rows, problems
