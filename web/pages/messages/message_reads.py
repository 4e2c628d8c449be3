"""MessageReads: what pages about messages read of the cluster."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from headrace import Admin, BrokerError, MessageExt, MessageQueue, RouteNotFound
from headrace.model.host import format_host
from headrace.model.message_id import decode_offset_message_id
from headrace.model.names import dlq_topic, retry_topic
from headrace.model.properties import RETRY_TOPIC
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.cluster.topic_kinds import DEAD_LETTER, NORMAL, RETRY, topic_kind
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.messages.message_row import MessageRow, row_of
from web.pages.messages.time_scan import PAGE, Pulled, ScannedPage, merge, read_range
from web.sampling.sampler import Sampler

MOST_BY_KEY: Final = 64
"""RocketMQ's brokers return at most as many."""
MOST_SEARCHED: Final = 200  # limit: topics of one search, a request to each of their brokers: a page has 8 s
_MOST_ID: Final = 200
_MOST_PULLED: Final = 32
_MOST_BROKERS: Final = 64
_MOST_SCANNED: Final = 5_000  # limit: messages that one search scans for a tag or a property
_SCAN_S: Final = 3.0  # limit: how long it scans; the page's deadline is longer
_FOREVER: Final = (1 << 63) - 1


class FilteredPage(Struct, frozen=True):
    """The matching messages of a scan, and the offset of each queue at which it continues; None: it has reached the end."""

    rows: Sequence[MessageRow]
    next_offsets: Sequence[int] | None
    scanned: int
    """How many messages were compared."""
    until: int = 0
    """When the last one of them was stored, ms; 0: there was none."""


class FoundAnywhere(Struct, frozen=True):
    """What was found in many topics."""

    rows: Sequence[MessageRow]
    searched: int
    topics: int
    """How many there are to search."""


