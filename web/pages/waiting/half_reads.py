"""HalfReads: the half messages of transactions that are neither committed nor rolled back.

As the brokers' own check does it: a half message is unresolved if no op message names its queue offset. Both queues are read from where the last
check ended, in a bounded number of requests for each queue of the half topic.

A broker creates and registers the half topic at its first check, up to a minute after the first transaction, and refuses pulls from it until then. So before, the
messages are read as op messages always are: by their physical offsets, which the broker's index has.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from headrace import BrokerError, MessageExt, MessageQueue
from headrace.model import properties as property_names
from headrace.model.host import parse_host
from headrace.model.message_id import encode_offset_message_id
from headrace.model.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol.bodies import ProducerTableInfo, QueryConsumeQueueResponseBody
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.messages.message_row import MessageRow, row_of
from web.pages.waiting.waiting_message import whole
from web.routes import Problem

_AT_ONCE: Final = 32
_MOST_HALVES: Final = 640  # limit: half messages of a queue that a page looks at
_MOST_OPS: Final = 256  # limit: the same for messages that cost one request each: op messages, and half messages before the first check
_MOST_PULLS: Final = 80  # limit: of one queue; large messages come in smaller numbers
_OFFSET_DIGITS: Final = 16
"""At the end of an offset message id: the physical offset."""
_REMOVED: Final = "d"


class CheckRules(Struct, frozen=True):
    """How a broker checks half messages, times in ms. RocketMQ's defaults in place of what it does not report."""

    first_after_ms: int = 6_000
    interval_ms: int = 60_000
    most_checks: int = 15


class Half(Struct, frozen=True):
    """One unresolved half message."""

    message: MessageRow
    broker: str
    rules: CheckRules
    is_connected: bool | None
    """Whether its producer group has a connected member; None if unknown."""

    @property
    def checks(self) -> int:
        """How often its producer was asked."""
        return whole(self.message.properties.get(property_names.TRANSACTION_CHECK_TIMES)) or 0

    @property
    def group(self) -> str:
        """The producer group."""
        return self.message.properties.get(property_names.PRODUCER_GROUP, "")

    @property
    def discarded_at(self) -> int:
        """About when the broker discards it, if it stays unresolved."""
        rules = self.rules
        if self.checks:  # it was stored again at its last check
            return self.message.stored_at + max(1, rules.most_checks - self.checks + 1) * rules.interval_ms
        immunity_s = whole(self.message.properties.get(property_names.CHECK_IMMUNITY_TIME_IN_SECONDS))
        first_after_ms = rules.first_after_ms if immunity_s is None else immunity_s * 1_000
        return self.message.born_at + first_after_ms + rules.most_checks * rules.interval_ms


class Halves(Struct, frozen=True):
    """What was found, and what could not be read."""

    halves: Sequence[Half]
    problems: Sequence[str | Problem]


