"""Who consumes each queue of a topic: the groups, and in each the member that reads the queue.

Groups and lags take a few requests for each broker; members and time lags are asked for the shown rows only, because they take requests for each group.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headrace.errors import HeadraceError
from headrace.model.message_queue import MessageQueue
from web.cluster.topic_reader import TopicReader
from web.errors import NotFound, QueryFailed
from web.pages.groups.group_page import NOBODY, member_path
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import View, Visit
from web.tables.table import Column, Kind, Table


class ConsumerRow(msgspec.Struct, frozen=True):
    """One queue and one group."""

    broker: str
    queue: int
    group: str
    lag: int | None
    """None: the group is online and has not stored an offset yet, or the offsets could not be read."""
    client: str | None = None
    """The member that reads the queue; None: no member reports that it does."""
    delay: int | None = None
    """How long ago the group's next message was stored, ms; 0: none waits; None: it could not be read."""
    problem: str = ""
    """What could not be read of the group or its members."""
    members: int | None = None
    """Connected ones; None: unknown."""


class _GroupState(msgspec.Struct, frozen=True):
    """What is asked for a group whose rows are shown."""

    owners: Mapping[MessageQueue, str]
    delays: Mapping[MessageQueue, int]
    problem: str
    members: int


CONSUMER_COLUMNS: Final[tuple[Column[ConsumerRow], ...]] = (
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.NUMBER),
    Column("group", "Consumer group", link=lambda row: path_of("groups", row.group)),
    Column(
        "client",
        "Read by",
        link=lambda row: member_path(row.group, row.client) if row.client else None,
        is_enriched=True,
        help="The member to which the queue is assigned, as members report it.",
        none="not reported by members",
        says=lambda row: (NOBODY, {}) if row.client is None and row.members == 0 else None,
    ),
    Column("lag", "Lag", Kind.NUMBER, help="Messages that the group has not consumed yet.", none="unknown"),
    Column(
        "delay",
        "Time lag",
        Kind.DURATION,
        is_enriched=True,
        help="How long ago the group's next message was stored.",
    ),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)


class TopicConsumers:
    """The page of a topic's consumers."""

    def __init__(self, topics: TopicReader, groups: GroupReads) -> None:
        self._topics = topics
        self._groups = groups

    async def show(self, visit: Visit) -> View:
        """All queues, or the one of `?broker=&queue=`, and the groups that have offsets in the topic or are online."""
        topic = visit.path["topic"]
        if topic not in await self._topics.names():
            raise NotFound("the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic)
        broker, queue = visit.arguments.get("broker", ""), visit.arguments.get("queue", "")
        ends = (await self._topics.statistics(topic)).offset_table
        offsets = await self._topics.group_offsets({topic})
        online = await self._groups.cluster.read(("topic groups", topic), lambda admin: admin.topic_groups(topic))
        stored = offsets.by_topic.get(topic, {})
        if offsets.problems and not stored:
            raise QueryFailed(
                "; ".join(offsets.problems), "Check that the brokers are running and reachable, then reload the page."
            )
        groups = sorted({*stored, *online})
        shown = [
            one
            for one in sorted(ends)
            if (not broker or one.broker_name == broker) and (not queue or str(one.queue_id) == queue)
        ]
        rows = [
            ConsumerRow(
                one.broker_name,
                one.queue_id,
                group,
                offsets.lag(group, one, ends[one]) if group in stored else None,
            )
            for one in shown
            for group in groups
        ]
        data: dict[str, Any] = {"topic": topic, "broker": broker, "queue": queue}
        table = Table(
            "consumers",
            ConsumerRow,
            rows,
            CONSUMER_COLUMNS,
            search=("group", "broker"),
            enrich=lambda some: self._enrich(topic, some),
            empty="No consumer group consumes it.",
        )
        return View("Consumers of the topic", "topics/consumers.html", data, [table], topic, offsets.problems)

    async def _enrich(self, topic: str, rows: Sequence[ConsumerRow]) -> Sequence[ConsumerRow]:
        """Rows with the readers and time lags of their groups: a request for each group, each of its members and each broker."""
        groups = list(dict.fromkeys(row.group for row in rows))
        answers = await self._groups.cluster.map(lambda group: self._state(topic, group), groups)
        states = dict(zip(groups, answers, strict=True))
        enriched: list[ConsumerRow] = []
        for row in rows:
            state = states[row.group]
            if isinstance(state, Exception):
                enriched.append(msgspec.structs.replace(row, problem=str(state)))
                continue
            queue = MessageQueue(topic, row.broker, row.queue)
            delay = 0 if row.lag == 0 else state.delays.get(queue)
            client, problem = state.owners.get(queue), state.problem
            enriched.append(
                msgspec.structs.replace(row, client=client, delay=delay, problem=problem, members=state.members)
            )
        return enriched

    async def _state(self, topic: str, group: str) -> _GroupState:
        """The members that read the topic's queues, and the time lags. Raises HeadraceError if the members cannot be listed."""
        connection = await self._groups.members(group)
        clients = sorted({one.client_id for one in connection.connection_set if one.client_id is not None})
        answers = await self._groups.cluster.map(lambda client: self._groups.running(group, client), clients)
        owners: dict[MessageQueue, str] = {}
        problems: list[str] = []
        for client, answer in zip(clients, answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{client}: {answer}")
            else:
                owners |= dict.fromkeys(answer.mq_table, client)
        delays: Mapping[MessageQueue, int] = {}
        try:
            delays = await self._groups.delays(group, topic)
        except HeadraceError as error:
            problems.append(str(error))
        return _GroupState(owners, delays, "; ".join(problems), len(connection.connection_set))