class MessageReads:
    """Finds messages as they are stored: bodies may be compressed, `bodies.body_of` reads them. Every call raises HeadraceError."""

    def __init__(self, cluster: Cluster, sampler: Sampler | None = None) -> None:
        """`sampler` has the traffic of topics: of too many those with the most messages are searched."""
        self.cluster = cluster
        self._sampler = sampler

    async def by_id(self, message_id: str, topic: str = "") -> MessageExt:
        """The message as stored, with an offset message id or a unique id; without a topic many topics are searched. Raises NotFound, QueryFailed."""
        if not message_id or len(message_id) > _MOST_ID:
            raise Invalid(
                "the message id is missing or too long", "Enter a message id, such as one that a producer logged."
            )
        if await self._is_at_a_broker(message_id):
            return await self.cluster.ask(lambda admin: _viewed(admin, message_id))
        if topic:
            found = await self._by_unique_id(topic, message_id)
            if found is None:
                raise NotFound(
                    "the topic {topic} has no message with the id {message_id}",
                    _DELETED,
                    topic=topic,
                    message_id=message_id,
                )
            return found
        return await self._in_any_topic(message_id)

    async def has_copy(self, topic: str, message: MessageExt) -> bool:
        """Whether the topic has a message with the same unique id: in a group's own topics, a retry or a dead letter of it."""
        return await self._by_unique_id(topic, message.message_id) is not None

    async def by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> list[MessageRow]:
        """The messages stored in a topic with a key, oldest first; of many the newest."""
        found = await self.cluster.ask(
            lambda admin: admin.query_messages(
                topic, key, MOST_BY_KEY * _MOST_BROKERS, begin_ms, end_ms, decompress=False
            )
        )
        return [row_of(message) for message in found]

    async def by_key_with_copies(self, topic: str, key: str, begin_ms: int, end_ms: int) -> list[MessageRow]:
        """As `by_key`, and the topic's messages with the key among the retries and dead letters of the groups that consume it."""
        groups, topics = await asyncio.gather(
            self.cluster.read(("topic groups", topic), lambda admin: admin.topic_groups(topic)),
            self.cluster.read(("topics",), lambda admin: admin.topics()),
        )
        own = {name for group in groups for name in (dlq_topic(group), retry_topic(group))} - {topic}
        copies = sorted(own.intersection(topics))[:MOST_SEARCHED]
        lists = [await self.by_key(topic, key, begin_ms, end_ms), *await self._by_key_in(copies, key, begin_ms, end_ms)]
        return [row for row in _whole(lists) if row.topic == topic or row.properties.get(RETRY_TOPIC) == topic]

    async def to_search(self) -> tuple[list[str], int]:
        """The topics in which a message is searched that may be in any, and how many there are: normal ones, then those of dead letters and retries.

        Of too many normal ones those with the most messages, if they are known.
        """
        topics = await self.cluster.read(("topics",), lambda admin: admin.topics())
        normal = [topic for topic in topics if topic_kind(topic) == NORMAL]
        if len(normal) > MOST_SEARCHED and self._sampler is not None:
            sample = await self._sampler.for_page()
            messages: Counter[str] = Counter()
            for broker in () if sample is None else sample.brokers:
                messages.update(broker.messages_by_topic())
            normal.sort(key=lambda topic: -messages[topic])
        copies = [topic for kind in (DEAD_LETTER, RETRY) for topic in topics if topic_kind(topic) == kind]
        return [*normal, *copies][:MOST_SEARCHED], len(normal) + len(copies)

    async def by_key_anywhere(self, key: str, begin_ms: int, end_ms: int) -> FoundAnywhere:
        """The messages with a key in the topics `to_search`, oldest first; of many the newest."""
        searched, count = await self.to_search()
        return FoundAnywhere(_whole(await self._by_key_in(searched, key, begin_ms, end_ms)), len(searched), count)

    async def _by_key_in(self, topics: Sequence[str], key: str, begin_ms: int, end_ms: int) -> list[list[MessageRow]]:
        """`by_key` of each topic. Raises QueryFailed too."""
        answers = await self.cluster.map(lambda topic: self.by_key(topic, key, begin_ms, end_ms), topics)
        _check_searched(topics, answers)
        return [answer for answer in answers if not isinstance(answer, Exception)]

    async def by_time(self, topic: str, begin_ms: int, end_ms: int, offsets: list[int] | None) -> ScannedPage:
        """A page of a topic's messages, oldest first; `offsets` are those of the page before."""
        queues = sorted(await self.cluster.read(("queues", topic), lambda admin: admin.subscribe_queues(topic)))
        if not queues:
            raise Invalid(
                "the topic {topic} has no readable queue",
                "Enable read permission for the topic: 6 (read and write) or 4 (read only).",
                topic=topic,
            )
        if offsets is not None and len(offsets) != len(queues):
            raise Invalid("the number of queues has changed", "Search again from the beginning.")
        starts: list[int | Exception] = (
            list(offsets)
            if offsets is not None
            else await self.cluster.map(lambda queue: self._offset_at(queue, begin_ms), queues)
        )
        ranges = []
        pairs = [
            (queue, start) for queue, start in zip(queues, starts, strict=True) if not isinstance(start, Exception)
        ]
        for problem in (start for start in starts if isinstance(start, Exception)):
            raise problem
        answers = await self.cluster.map(
            lambda pair: read_range(lambda at, count: self._pull(pair[0], at, count), pair[1], begin_ms, end_ms), pairs
        )
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer  # a queue that is left out would look like one without messages
            ranges.append(answer)
        return merge(ranges)

    async def by_time_where(
        self,
        topic: str,
        begin_ms: int,
        end_ms: int,
        offsets: list[int] | None,
        matches: Callable[[MessageRow], bool],
    ) -> FilteredPage:
        """As `by_time`, but only messages that match. Scans until it has a page of them, or as many as a user waits for."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _SCAN_S
        rows: list[MessageRow] = []
        scanned = until = 0
        while True:
            page = await self.by_time(topic, begin_ms, end_ms, offsets)
            scanned += len(page.rows)
            rows += filter(matches, page.rows)
            until = page.rows[-1].stored_at if page.rows else until
            if page.next_offsets is None:
                return FilteredPage(rows, None, scanned, until)
            offsets = list(page.next_offsets)
            if len(rows) >= PAGE or scanned >= _MOST_SCANNED or loop.time() >= deadline_s:
                return FilteredPage(rows, offsets, scanned, until)

    async def from_offset(self, queue: MessageQueue, offset: int) -> tuple[Sequence[MessageRow], int | None]:
        """A page of the messages of one queue, and the offset at which the next one starts; None: it is the last one."""
        found = await read_range(lambda at, count: self._pull(queue, at, count), offset, 0, _FOREVER)
        if found.is_finished:
            return found.rows, None
        return found.rows, found.rows[-1].queue_offset + 1 if found.rows else found.begin

    async def _offset_at(self, queue: MessageQueue, moment: int) -> int:
        return await self.cluster.read(("offset at", queue, moment), lambda admin: admin.search_offset(queue, moment))

    async def _pull(self, queue: MessageQueue, offset: int, count: int) -> Pulled:
        result = await self.cluster.ask(lambda admin: admin.read_messages(queue, offset, min(_MOST_PULLED, count)))
        return Pulled([row_of(message.stored()) for message in result.messages], result.next_offset, result.max_offset)

    async def _is_at_a_broker(self, message_id: str) -> bool:
        """Whether it is an offset message id of a broker of this cluster: no other address is ever connected to."""
        try:
            host, _ = decode_offset_message_id(message_id)
        except ValueError:
            return False
        info = await self.cluster.read(("cluster info",), lambda admin: admin.cluster_info())
        known = {address for broker in info.broker_addr_table.values() for address in broker.broker_addrs.values()}
        return format_host(host) in known

    async def _by_unique_id(self, topic: str, message_id: str) -> MessageExt | None:
        return await self.cluster.ask(lambda admin: admin.query_by_unique_id(topic, message_id, decompress=False))

    async def _in_any_topic(self, message_id: str) -> MessageExt:
        """In the topics `to_search`. Retries and dead letters are copies, which may be there when the message itself was deleted."""
        searched, count = await self.to_search()
        answers = await self.cluster.map(lambda topic: self._by_unique_id(topic, message_id), searched)
        found = [answer for answer in answers if isinstance(answer, MessageExt)]
        if found:
            return min(found, key=lambda message: message.store_timestamp)
        _check_searched(searched, answers)
        if len(searched) < count:
            raise NotFound(
                "{searched} of {count} topics were searched, and none has a message with the id {message_id}",
                "The other topics were not searched. Search by id on the page Find messages and enter the topic.",
                searched=len(searched),
                count=count,
                message_id=message_id,
            )
        raise NotFound(
            "none of the {count} topics has a message with the id {message_id}",
            "System topics are searched only if you enter the topic. " + _DELETED,
            count=count,
            message_id=message_id,
        )


def _whole(lists: Sequence[Sequence[MessageRow]]) -> list[MessageRow]:
    """The messages of several topics, oldest first. Of a topic with many only the newest are known: messages before them are left out, of whatever topic."""
    begin = max((rows[0].stored_at for rows in lists if len(rows) >= MOST_BY_KEY // 2), default=0)
    return sorted((row for rows in lists for row in rows if row.stored_at >= begin), key=lambda row: row.stored_at)


def _check_searched(searched: Sequence[str], answers: Sequence[object]) -> None:
    """Raises QueryFailed if a topic could not be searched. One that was deleted meanwhile has no messages."""
    failures = [one for one in answers if isinstance(one, Exception) and not isinstance(one, RouteNotFound)]
    if failures:
        raise QueryFailed(
            "{count} of {searched} topics could not be searched: {failure}",
            "Enter the topic, or check that the brokers are running and reachable.",
            count=len(failures),
            searched=len(searched),
            failure=failures[0],
        )


async def _viewed(admin: Admin, message_id: str) -> MessageExt:
    try:
        return await admin.view_message(message_id, decompress=False)
    except BrokerError as error:
        if error.code in {ResponseCode.NO_MESSAGE, ResponseCode.SYSTEM_ERROR}:
            raise NotFound(
                "the broker has no message with the id {message_id}: {error}",
                _DELETED,
                message_id=message_id,
                error=error,
            ) from error
        raise


_DELETED: Final = "Messages are deleted after the retention time (fileReservedTime)."
