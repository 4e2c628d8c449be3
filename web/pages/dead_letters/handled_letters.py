"""HandledLetters: marks dead letters as handled, counts them in samples, and drops the marks of letters that are gone."""

import asyncio
import logging
import sqlite3
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from headrace import MessageExt, MessageQueue
from headrace.model.host import format_host
from headrace.model.message_id import decode_offset_message_id
from headrace.model.names import dlq_topic
from web.cluster.cluster import Cluster
from web.pages.dead_letters.handled_book import HandledBook, Mark
from web.pages.dead_letters.letter_queues import LetterRange
from web.sampling.sample import BrokerSample, Sample

_DROP_EVERY_S: Final = 60.0

FindMark = Callable[[str, int, int], Mark | None]
"""Finds the mark of a letter by its offset message id, queue and offset."""

logger = logging.getLogger(__name__)


class HandledLetters:
    """The marks of a console."""

    def __init__(self, cluster: Cluster, book: HandledBook) -> None:
        self._cluster = cluster
        self._book = book
        self._drop_due_s = 0.0
        self._dropping: asyncio.Task[None] | None = None

    async def mark(
        self, group: str, ranges: Sequence[LetterRange], user: str, note: str, at_ms: int | None = None
    ) -> int:
        """Marks letters that are not marked yet; returns how many."""
        at_ms = int(time.time() * 1000) if at_ms is None else at_ms
        return await asyncio.to_thread(self._book.mark, group, ranges, at_ms, user, note)

    async def unmark(self, group: str, ranges: Sequence[LetterRange]) -> int:
        """Removes the marks of letters; returns how many were marked."""
        return await asyncio.to_thread(self._book.unmark, group, ranges)

    async def range_of(self, message: MessageExt) -> LetterRange | None:
        """The place of one letter; None if its broker is unknown, such as one that has another address now. Raises HeadraceError."""
        broker = (await self._names()).get(_address(message.offset_message_id))
        if broker is None:
            return None
        queue = MessageQueue(message.topic, broker, message.queue_id)
        return LetterRange(queue, message.queue_offset, message.queue_offset + 1)

    async def finder(self, group: str) -> FindMark:
        """Finds the marks of a group's letters. Raises HeadraceError."""
        names = await self._names()
        by_queue: defaultdict[tuple[str, int], list[Mark]] = defaultdict(list)
        for mark in await asyncio.to_thread(self._book.marks, group):
            by_queue[mark.broker, mark.queue].append(mark)

        def find(offset_id: str, queue: int, offset: int) -> Mark | None:
            marks = by_queue.get((names.get(_address(offset_id), ""), queue), ())
            at = bisect_right(marks, offset, key=lambda mark: mark.begin) - 1
            return marks[at] if at >= 0 and offset < marks[at].end else None

        return find

    async def count(self, group: str, ranges: Sequence[LetterRange]) -> int:
        """How many letters of the ranges are marked."""
        marks = await asyncio.to_thread(self._book.marks, group)
        return sum(
            _overlap(mark, one.begin, one.end)
            for one in ranges
            for mark in marks
            if (mark.broker, mark.queue) == (one.queue.broker_name, one.queue.queue_id)
        )

    async def count_in(self, brokers: Iterable[BrokerSample]) -> Mapping[str, int]:
        """By group: how many of the stored dead letters in a sample are marked."""
        queues = {(one.group, broker.name, one.queue): one for broker in brokers for one in broker.dead_letter_queues}
        counts: Counter[str] = Counter()
        for mark in await asyncio.to_thread(self._book.marks):
            queue = queues.get((mark.group, mark.broker, mark.queue))
            if queue is not None:
                counts[mark.group] += _overlap(mark, queue.begin, queue.end)
        return counts

    def follow(self, sample: Sample, _values: Mapping[str, float]) -> None:
        """Drops the marks of letters that a sample shows to be gone, beside the caller."""
        if sample.time_s >= self._drop_due_s:
            self._drop_due_s = sample.time_s + _DROP_EVERY_S
            self._dropping = asyncio.create_task(asyncio.to_thread(self._drop, sample))

    def _drop(self, sample: Sample) -> None:
        try:
            gone = [mark for mark in self._book.marks() if is_gone(mark, sample)]
            if gone:
                self._book.drop(gone)
        except sqlite3.Error as error:
            logger.error("marks of deleted dead letters not dropped error=%r", str(error))

    async def _names(self) -> dict[str, str]:
        """The names of the brokers by address."""
        info = await self._cluster.read(("cluster info",), lambda admin: admin.cluster_info())
        return {
            address: name for name, data in info.broker_addr_table.items() for address in data.broker_addrs.values()
        }


def is_gone(mark: Mark, sample: Sample) -> bool:
    """Whether the letters of a mark are deleted. A topic that was created again begins at offset 0: its marks are of letters before that."""
    for broker in sample.brokers:
        if broker.name != mark.broker or not broker.is_master or broker.problem is not None:
            continue
        if dlq_topic(mark.group) not in broker.topics:
            return mark.at_ms < sample.time_s * 1000
        for one in broker.dead_letter_queues:
            if (one.group, one.queue) == (mark.group, mark.queue):
                return mark.end <= one.begin or (mark.end > one.end and mark.at_ms < one.read_s * 1000)
    return False


def _overlap(mark: Mark, begin: int, end: int) -> int:
    return max(0, min(mark.end, end) - max(mark.begin, begin))


def _address(offset_id: str) -> str:
    try:
        return format_host(decode_offset_message_id(offset_id)[0])
    except ValueError:
        return ""