class HalfReads:
    """Reads half messages."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = TopicReader(cluster)
        self._brokers = ClusterReads(cluster)

    async def halves(self) -> Halves:
        """The unresolved half messages of all masters. Raises HeadraceError if the half topic's queues are unknown."""
        masters = await self._topics.masters()
        if TRANSACTION_HALF_TOPIC in await self._topics.names():
            queues = sorted(
                await self._cluster.read(
                    ("queues", TRANSACTION_HALF_TOPIC), lambda admin: admin.subscribe_queues(TRANSACTION_HALF_TOPIC)
                )
            )
            answers = await self._cluster.map(lambda queue: self._of_queue(queue, masters), queues)
        else:
            queues = [MessageQueue(TRANSACTION_HALF_TOPIC, broker, 0) for broker in sorted(masters)]
            answers = await self._cluster.map(
                lambda queue: self._before_the_first_check(queue, masters[queue.broker_name]), queues
            )
        found: list[Half] = []
        problems: list[str | Problem] = []
        for queue, answer in zip(queues, answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(_problem("{broker} (queue {queue} of {topic}): {error}", queue, error=answer))
                continue
            found += answer.halves
            problems += answer.problems
        return Halves(found, problems)

    async def _of_queue(self, queue: MessageQueue, masters: dict[str, str]) -> Halves:
        # order: op messages last, so that what was resolved meanwhile is not shown.
        halves, all_halves = await self._read(queue)
        if not halves:
            return Halves((), ())
        named, all_ops = await self._named(queue, halves[0].offset_id[:-_OFFSET_DIGITS])
        return await self._described(
            queue, masters.get(queue.broker_name), halves, named, all_halves=all_halves, all_ops=all_ops
        )

    async def _before_the_first_check(self, queue: MessageQueue, address: str) -> Halves:
        """The same of a broker that has not registered the half topic. Raises ValueError if it has messages and its address has a host name."""
        halves, all_halves = await self._first(queue, address)
        if not halves:
            return Halves((), ())
        ops, all_ops = await self._first(_op_queue(queue), address)
        named = {offset for op in ops for offset in named_by(op)}
        rows = [row_of(one) for one in halves]
        return await self._described(queue, address, rows, named, all_halves=all_halves, all_ops=all_ops)

    async def _described(
        self,
        queue: MessageQueue,
        address: str | None,
        halves: Sequence[MessageRow],
        named: set[int],
        *,
        all_halves: bool,
        all_ops: bool,
    ) -> Halves:
        """Those of the half messages that are unresolved, with what the broker at the address knows of them."""
        rows = unresolved(halves, named)
        problems: list[Problem] = []
        if not all_halves:
            problems.append(
                _problem(
                    "{broker} (queue {queue} of {topic}): only the oldest {count} half messages were read; later ones are shown after the next checks",
                    queue,
                    count=len(halves),
                )
            )
        if rows and not all_ops:
            problems.append(
                _problem(
                    "{broker} (queue {queue} of {topic}): only {count} op messages were read; some of the transactions shown may be resolved already",
                    queue,
                    count=_MOST_OPS,
                )
            )
        if address is None:
            return Halves([Half(row, queue.broker_name, CheckRules(), None) for row in rows], problems)
        rules, connected = await self._rules(address), await self._connected(address)
        return Halves(
            [Half(row, queue.broker_name, rules, _is_connected(row, connected)) for row in rows],
            problems,
        )

    async def _read(self, queue: MessageQueue) -> tuple[list[MessageRow], bool]:
        """The half messages from where the last check ended, and whether they are all."""
        at = await self._cluster.ask(lambda admin: admin.consumer_offset(TRANSACTION_GROUP, queue)) or 0
        found: list[MessageRow] = []
        for _ in range(_MOST_PULLS):
            result = await self._cluster.ask(
                lambda admin, at=at: admin.read_messages(queue, at, _AT_ONCE)  # type: ignore[misc]
            )
            found += [row_of(one.stored()) for one in result.messages]
            if result.next_offset >= result.max_offset or result.next_offset <= at:
                return found, True
            at = result.next_offset
            if len(found) >= _MOST_HALVES:
                break
        return found, False

    async def _named(self, half_queue: MessageQueue, prefix: str) -> tuple[set[int], bool]:
        """The queue offsets that op messages name, and whether these are all.

        Brokers refuse pulls from the topic of op messages. So each is read by its physical offset, which the broker's index has.
        """
        queue = _op_queue(half_queue)
        begin = await self._cluster.ask(lambda admin: admin.consumer_offset(TRANSACTION_GROUP, queue)) or 0
        end = await self._cluster.ask(lambda admin: admin.max_offset(queue))
        if begin >= end:
            return set(), True
        count = min(end - begin, _MOST_OPS)
        index = await self._cluster.ask(lambda admin: admin.consume_queue(queue, begin, count))
        ops = await self._view(index, prefix)
        return {offset for op in ops for offset in named_by(op)}, begin + len(ops) >= end

    async def _first(self, queue: MessageQueue, address: str) -> tuple[Sequence[MessageExt], bool]:
        """The first messages of a queue whose topic need not be registered, and whether they are all."""
        try:
            index = await self._cluster.ask(lambda admin: admin.consume_queue(queue, 0, _MOST_OPS, broker=address))
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:
                return (), True  # the queue has never had a message
            raise
        prefix = encode_offset_message_id(parse_host(address), 0)[:-_OFFSET_DIGITS]
        found = await self._view(index, prefix)
        return found, len(found) >= index.max_queue_index

    async def _view(self, index: QueryConsumeQueueResponseBody, prefix: str) -> list[MessageExt]:
        """The messages of entries of an index; `prefix` is that of the offset message ids of the broker."""
        ids = [f"{prefix}{entry.physic_offset:0{_OFFSET_DIGITS}X}" for entry in index.queue_data or ()]
        answers = await self._cluster.map(
            lambda one: self._cluster.ask(lambda admin: admin.view_message(one, decompress=False)), ids
        )
        found: list[MessageExt] = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer  # without an op message a resolved message would be shown as one that waits
            found.append(answer)
        return found

    async def _rules(self, address: str) -> CheckRules:
        config, usual = await self._brokers.config(address), CheckRules()
        return CheckRules(
            whole(config.get("transactionTimeOut")) or usual.first_after_ms,
            whole(config.get("transactionCheckInterval")) or usual.interval_ms,
            whole(config.get("transactionCheckMax")) or usual.most_checks,
        )

    async def _connected(self, address: str) -> ProducerTableInfo | None:
        """The connected producers; None if the broker is too old to tell."""
        (answer,) = await self._cluster.map(
            lambda one: self._cluster.read(("producers", one), lambda admin: admin.producers(one)), [address]
        )
        return None if isinstance(answer, Exception) else answer


def named_by(op: MessageExt) -> set[int]:
    """The queue offsets of the half messages that an op message resolves. RocketMQ 5 names several in one."""
    if op.topic != TRANSACTION_OP_HALF_TOPIC or op.tags != _REMOVED:
        return set()
    texts = op.body.decode(errors="replace").split(",")
    return {offset for text in texts if (offset := whole(text)) is not None}


def unresolved(halves: Sequence[MessageRow], named: set[int]) -> list[MessageRow]:
    """The half messages that no op message names. One that was stored again is also resolved under its first queue offset.

    While a check is in progress, a message and its copy are both there: of these only the copy is returned.
    """
    newest = {(row.id, row.born_at): row.queue_offset for row in halves}
    return [
        row
        for row in halves
        if newest[row.id, row.born_at] == row.queue_offset
        and row.queue_offset not in named
        and whole(row.properties.get(property_names.TRANSACTION_PREPARED_QUEUE_OFFSET)) not in named
    ]


def _op_queue(half_queue: MessageQueue) -> MessageQueue:
    return MessageQueue(TRANSACTION_OP_HALF_TOPIC, half_queue.broker_name, half_queue.queue_id)


def _problem(text: str, queue: MessageQueue, **values: Any) -> Problem:
    return Problem(text, {"broker": queue.broker_name, "queue": queue.queue_id, "topic": queue.topic, **values})


def _is_connected(row: MessageRow, connected: ProducerTableInfo | None) -> bool | None:
    if connected is None:
        return None
    return bool(connected.data.get(row.properties.get(property_names.PRODUCER_GROUP, "")))
