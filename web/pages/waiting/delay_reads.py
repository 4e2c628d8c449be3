"""DelayReads: what brokers report about delay levels and timers. Three requests for each master, and two for each level with waiting messages."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from headrace import BrokerError, MessageQueue
from headrace.model.delay_level import parse_delay_levels
from headrace.model.names import SCHEDULE_TOPIC
from headrace.protocol.bodies.stats import TopicOffset
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.cluster.runtime_figures import RuntimeFigures
from web.cluster.topic_reader import TopicReader
from web.errors import NotFound, QueryFailed
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.waiting.waiting_message import whole
from web.routes import Problem

_OFFSET: Final = "scheduleMessageOffset_"
_WAITING_TIMERS: Final = "timerCongestNum"
_LONGEST_S: Final = 3 * 86_400
"""The default of timerMaxDelaySec."""


class LevelRow(msgspec.Struct, frozen=True):
    """One delay level of one broker."""

    broker: str
    level: int
    delay: int
    """Milliseconds."""
    waiting: int
    delivered: int
    """How many messages of the level were ever delivered: the offset in its queue."""
    next_due: int | None = None
    last_due: int | None = None
    problem: str = ""


class TimerRow(msgspec.Struct, frozen=True):
    """The timer messages of one broker."""

    broker: str
    waiting: int | None
    """None: the broker does not support timers."""


class Delays(Struct, frozen=True):
    """What waits at all masters, and what could not be read."""

    levels: Sequence[LevelRow]
    timers: Sequence[TimerRow]
    problems: Sequence[str | Problem]


class DelayReads:
    """Reads delays."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._brokers = ClusterReads(cluster)
        self._topics = TopicReader(cluster)

    async def delays(self) -> Delays:
        """The levels and timers of all masters. Raises HeadraceError, QueryFailed if no master answers."""
        masters = await self._topics.masters()
        answers = await self._cluster.map(self._read, masters.items())
        levels: list[LevelRow] = []
        timers: list[TimerRow] = []
        problems: list[str | Problem] = []
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
                continue
            of_broker, timer = answer
            levels += of_broker
            timers.append(timer)
            if not of_broker:
                text = "{broker} ({address}): the broker does not report its delay levels (messageDelayLevel)"
                problems.append(Problem(text, {"broker": broker, "address": address}))
        if not timers:
            raise QueryFailed(
                "; ".join(map(str, problems)), "Check that the brokers are running and reachable, then reload the page."
            )
        return Delays(levels, timers, problems)

    async def level(self, broker: str, level: int) -> LevelRow:
        """One level of the master of a broker name. Raises HeadraceError, NotFound."""
        master = await self._brokers.master(broker)
        rows, _ = await self._read((broker, master.address))
        for row in rows:
            if row.level == level:
                return row
        raise NotFound(
            "the broker {broker} has no delay level {level}", "Choose one from the list.", broker=broker, level=level
        )

    async def longest_timer_ms(self) -> int:
        """How long a timer message may wait at any master. Raises HeadraceError."""
        masters = await self._topics.masters()
        answers = await self._cluster.map(self._brokers.config, masters.values())
        configs = [answer for answer in answers if not isinstance(answer, Exception)]
        return 1_000 * max(whole(one.get("timerMaxDelaySec")) or _LONGEST_S for one in configs or [{}])

    async def add_times(self, rows: Sequence[LevelRow]) -> Sequence[LevelRow]:
        """When the first and the last waiting message of each level is due, from the broker's index."""
        answers = await self._cluster.map(self._times, rows)
        return [
            msgspec.structs.replace(row, problem=str(answer))
            if isinstance(answer, Exception)
            else msgspec.structs.replace(row, next_due=answer[0], last_due=answer[1])
            for row, answer in zip(rows, answers, strict=True)
        ]

    async def _read(self, master: tuple[str, str]) -> tuple[list[LevelRow], TimerRow]:
        broker, address = master
        runtime = await self._brokers.runtime(address)
        config = await self._brokers.config(address)
        timer = TimerRow(broker, RuntimeFigures(runtime).count(_WAITING_TIMERS))
        return levels_of(broker, config.get("messageDelayLevel", ""), runtime, await self._queues(address)), timer

    async def _queues(self, address: str) -> dict[int, TopicOffset]:
        """The bounds of the queue of each level; empty at a broker that has not stored a delayed message yet."""
        try:
            stats = await self._cluster.read(
                ("topic stats", SCHEDULE_TOPIC, address),
                lambda admin: admin.topic_stats(SCHEDULE_TOPIC, broker=address),
            )
        except BrokerError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return {}
        return {queue.queue_id: offset for queue, offset in stats.offset_table.items()}

    async def _times(self, row: LevelRow) -> tuple[int | None, int | None]:
        if not row.waiting:
            return None, None
        return await self._due(row, row.delivered), await self._due(row, row.delivered + row.waiting - 1)

    async def _due(self, row: LevelRow, offset: int) -> int | None:
        queue = MessageQueue(SCHEDULE_TOPIC, row.broker, row.level - 1)
        found = await self._cluster.read(("due", queue, offset), lambda admin: admin.consume_queue(queue, offset, 1))
        # The index of this topic has delivery times in place of tags. Without an entry the message was just delivered.
        return found.queue_data[0].tags_code if found.queue_data else None


def levels_of(
    broker: str, level_text: str, runtime: Mapping[str, str], queues: Mapping[int, TopicOffset]
) -> list[LevelRow]:
    """A row for each level of the broker's `messageDelayLevel`.

    How far a level is delivered is in the runtime information as `scheduleMessageOffset_3: 17,20`, if anything ever was.
    """
    try:
        delays_ms = parse_delay_levels(level_text)
    except ValueError:
        return []
    rows = []
    for level, delay_ms in enumerate(delays_ms, 1):
        reported = whole(runtime.get(f"{_OFFSET}{level}", "").partition(",")[0].strip()) or 0
        bounds = queues.get(level - 1, TopicOffset())
        delivered = max(reported, bounds.min_offset)
        rows.append(LevelRow(broker, level, delay_ms, max(0, bounds.max_offset - delivered), delivered))
    return rows
