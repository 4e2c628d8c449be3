"""Delivers delayed messages when they are due (store spec 10.3). Masters only.

One task per level. It reads the next entry of its queue, whose tags code is the delivery time, sleeps until then,
appends the original message, and continues. It is woken by the clock and by the broker's own appends, without polling. (Apache's
polls every 100 ms.) Due messages are delivered in chunks, between which the loop serves other requests.

The entries of a level are in the order of their times, because their delay is the same: the first is always due next.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from broker.appending.message_copies import restore_message
from broker.delays.delay_offsets import DelayOffsets
from broker.delays.delivered_copies import Likeness, delivered_since, likeness
from headrace.errors import RemoteProtocolError
from headrace.model.message import MessageExt
from headrace.model.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, is_ext_address
from headrace.protocol.record import decode_record
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus

logger = logging.getLogger(__name__)

_CHUNK = 64  # limit: a few milliseconds of appending, during which other requests wait
_LONGEST_SLEEP_S = 1.0  # limit: how late a clock set forward is noticed
_RETRY_S = 0.1  # compat: RocketMQ's pause after a failed put
_AFTER_FAILURE_S = 10.0  # compat: RocketMQ's pause after an exception
_BEHIND_S = 0.02  # limit: dispatch is milliseconds behind the log, and no message is due as soon as it is stored


class Queues(Protocol):
    """The ConsumeQueues; a ConsumeQueueReader."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Lowest queue offset, and one beyond the highest."""

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:
        """The published entries from this offset to the end of their file."""


class Log(Protocol):
    """The log; a CommitLogReader."""

    file_size: int

    def read(self, offset: int, size_bytes: int) -> memoryview | None:
        """Exactly these bytes."""

    def read_on(self, offset: int) -> memoryview | None:
        """The bytes from this offset to the end of its file or of the log."""


class Delivered(Struct, frozen=True):
    """The result of one check of a level's queue: the next offset, and how many seconds it may wait (None: until woken)."""

    offset: int
    wait_s: float | None


