"""TailMessages: the newest messages of a topic for live tails, read once for all who watch it.

Viewers share the ends of the queues for `round_s`. So they want the same messages, and whoever is first pulls them for all.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace import MessageQueue
from web.cluster.cluster import Cluster
from web.pages.messages.message_row import row_of
from web.pages.messages.message_search import message_path


class TailRow(msgspec.Struct, frozen=True):
    """A message of the tail."""

    id: str
    path: str
    """Its page."""
    stored_at: int
    queue: int
    offset: int
    tag: str
    keys: list[str]
    size: int
    body: str
    """The beginning."""


class TailMessage(NamedTuple):
    """A message as viewers get it. `text`: the JSON of a TailRow."""

    stored_at: int
    offset: int
    text: str


class Pulled(NamedTuple):
    """Messages of a queue, and the offset from which to read on."""

    messages: Sequence[TailMessage]
    next_offset: int


class _Pull(Struct, frozen=True):
    begin: int
    end: int
    pulled: asyncio.Task[Pulled]

    def has(self, begin: int, end: int) -> bool:
        """Whether it has messages between two offsets from the first on, or may have when it is answered."""
        if not self.begin <= begin <= end <= self.end:
            return False
        if not self.pulled.done():
            return True
        has_failed = self.pulled.cancelled() or self.pulled.exception() is not None
        return not has_failed and begin < self.pulled.result().next_offset


class TailMessages:
    """Those of one topic."""

    def __init__(self, cluster: Cluster, topic: str, round_s: float) -> None:
        self._cluster = cluster
        self._topic = topic
        self._fresh_s = 0.9 * round_s
        self._pulls: dict[MessageQueue, _Pull] = {}
        """The last one of each queue."""

    async def ends(self) -> dict[MessageQueue, int]:
        """The ends of the queues. Raises HeadraceError."""
        key = ("topic ends", self._topic)
        stats = await self._cluster.read(key, lambda admin: admin.topic_stats(self._topic), self._fresh_s)
        return {queue: one.max_offset for queue, one in stats.offset_table.items()}

    async def between(self, queue: MessageQueue, begin: int, end: int) -> Pulled:
        """The messages between two offsets, which a broker may answer in parts. Raises HeadraceError."""
        known = self._pulls.get(queue)
        if known is None or not known.has(begin, end):
            known = _Pull(begin, end, asyncio.create_task(self._pull(queue, begin, end - begin)))
            # Retrieves the exception if every viewer has left.
            known.pulled.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._pulls[queue] = known
        messages, next_offset = await asyncio.shield(known.pulled)
        return Pulled([one for one in messages if begin <= one.offset < end], min(next_offset, end))

    async def _pull(self, queue: MessageQueue, begin: int, count: int) -> Pulled:
        result = await self._cluster.ask(lambda admin: admin.read_messages(queue, begin, count))
        messages = []
        for message in result.messages:
            row = row_of(message)
            path = message_path(row.offset_id, row.topic)
            shown = TailRow(
                row.id, path, row.stored_at, row.queue, row.queue_offset, row.tag, row.keys, row.size, row.body
            )
            messages.append(TailMessage(row.stored_at, row.queue_offset, msgspec.json.encode(shown).decode()))
        return Pulled(messages, result.next_offset)
