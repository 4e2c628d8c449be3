"""Where a group starts in a queue for which it has no offset yet (client spec 3.11).

    StartFrom.LAST            the end of the queue; but a new group starts with the first message of a young topic, for which brokers
                              return the offset 0
    StartFrom.FIRST           the first message
    StartFrom.at(moment)      the message stored nearest to a time

All members of a group should use the same value. It has no effect where an offset is stored.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming import queue_requests
from headrace.client.consuming.offset_store import OffsetStore
from headrace.client.durations import Moment, epoch_ms, now_ms
from headrace.model.consumption import ConsumeFromWhere
from headrace.model.message_queue import MessageQueue
from headrace.model.names import is_retry_topic

DEFAULT_AGE: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class StartFrom:
    """LAST, FIRST, or a time: `StartFrom.at(datetime(2026, 1, 1, tzinfo=UTC))`."""

    where: ConsumeFromWhere
    timestamp_ms: int | None = None

    LAST: ClassVar["StartFrom"]
    FIRST: ClassVar["StartFrom"]

    @classmethod
    def at(cls, moment: Moment) -> "StartFrom":
        """Starts at the message stored nearest to a time: an aware datetime, or ms since 1970."""
        return cls(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, epoch_ms(moment))

    @property
    def timestamp_text(self) -> str:
        """The time as RocketMQ's tools show it, in local time; half an hour ago if none is given."""
        moment = (
            now_ms() / 1000 - DEFAULT_AGE.total_seconds() if self.timestamp_ms is None else self.timestamp_ms / 1000
        )
        return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y%m%d%H%M%S")


StartFrom.LAST = StartFrom(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
StartFrom.FIRST = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def start_offset(
    instance: ClientInstance, store: OffsetStore, start: StartFrom, queue: MessageQueue, *, memory_first: bool = False
) -> int:
    """Returns the offset to start at. Raises HeadraceError if it cannot be determined now; the queue must wait then.

    `memory_first`: prefer an offset in memory to the stored one.
    """
    known = store.memory(queue) if memory_first else None
    if known is None or known < 0:
        known = await store.stored(queue)
    if known is not None and known >= 0:
        return known
    is_retry = is_retry_topic(queue.topic)
    if start.where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        # If the first message is not at 0, the first pull learns that 0 is before it.
        return 0
    if start.where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        if is_retry:
            # compat: a group that starts at a time skips its earlier retries.
            return await queue_requests.max_offset(instance, queue)
        moment = (
            now_ms() - int(DEFAULT_AGE.total_seconds() * 1000) if start.timestamp_ms is None else start.timestamp_ms
        )
        return await queue_requests.search_offset(instance, queue, moment)
    return 0 if is_retry else await queue_requests.max_offset(instance, queue)