class DelayDelivery:
    """Delivers due messages of each level.

    `append(message)` stores at once, None while there is no file to store in. `next_offset(queue_id)` is the queue offset that the
    next message of the queue gets: below it, dispatch will come. `warm(queue_id, offset, count)` reads old messages into
    memory, on a thread, if they may not be there; None if they are. `unreadable(queue_id, offset, physical_offset)` is told of what is
    skipped because it cannot be read.
    """

    def __init__(
        self,
        levels_ms: tuple[int, ...],
        offsets: DelayOffsets,
        queues: Queues,
        append: Callable[[MessageToStore], PutResult | None],
        next_offset: Callable[[int], int],
        log: Log,
        wrote_offset: Callable[[], int],
        warm: Callable[[int, int, int], Awaitable[object] | None] = lambda _queue_id, _offset, _count: None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        unreadable: Callable[[int, int, int], object] = lambda _queue_id, _offset, _physical_offset: None,
    ) -> None:
        self._levels_ms = levels_ms
        self._offsets = offsets
        self._queues = queues
        self._log = log
        self._read = log.read
        self._wrote_offset = wrote_offset
        self._append = append
        self._next_offset = next_offset
        self._warm = warm
        self._clock_ms = clock_ms
        self._unreadable = unreadable
        self._copies: Counter[Likeness] = Counter()
        """Deliveries of a dead broker that its offsets do not cover."""
        self._catching_up: set[int] = set()
        """The levels at which there may be some of these."""
        self._woken = [asyncio.Event() for _ in levels_ms]
        self.delivered = 0

    def appended(self, queue_id: int) -> None:
        """A message has been stored at the level of this queue; it may be due next."""
        if 0 <= queue_id < len(self._woken):
            self._woken[queue_id].set()

    async def run(self) -> None:
        """Delivers at all levels until it is cancelled."""
        await self.look_up()
        async with asyncio.TaskGroup() as group:
            for level in range(1, len(self._levels_ms) + 1):
                group.create_task(self._run_level(level))

    async def look_up(self) -> None:
        """Searches the log for deliveries since the offsets were written, of messages that wait according to them. Each is behind its waiting record."""
        unknown_since, waiting = self._offsets.unknown_since, self._first_waiting()
        if unknown_since is None or not waiting:
            return
        self._catching_up = set(waiting)
        start = max(unknown_since, min(waiting.values()))
        for _ in delivered_since(start, self._wrote_offset(), self._log.file_size, self._log.read_on, self._copies):
            await asyncio.sleep(0)
        if not self._copies:
            self._catching_up.clear()

    def _first_waiting(self) -> dict[int, int]:
        """The physical offset of the first waiting record of each level that has one; 0 if it cannot be read."""
        found = {}
        for level in range(1, len(self._levels_ms) + 1):
            offset = self._offsets.next_offset(level)
            if offset < self._next_offset(level - 1):
                entries = self._queues.entries(SCHEDULE_TOPIC, level - 1, offset)
                found[level] = (
                    ENTRY.unpack_from(entries)[0] if entries is not None and len(entries) >= ENTRY_SIZE else 0
                )
        return found

    def unknown_since(self) -> int:
        """Deliveries that the offsets do not tell of are at this physical offset or beyond."""
        start = self._offsets.unknown_since
        return start if self._catching_up and start is not None else self._wrote_offset()

    def _caught_up(self, level: int) -> None:
        """No later message has been delivered: a level is delivered in order."""
        self._catching_up.discard(level)
        if not self._catching_up:
            self._copies.clear()

    async def _run_level(self, level: int) -> None:
        offset = self._offsets.next_offset(level)
        woken = self._woken[level - 1]
        while True:
            woken.clear()
            warming = self._warm(level - 1, offset, _CHUNK)
            if warming is not None:
                await warming
            try:
                found = self.deliver(level, offset)
            except Exception:  # the outermost loop of a level: other levels continue
                logger.exception("delayed message delivery failed, will retry level=%d offset=%d", level, offset)
                found = Delivered(offset, _AFTER_FAILURE_S)
            offset = found.offset
            if found.wait_s is None:
                await woken.wait()
            else:
                await asyncio.sleep(found.wait_s)

    def deliver(self, level: int, offset: int) -> Delivered:
        """Delivers what is due of a level from queue offset `offset` on, a chunk at most. Does not wait."""
        queue_id = level - 1
        delay_ms = self._levels_ms[queue_id]
        entries = self._queues.entries(SCHEDULE_TOPIC, queue_id, offset)
        if entries is None or len(entries) < ENTRY_SIZE:
            found = self._nowhere(queue_id, offset)
            if found.wait_s is None:
                self._caught_up(level)
            return found
        now = self._clock_ms()
        for at in range(0, min(len(entries), _CHUNK * ENTRY_SIZE), ENTRY_SIZE):
            physical_offset, size, due_ms = ENTRY.unpack_from(entries, at)
            view = None
            if is_ext_address(due_ms):
                view = self._read(physical_offset, size)
                record = _decoded(view)
                due_ms = now if record is None else record.store_timestamp + delay_ms
            # Later than the level's delay allows: the clock or the table of levels has changed. It is due.
            if now < due_ms <= now + delay_ms:
                self._caught_up(level)
                return Delivered(offset, min((due_ms - now) / 1000, _LONGEST_SLEEP_S))
            view = view if view is not None else self._read(physical_offset, size)
            if not self._deliver_one(level, offset, physical_offset, view):
                return Delivered(offset, _RETRY_S)
            offset += 1
            self._offsets.move(level, offset)
        return Delivered(offset, 0)

    def _nowhere(self, queue_id: int, offset: int) -> Delivered:
        """There is no entry at the offset: the queue begins later or ends before, or dispatch is behind."""
        least, most = self._queues.bounds(SCHEDULE_TOPIC, queue_id)
        if offset < least:
            return Delivered(least, 0)
        if offset < self._next_offset(queue_id):
            return Delivered(offset, _BEHIND_S)
        # There is nothing older than the next message.
        return Delivered(min(offset, max(most, self._next_offset(queue_id))), None)

    def _deliver_one(self, level: int, offset: int, physical_offset: int, view: memoryview | None) -> bool:
        """Stores the message at its destination; False if it must be retried. Undeliverable messages are skipped."""
        record = _decoded(view)
        if record is None:
            logger.error("unreadable delayed message skipped level=%d offset=%d", level, offset)
            self._unreadable(level - 1, offset, physical_offset)
            return True
        message = restore_message(record)
        if message is None:
            logger.error("delayed message without a destination skipped level=%d offset=%d", level, offset)
            return True
        if message.topic == TRANSACTION_HALF_TOPIC:
            # compat: a half message cannot be delayed; RocketMQ drops it too.
            logger.error("delayed half message dropped level=%d offset=%d", level, offset)
            return True
        if level in self._catching_up:
            if self._copies[likeness(record)] > 0:
                self._copies[likeness(record)] -= 1
                return True
            self._caught_up(level)
        result = self._append(message)
        if result is None or result.status is not PutMessageStatus.PUT_OK:
            return False
        self.delivered += 1
        return True


def _decoded(view: memoryview | None) -> MessageExt | None:
    """The record; None if it no longer exists, or none."""
    try:
        return None if view is None else decode_record(view)
    except RemoteProtocolError:
        return None
