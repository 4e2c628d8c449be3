"""LetterQueues: the queues of a group's dead-letter topic, and the messages in ranges of them."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from headrace import MessageExt, MessageQueue
from headrace.model.names import dlq_topic
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.messages.message_reads import MessageReads

_AT_ONCE: Final = 32


class LetterRange(NamedTuple):
    """Messages of a queue: offsets from `begin` up to, but not including, `end`."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def text(self) -> str:
        """As forms carry it."""
        return f"{self.queue.broker_name}/{self.queue.queue_id}/{self.begin}/{self.end}"


class LetterQueues:
    """Reads dead letters. Every call raises HeadraceError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def exists(self, group: str) -> bool:
        """Whether the group has a dead-letter topic: brokers create it with the first dead letter."""
        return dlq_topic(group) in await self._cluster.read(("topics",), lambda admin: admin.topics())

    async def ranges(self, group: str, begin_ms: int, end_ms: int | None) -> list[LetterRange]:
        """The ranges with the messages stored from `begin_ms` to `end_ms`, or to now."""
        topic = dlq_topic(group)
        queues = sorted(await self._cluster.read(("queues", topic), lambda admin: admin.subscribe_queues(topic)))
        if not queues:
            raise Invalid(
                "the topic {topic} has no readable queue",
                "Enable read permission for the topic: 6 (read and write) or 4 (read only).",
                topic=topic,
            )
        return [LetterRange(queue, *await self._bounds(queue, begin_ms, end_ms)) for queue in queues]

    async def read(self, ranges: Sequence[LetterRange]) -> AsyncIterator[MessageExt]:
        """The messages of the ranges, as stored, queue by queue, the oldest first. Deleted ones are left out."""
        for queue, begin, end in ranges:
            at = begin
            while at < end:
                result = await self._cluster.ask(
                    lambda admin, queue=queue, at=at, end=end: admin.read_messages(queue, at, min(_AT_ONCE, end - at))  # type: ignore[misc]
                )
                for message in result.messages:
                    if message.queue_offset < end:
                        yield message.stored()
                if result.next_offset <= at:
                    break
                at = result.next_offset

    async def _bounds(self, queue: MessageQueue, begin_ms: int, end_ms: int | None) -> tuple[int, int]:
        low = await self._cluster.ask(lambda admin: admin.min_offset(queue))
        high = await self._cluster.ask(lambda admin: admin.max_offset(queue))
        begin = await self._offset_from(queue, begin_ms) if begin_ms else low
        end = high if end_ms is None else await self._offset_from(queue, end_ms + 1)
        begin = max(low, begin)
        return begin, max(begin, min(high, end))

    async def _offset_from(self, queue: MessageQueue, moment: int) -> int:
        """The first offset with a message stored at `moment` or later. Brokers may answer with the last one before it."""
        offset = await self._cluster.ask(lambda admin: admin.search_offset(queue, moment))
        result = await self._cluster.ask(lambda admin: admin.read_messages(queue, offset, 1))
        is_before = any(one.queue_offset == offset and one.store_timestamp < moment for one in result.messages)
        return offset + 1 if is_before else offset


def parse_ranges(group: str, texts: Sequence[str]) -> list[LetterRange]:
    """The ranges that a form carries. Raises Invalid."""
    ranges = []
    for text in texts:
        broker, *numbers = text.rsplit("/", 3)
        if len(numbers) != 3 or not all(one.isascii() and one.isdecimal() and len(one) < 19 for one in numbers):
            raise Invalid("the ranges of messages are invalid", "Reload the group's page.")
        queue, begin, end = map(int, numbers)
        ranges.append(LetterRange(MessageQueue(dlq_topic(group), broker, queue), begin, end))
    return ranges


async def find_letter(messages: MessageReads, group: str, offset_id: str) -> MessageExt:
    """The dead letter of a group with an offset message id. Raises HeadraceError; Invalid for a message of another topic."""
    message = await messages.by_id(offset_id)
    if message.topic != dlq_topic(group):
        raise Invalid(
            "the message {offset_id} is in the topic {topic}, not in {expected}",
            "Reload the page.",
            offset_id=offset_id,
            topic=message.topic,
            expected=dlq_topic(group),
        )
    return message
