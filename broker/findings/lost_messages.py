"""Unconsumed messages that consumer groups lose because files were deleted before their retention time expired.

The housekeeper announces such a deletion (`forced_offset`) and waits for a limited time. The broker, which alone has the groups' offsets, counts
what each group loses while the ConsumeQueues still exist, logs it, and publishes `losses_counted_offset`. So nothing is counted twice or
missed, whichever process is restarted in between.

A message counts as lost for a group that has committed an offset in its queue, but not beyond the message. Groups that have never
committed, and broadcast consumers, which store their offsets themselves, are unknown here.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from broker.clients.offsets import OffsetTable
from broker.findings.finding import Finding
from headrace.model.names import SCHEDULE_TOPIC

logger = logging.getLogger(__name__)

KIND: Final = "messages lost"
DELAY_LEVELS: Final = "(delay levels)"
"""Used as the group of undelivered delayed messages."""

_LOOK_S: Final = 0.1  # limit: the housekeeper waits for the count
_QUEUES_A_STEP: Final = 64  # limit: some milliseconds


class Offsets(Protocol):
    """The progress of the log and its deletion; a ControlBlock has these."""

    @property
    def min_offset(self) -> int:
        """First physical offset still kept."""

    @property
    def forced_offset(self) -> int:
        """Where the log will begin."""

    @property
    def losses_counted_offset(self) -> int:
        """Below it everything is counted."""


class Queues(Protocol):
    """The ConsumeQueues; a ConsumeQueueReader."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Lowest queue offset, and one beyond the highest."""

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code); None if it does not exist."""


class LostMessages:
    """Counts by group and topic, since the start of the appliance."""

    def __init__(
        self,
        control: Offsets,
        queues: Queues,
        offsets: OffsetTable,
        delay_offsets: Callable[[], Mapping[int, int]],
        counted: Callable[[int], None],
        noticed_before: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`delay_offsets()`: level to next queue offset. `counted(offset)` answers the housekeeper. `noticed_before`: by a predecessor."""
        self._control = control
        self._queues = queues
        self._offsets = offsets
        self._delay_offsets = delay_offsets
        self._counted = counted
        self._lost: dict[tuple[str, str], int] = {
            (finding["group"], finding["about"]): finding["count"]
            for finding in noticed_before
            if finding["kind"] == KIND
        }

    async def keep(self) -> None:
        """Counts at each announced deletion, until it is cancelled."""
        while True:
            if self._control.forced_offset > self._control.losses_counted_offset:
                try:
                    await self.count()
                except Exception:  # the outermost loop of the count; the housekeeper continues without an answer
                    logger.exception("counting lost messages failed, will retry")
            await asyncio.sleep(_LOOK_S)

    async def count(self) -> None:
        """Counts and logs the losses of the announced deletion, and publishes the answer."""
        start, end = self._control.min_offset, self._control.forced_offset
        if start >= end:
            self._counted(end)  # the housekeeper did not wait, and has logged that losses were not counted
            return
        going: dict[tuple[str, int], tuple[int, int]] = {}
        lost: dict[tuple[str, str], int] = {}
        for step, (group, topic, queue_id, committed) in enumerate(list(self._committed()), 1):
            if step % _QUEUES_A_STEP == 0:
                await asyncio.sleep(0)
            place = topic, queue_id
            if place not in going:
                going[place] = self._first_at(topic, queue_id, start), self._first_at(topic, queue_id, end)
            first, behind = going[place]
            count = behind - max(first, committed)
            if count > 0:
                lost[group, topic] = lost.get((group, topic), 0) + count
        for (group, topic), count in lost.items():
            self._lost[group, topic] = self._lost.get((group, topic), 0) + count
            logger.warning(
                "unconsumed messages deleted before their retention time expired group=%s topic=%s lost=%d min_offset=%d",
                group, topic, count, end,
            )  # fmt: skip
        if not lost:
            logger.warning(
                "messages deleted before their retention time expired, no group lost messages min_offset=%d",
                end,
            )
        self._counted(end)

    def findings(self) -> Iterator[Finding]:
        """One for each group and topic."""
        for (group, topic), count in self._lost.items():
            yield Finding(
                group,
                KIND,
                topic,
                f"{_messages(count)} of {topic} deleted before their retention time expired, not consumed",
                (),
                (),
                "give the store a larger disk or a shorter fileReservedTime, or set whenDiskFull=reject to keep messages and refuse sends",
                count,
            )

    def _committed(self) -> Iterator[tuple[str, str, int, int]]:
        for group in self._offsets.groups():
            for topic, queues in self._offsets.by_topic(group).items():
                for queue_id, committed in queues.items():
                    yield group, topic, queue_id, committed
        for level, offset in self._delay_offsets().items():
            yield DELAY_LEVELS, SCHEDULE_TOPIC, level - 1, offset

    def _first_at(self, topic: str, queue_id: int, physical_offset: int) -> int:
        """The first queue offset whose message is at this physical offset or beyond."""
        least, most = self._queues.bounds(topic, queue_id)

        def place_of(queue_offset: int) -> int:
            entry = self._queues.entry(topic, queue_id, queue_offset)
            return -1 if entry is None else entry[0]

        return least + bisect_left(range(least, most), physical_offset, key=place_of)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
