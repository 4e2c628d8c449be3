"""BrokerReader: one broker's part of a sample, in a handful of requests, whatever the number of topics and groups.

What takes a request for each group or topic is bounded (time lags: `time_lags`), or read less often and by few requests at a time (connections, dead letters).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from headrace import Admin
from headrace.errors import BrokerError, HeadraceError
from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumeStatsList
from headrace.protocol.response_code import ResponseCode
from headrace.protocol.version import version_text
from web.sampling.paced import Paced
from web.sampling.sample import BrokerSample, ClientKind, DeadLetterQueue, Member, Progress, Traffic
from web.sampling.time_lags import TimeLags, Waiting, delay_of

T = TypeVar("T")

PROGRESS_EVERY_S: Final = 9.0
DETAILS_EVERY_S: Final = 60.0
_AT_ONCE: Final = 4  # limit: requests in progress at one broker
_MOST_MEMBERS: Final = 20_000  # limit: clients whose ids are kept, about 200 bytes each
_TOPIC_EVENTS: Final = {
    "rocketmq_commit_messages": "TRANSACTION_COMMIT_NUMS",
    "rocketmq_rollback_messages": "TRANSACTION_ROLLBACK_NUMS",
    "rocketmq_timer_enqueue": "TIMER_ENQUEUE_NUMS",
    "rocketmq_timer_dequeue": "TIMER_DEQUEUE_NUMS",
}
"""The set of statistics of each metric."""
_MOST_DETAILS: Final = 1_000  # limit: groups whose connections, and whose dead letters, are read


class _Clients(Struct, frozen=True):
    counts: Counter[ClientKind] = field(default_factory=Counter)
    members: list[Member] = field(default_factory=list)


class BrokerReader:
    """Reads one broker. Keeps what it read before."""

    def __init__(self, admin: Admin, cluster: str, name: str, broker_id: int, address: str) -> None:
        self._admin = admin
        self._who = (cluster, name, broker_id, address)
        self._address = address
        self._name = name
        self._is_master = broker_id == names.MASTER_ID
        self._progress: Paced[tuple[Progress, ...]] = Paced(PROGRESS_EVERY_S)
        self._consumers: Paced[_Clients] = Paced(DETAILS_EVERY_S)
        self._new_retries: Paced[tuple[Progress, ...]] = Paced(DETAILS_EVERY_S)
        self._dead_letters: Paced[Mapping[str, list[DeadLetterQueue]]] = Paced(DETAILS_EVERY_S)
        self._half_messages: Paced[int | None] = Paced(DETAILS_EVERY_S)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._time_lags = TimeLags(self._read_time_lag)

    async def read(self) -> BrokerSample:
        """The broker's sample. Raises HeadraceError."""
        admin, address = self._admin, self._address
        runtime = await admin.runtime_info(address)
        if not self._is_master:
            return BrokerSample(*self._who, runtime=runtime)
        config = await admin.broker_config(address)
        topics = frozenset(await admin.topic_configs(address))
        groups = frozenset(await admin.group_configs(address))
        progress = await self._progress.get(self._read_progress)
        known = {one.topic for one in progress}
        retries = await self._new_retries.get(lambda: self._read_new_retries(topics - known, groups))
        progress = (*progress, *(one for one in retries if one.topic not in known))
        producers = await self._read_producers()
        dead_letters = await self._dead_letters.get(lambda: self._read_dead_letters(topics))
        consumers = await self._consumers.get(lambda: self._read_consumers(one.group for one in progress))
        topic_in = await self._read_traffic("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", str, topics.__contains__)
        return BrokerSample(
            *self._who,
            runtime=runtime,
            permission=_number(config.get("brokerPermission")),
            topics=topics,
            groups=groups,
            topic_in=topic_in,
            group_out=await self._read_traffic(
                "GROUP_GET_NUMS", "GROUP_GET_SIZE", _topic_and_group, lambda key: key[0] in topics
            ),
            progress=progress,
            producers=producers.counts,
            consumers=consumers.counts,
            members=(*producers.members, *consumers.members),
            dead_letters={group: sum(one.end for one in queues) for group, queues in dead_letters.items()},
            stored_dead_letters={
                group: sum(one.end - one.begin for one in queues) for group, queues in dead_letters.items()
            },
            dead_letter_queues=tuple(one for queues in dead_letters.values() for one in queues),
            topic_events={} if topic_in is None else await self._read_topic_events(topics),
            half_messages=await self._half_messages.get(lambda: self._read_half_messages(topics)),
        )

    async def _read_progress(self) -> tuple[Progress, ...]:
        found = list(_progress(await self._admin.broker_consume_stats(self._address)))
        idle = [(one.topic, one.group) for one, _ in found if not one.lag]
        waiting = [Waiting((one.topic, one.group), consumed_ms) for one, consumed_ms in found if one.lag]
        lags_ms = await self._time_lags.read(idle, waiting)
        return tuple(replace(one, lag_ms=lags_ms[one.topic, one.group]) for one, _ in found)

    async def _read_new_retries(self, topics: frozenset[str], groups: frozenset[str]) -> tuple[Progress, ...]:
        """What waits in retry topics in which the group has no offset, such as resent dead letters: brokers do not report them as its progress."""
        wanted = sorted(topics.intersection(map(names.retry_topic, groups)))[:_MOST_DETAILS]
        counts = await self._each(self._count, wanted)
        found = {topic: count for topic, count in zip(wanted, counts, strict=True) if count is not None and count[1]}
        lags_ms = await asyncio.gather(*map(self._read_retry_lag, found))
        return tuple(
            Progress(topic.removeprefix(names.RETRY_PREFIX), topic, stored, lag_ms, 0.0, end)
            for (topic, (end, stored)), lag_ms in zip(found.items(), lags_ms, strict=True)
        )

    async def _read_retry_lag(self, topic: str) -> int | None:
        try:
            return await self._read_time_lag(topic, topic.removeprefix(names.RETRY_PREFIX))
        except HeadraceError:
            return None

    async def _read_time_lag(self, topic: str, group: str) -> int:
        async with self._room:
            spans = await self._admin.consume_time_span(topic, group, broker=self._address)
        return max(map(delay_of, spans), default=0)

    async def _read_traffic(
        self, messages_set: str, size_set: str, key_of: Callable[[str], T], exists: Callable[[T], bool]
    ) -> dict[T, Traffic] | None:
        """Totals by key, without deleted topics; None if the broker does not report totals."""
        try:
            messages = await self._admin.broker_stats_totals(self._address, messages_set)
            sizes = await self._admin.broker_stats_totals(self._address, size_set)
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            return None
        return {
            key: Traffic(count, sizes.get(text, 0)) for text, count in messages.items() if exists(key := key_of(text))
        }

    async def _read_topic_events(self, topics: frozenset[str]) -> dict[str, dict[str, int]]:
        events = {}
        for metric, name in _TOPIC_EVENTS.items():
            totals = await self._admin.broker_stats_totals(self._address, name)
            events[metric] = {topic: count for topic, count in totals.items() if topic in topics}
        return events

    async def _read_producers(self) -> "_Clients":
        producers = await self._admin.producers(self._address)
        found = [(group, one) for group, connections in producers.data.items() for one in connections]
        return _Clients(
            Counter(ClientKind(group, one.language.name, version_text(one.version)) for group, one in found),
            [Member(group, one.client_id or "", one.remote_ip or "", is_producer=True) for group, one in found],
        )

    async def _read_consumers(self, groups: Iterable[str]) -> "_Clients":
        async def read(group: str) -> _Clients:
            try:
                found = await self._admin.consumer_connection(group, broker=self._address)
            except BrokerError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return _Clients()
            mode = (
                "PULL" if found.consume_type is not None and found.consume_type.name == "CONSUME_ACTIVELY" else "PUSH"
            )
            return _Clients(
                Counter(
                    ClientKind(group, one.language.name, version_text(one.version), mode)
                    for one in found.connection_set
                ),
                [Member(group, one.client_id or "", one.client_addr or "") for one in found.connection_set],
            )

        wanted = sorted(group for group in set(groups) if not names.is_system_group(group))
        clients = _Clients()
        for one in await self._each(read, wanted):
            clients.counts.update(one.counts)
            clients.members.extend(one.members[: max(0, _MOST_MEMBERS - len(clients.members))])
        return clients

    async def _read_dead_letters(self, topics: frozenset[str]) -> Mapping[str, list[DeadLetterQueue]]:
        """By group: the queues of its dead-letter topic."""
        wanted = sorted(topic for topic in topics if topic.startswith(names.DLQ_PREFIX))[:_MOST_DETAILS]
        read_s = time.time()
        found = {}
        for topic, queues in zip(wanted, await self._each(self._bounds, wanted), strict=True):
            if queues is not None:
                group = topic.removeprefix(names.DLQ_PREFIX)
                found[group] = [DeadLetterQueue(group, queue, *bounds, read_s) for queue, bounds in queues.items()]
        return found

    async def _read_half_messages(self, topics: frozenset[str]) -> int | None:
        """Half messages that have not been checked off, less the op messages that have not been checked off: each resolves one."""
        if names.TRANSACTION_HALF_TOPIC not in topics:
            return 0
        try:
            return await self._count_half_messages()
        except HeadraceError:
            return None  # such as a topic that is not registered yet

    async def _count_half_messages(self) -> int:
        # By its route, from which the client knows the broker's address: the topic of op messages has none.
        stats = await self._admin.topic_stats(names.TRANSACTION_HALF_TOPIC)
        halves = {queue: one for queue, one in stats.offset_table.items() if queue.broker_name == self._name}
        offsets = (await self._admin.consumer_offsets(self._address)).get(names.TRANSACTION_GROUP, {})
        pending = sum(one.max_offset for one in halves.values())
        for queue in halves:
            # Brokers have no statistics of the topic of op messages, because it is not among their topics.
            op_queue = MessageQueue(names.TRANSACTION_OP_HALF_TOPIC, self._name, queue.queue_id)
            pending -= await self._admin.max_offset(op_queue)
        checked = sum(offsets.get(names.TRANSACTION_HALF_TOPIC, {}).values())
        resolved = sum(offsets.get(names.TRANSACTION_OP_HALF_TOPIC, {}).values())
        return max(pending - checked + resolved, 0)

    async def _count(self, topic: str) -> tuple[int, int] | None:
        """How many messages the topic has ever had at this broker, and how many are stored; None if unknown."""
        queues = await self._bounds(topic)
        if queues is None:
            return None
        return sum(end for _, end in queues.values()), sum(end - begin for begin, end in queues.values())

    async def _bounds(self, topic: str) -> dict[int, tuple[int, int]] | None:
        """The offsets that are stored of each queue of the topic at this broker, the last one not included; None if unknown."""
        try:
            stats = await self._admin.topic_stats(topic, broker=self._address)
        except HeadraceError:
            return None  # deleted meanwhile
        return {queue.queue_id: (one.min_offset, one.max_offset) for queue, one in stats.offset_table.items()}

    async def _each(self, read: Callable[[str], Awaitable[T]], keys: list[str]) -> list[T]:
        async def one(key: str) -> T:
            async with self._room:
                return await read(key)

        return await asyncio.gather(*map(one, keys[:_MOST_DETAILS]))


def _progress(stats: ConsumeStatsList) -> Iterable[tuple[Progress, int]]:
    """The progress of each group in each topic, without its time lag, and `Waiting.consumed_ms`."""
    for by_group in stats.consume_stats_list:
        for group, parts in by_group.items():
            for part in parts:
                by_topic: dict[str, list[tuple[int, int, int]]] = {}
                for queue, one in part.offset_table.items():
                    lag = max(one.broker_offset - one.consumer_offset, 0)
                    by_topic.setdefault(queue.topic, []).append((lag, one.last_timestamp, one.broker_offset))
                for topic, queues in by_topic.items():
                    consumed_ms = min((max(last, 0) for lag, last, _ in queues if lag), default=0)
                    total, end = sum(lag for lag, _, _ in queues), sum(end for _, _, end in queues)
                    yield Progress(group, topic, total, None, part.consume_tps, end), consumed_ms


def _topic_and_group(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else None
