"""Delivers the messages of the timer topic when they are due (docs/storage/timers.md). Masters only.

One task delivers, another writes files and checkpoint. Everything except writing files runs in the broker's loop, in steps that
keep the state consistent: an entry is added in the same step in which its record is appended, and a message is removed from the wheel and
appended in one step.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker.appending.message_copies import restore_message
from broker.errors import ConfigFileUnreadable
from broker.timers.bucket_files import SPAN_MS, BucketFiles, bucket_of
from broker.timers.checkpoint import Checkpoint, CheckpointFile
from broker.timers.delivered_copies import Delivered, delivered_since
from broker.timers.entry import ENTRY, ENTRY_SIZE, due_of, pack
from broker.timers.rocketmq5_progress import Rocketmq5Progress
from broker.timers.timer_redirect import DELIVERED_RECORD, cancels, due_of_record
from broker.timers.wheel import Wheel
from headrace.errors import RemoteProtocolError
from headrace.model import properties
from headrace.model.message import MessageExt
from headrace.model.names import TIMER_TOPIC
from headrace.protocol.record import decode_record
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus

logger = logging.getLogger(__name__)

_LEAD_MS = 30_000  # limit: a file of a million entries is read in less
_CHUNK = 64  # limit: a few milliseconds of appending, during which other requests wait
_LOAD_CHUNK = 4096  # limit: a few milliseconds of adding to the wheel
_LONGEST_SLEEP_S = 1.0  # limit: how late a clock set forward is noticed
_RETRY_S = 0.1
_AFTER_FAILURE_S = 10.0
_KEEP_S = 1.0
_SYNC_S = 30.0  # limit: records of so many seconds are read again after a kill
_SEARCH_BYTES = 64 << 20  # limit: at a start so much of the log is searched, and the data of a second
_END_OF_TIME_MS = 1 << 60
_PROPERTY_SEPARATOR = b"\x02"


class Queue(Protocol):
    """The timer topic's queue; a ConsumeQueueReader."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Lowest queue offset, and one beyond the highest."""

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code)."""


class Log(Protocol):
    """The log; a CommitLogReader."""

    file_size: int

    def read(self, offset: int, size_bytes: int) -> memoryview | None:
        """Exactly these bytes."""

    def read_on(self, offset: int) -> memoryview | None:
        """The bytes from this offset to the end of its file or of the log."""


class LogOffsets(Protocol):
    """The progress of the log; a ControlBlock has these."""

    @property
    def min_offset(self) -> int:
        """First physical offset that is still stored."""

    @property
    def wrote_offset(self) -> int:
        """End of the last complete record."""

    @property
    def flushed_offset(self) -> int:
        """Everything below is durable."""


class TimerDelivery:
    """All waiting timers of a broker.

    `append(message)` stores at once, None while there is no file to store in. `next_offset()` is the queue offset that the next record of the timer
    topic gets. `warm(entries)` reads old records into memory, on a thread, if they may not be there; None if they are. `rocketmq5_progress()`
    is what another maker's broker has left beside the log; it may raise OSError. `stored(topic)` counts a message that waits.
    """

    def __init__(
        self,
        files: BucketFiles,
        checkpoint_file: CheckpointFile,
        queue: Queue,
        log: Log,
        offsets: LogOffsets,
        append: Callable[[MessageToStore], PutResult | None],
        next_offset: Callable[[], int],
        warm: Callable[[list[bytes]], Awaitable[object] | None] = lambda _entries: None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rocketmq5_progress: Callable[[], Rocketmq5Progress | None] = lambda: None,
        stored: Callable[[str], None] = lambda _topic: None,
    ) -> None:
        self._files = files
        self._rocketmq5_progress = rocketmq5_progress
        self._checkpoint_file = checkpoint_file
        self._queue = queue
        self._log = log
        self._offsets = offsets
        self._append = append
        self._next_offset = next_offset
        self._warm = warm
        self._clock_ms = clock_ms
        self._stored = stored
        self._wheel = Wheel()
        self._woken = asyncio.Event()
        self._sleeps_until_ms = 0
        self._horizon_ms = 0
        """Entries due before this time are on the wheel."""
        self._first_appended = next_offset()
        """Records of the timer queue from here on were announced by `appended`."""
        self._floor = Checkpoint()
        """The checkpoint found at the start."""
        self._found: Delivered = {}
        """Deliveries after that checkpoint."""
        self._found_until_ms = -1
        """When the last of these was due."""
        self._delivered_before = 0
        self._marked_offset = 0
        self._is_delivering = False
        self._is_recovered = False
        self._is_changed = False
        self._synced = Checkpoint()
        self._synced_at_s = 0.0
        self._written = Checkpoint()
        self._pending: Checkpoint | None = None
        self.delivered = 0
        self.cancelled = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """The number of records that are not due yet; a cancelled message and its cancelling record both count."""
        return len(self._wheel) + self._files.count_from(self._horizon_ms)

    # -- what others tell -------------------------------------------------------------------------------------------------

    def appended(self, message: MessageToStore, result: PutResult) -> None:
        """A record of the timer topic has been stored."""
        found = properties.decode_properties(message.properties.decode())
        self._note(found, result.physical_offset, result.size_bytes)
        if not cancels(found):
            self._stored(found.get(properties.REAL_TOPIC, ""))

    def _note(self, found: dict[str, str], physical_offset: int, size_bytes: int) -> None:
        due_ms = due_of_record(found)
        if due_ms is None:
            logger.error("timer record without a delivery time skipped physical_offset=%d", physical_offset)
            return
        entry = pack(due_ms, physical_offset, size_bytes, cancels=cancels(found))
        # order: never into a file that the next checkpoint may delete.
        self._files.add(bucket_of(max(due_ms, self._delivered_before)), entry)
        if due_ms < self._horizon_ms:
            self._wheel.add(entry)
        if due_ms < self._sleeps_until_ms:
            self._woken.set()

    # -- life -------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Delivers until it is cancelled."""
        while not self._is_recovered:
            try:
                await self.recover()
            except Exception:  # the outermost loop of timers
                logger.exception("timer recovery failed, will retry")
                await asyncio.sleep(_AFTER_FAILURE_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver())
            group.create_task(self._keep())

    def stop(self) -> None:
        """Writes the state for a fast start. Without it the next start reads more of the log."""
        if self._is_recovered:
            try:
                self._write_all()
            except OSError as error:
                logger.warning("timer index not saved at shutdown error=%r", str(error))

    def _write_all(self) -> None:
        synced = Checkpoint(self._next_offset(), 0, self._offsets.wrote_offset)
        self._files.begin_write()
        self._files.write()
        self._files.end_write()
        self._files.sync()
        self._synced = synced
        self._mark_idle()
        self._pending = None
        checkpoint = self._take_checkpoint()
        if checkpoint is not None:
            self._checkpoint_file.write(checkpoint)
            self._checkpoint_written(checkpoint)

    async def deliver_all(self) -> int:
        """Delivers all pending messages now, and deletes the index. Returns their number. For a broker that serves no requests."""
        await self.recover()
        self._clock_ms = lambda: _END_OF_TIME_MS
        while (wait_s := await self.deliver_due()) is not None:  # noqa: ASYNC110  (the housekeeper reserves a file)
            await asyncio.sleep(wait_s)
        # Nothing waits: a later index is built from the log.
        self._files.clear()
        self._checkpoint_file.delete()
        return self.delivered

    async def recover(self) -> None:
        """Updates the index to the end of the log; see docs/storage/timers.md, "At the start"."""
        least, _ = self._queue.bounds(TIMER_TOPIC, 0)
        found = self._read_checkpoint()
        if (
            found is None
            or found.queue_offset > self._first_appended
            or found.physical_offset > self._offsets.wrote_offset
        ):
            if found is not None:
                logger.warning(
                    "timer checkpoint is past the end of the log, rebuilding the timer index"
                    " checkpoint_offset=%d log_end=%d checkpoint_queue_offset=%d queue_end=%d",
                    found.physical_offset,
                    self._offsets.wrote_offset,
                    found.queue_offset,
                    self._first_appended,
                )
            # order: requests are already served; messages that they have added are in no queue read below.
            self._files.reset()
            found = Checkpoint(least, 0, self._offsets.min_offset)
        found = self._with_rocketmq5(found)
        self._floor = self._written = self._synced = found
        self._delivered_before, self._marked_offset = found.delivered_before, found.physical_offset
        added = 0
        for offset in range(max(found.queue_offset, least), self._first_appended):
            if self._add_from_queue(offset):
                added += 1
            if added % _CHUNK == 0:
                await asyncio.sleep(0)
        if self._files.next_bucket(0) is not None:
            end = self._offsets.wrote_offset
            start = max(found.physical_offset, self._offsets.min_offset)
            for _ in delivered_since(start, end, self._log.file_size, self._log.read_on, self._found):
                await asyncio.sleep(0)
        self._found_until_ms = max(self._found.values(), default=-1)
        if added or self._found:
            logger.info("timers recovered added=%d already_delivered=%d", added, len(self._found))
        self._is_recovered = True

    def _with_rocketmq5(self, found: Checkpoint) -> Checkpoint:
        """The checkpoint, or what a RocketMQ 5 broker that had the store after us, or before, has done beyond it."""
        theirs = self._rocketmq5_progress()
        if theirs is None or not found.delivered_before < theirs.delivered_before <= self._clock_ms():
            return found
        entry = self._queue.entry(TIMER_TOPIC, 0, theirs.queue_offset)
        known = self._offsets.wrote_offset if entry is None else entry[0]
        logger.info("timers already delivered by RocketMQ 5 skipped due_before_ms=%d", theirs.delivered_before)
        return Checkpoint(found.queue_offset, theirs.delivered_before, known)

    def _read_checkpoint(self) -> Checkpoint | None:
        try:
            return self._checkpoint_file.read()
        except ConfigFileUnreadable as error:
            # Nothing is lost: the log contains everything.
            logger.warning("timer checkpoint unreadable, rebuilding the timer index error=%r", str(error))
            return None

    def _add_from_queue(self, queue_offset: int) -> bool:
        entry = self._queue.entry(TIMER_TOPIC, 0, queue_offset)
        record = None if entry is None else _decoded(self._log.read(entry[0], entry[1]))
        if record is None:
            return False
        self._note(record.properties, record.physical_offset, record.size_bytes)
        return True

    # -- delivering -------------------------------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            self._woken.clear()
            try:
                wait_s = await self.deliver_due()
            except Exception:  # the outermost loop of timers
                logger.exception("timer delivery failed, will retry")
                wait_s = _AFTER_FAILURE_S
            if wait_s is None:
                self._sleeps_until_ms = 1 << 62
                await self._woken.wait()
            elif wait_s > 0:
                self._sleeps_until_ms = self._clock_ms() + int(wait_s * 1000)
                try:
                    await asyncio.wait_for(self._woken.wait(), wait_s)
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)
            self._sleeps_until_ms = 0

    async def deliver_due(self) -> float | None:
        """Delivers messages due now. Returns the seconds until there may be more (None: until an entry is added)."""
        await self._load(self._clock_ms() + _LEAD_MS)
        while (head := self._wheel.head()) is not None:
            now_ms = self._clock_ms()
            due_ms = due_of(head)
            if due_ms > now_ms:
                return min((due_ms - now_ms) / 1000, _LONGEST_SLEEP_S)
            if not await self._deliver_moment(due_ms):
                return _RETRY_S
            await self._load(now_ms + _LEAD_MS)
        bucket = self._files.next_bucket(self._horizon_ms)
        return None if bucket is None else _LONGEST_SLEEP_S

    async def _load(self, until_ms: int) -> None:
        """Loads all entries due before `until_ms` onto the wheel; of overdue files only the first."""
        target = bucket_of(until_ms) + SPAN_MS
        while self._horizon_ms < target:
            bucket = self._files.next_bucket(self._horizon_ms)
            if bucket is None or bucket >= target:
                self._horizon_ms = target
                return
            if self._wheel and bucket < bucket_of(self._clock_ms()):
                return
            # order: from now on entries added to this bucket also go to the wheel; existing ones are read.
            self._horizon_ms = bucket + SPAN_MS
            data = self._files.read(bucket)
            for at in range(0, len(data), _LOAD_CHUNK * ENTRY_SIZE):
                self._wheel.add_all(data[at : at + _LOAD_CHUNK * ENTRY_SIZE])
                await asyncio.sleep(0)

    async def _deliver_moment(self, due_ms: int) -> bool:
        """Delivers all messages due at this millisecond; False if it must be retried."""
        self._mark(due_ms)
        moment: list[bytes] = []
        while (head := self._wheel.head()) is not None and due_of(head) == due_ms:
            moment.append(head)
            self._wheel.take()
        self._is_delivering = self._is_changed = True
        done = 0
        try:
            warming = self._warm(moment)
            if warming is not None:
                await warming
            cancelled = {key for entry in moment if (key := self._cancelled_by(entry)) is not None}
            for entry in moment:
                if not self._deliver_one(entry, cancelled):
                    return False
                done += 1
                if done % _CHUNK == 0:
                    await asyncio.sleep(0)
            self._is_delivering = False
            return True
        finally:
            if done < len(moment):
                # Cancelling entries are needed again, too.
                for entry in [one for one in moment[:done] if ENTRY.unpack(one)[2] < 0] + moment[done:]:
                    self._wheel.add(entry)

    def _mark(self, due_ms: int) -> None:
        """All messages due before this time are delivered, and none due at it or later.

        Until all deliveries before the start are known again, the next search must begin where this one began.
        """
        # order: before the first of them. A later record, whenever it is due, is at or above `wrote_offset`.
        if due_ms > self._delivered_before:
            self._delivered_before = due_ms
            if due_ms > self._found_until_ms:
                self._found.clear()
                self._marked_offset = self._offsets.wrote_offset

    def _cancelled_by(self, entry: bytes) -> str | None:
        """The message that a cancelling record cancels, `topic+id`; None for other records."""
        due_ms, physical_offset, size = ENTRY.unpack(entry)
        if size >= 0:
            return None
        record = self._record(due_ms, physical_offset, -size)
        if record is None:
            return None
        target = record.properties.get(properties.TIMER_DEL_UNIQKEY, "")
        # compat: some releases of RocketMQ 5 contain only the id.
        return target if "+" in target else f"{record.properties.get(properties.REAL_TOPIC)}+{target}"

    def _deliver_one(self, entry: bytes, cancelled: set[str]) -> bool:
        """Stores the message of an entry at its destination; False if that must be retried."""
        due_ms, physical_offset, size = ENTRY.unpack(entry)
        floor = self._floor
        if size < 0 or (due_ms < floor.delivered_before and physical_offset < floor.physical_offset):
            return True
        record = self._record(due_ms, physical_offset, size)
        if record is None:
            return True
        topic = record.properties.get(properties.REAL_TOPIC, "")
        unique_id = record.properties.get(properties.UNIQ_KEY, "")
        if (physical_offset, topic, unique_id) in self._found:
            return True
        if f"{topic}+{unique_id}" in cancelled:
            self.cancelled += 1
            return True
        message = restore_message(record)
        if message is None:
            logger.error("timer without a destination skipped physical_offset=%d", physical_offset)
            return True
        message.properties += _PROPERTY_SEPARATOR + f"{DELIVERED_RECORD}\x01{physical_offset}".encode()
        result = self._append(message)
        if result is None or result.status is not PutMessageStatus.PUT_OK:
            return False
        self.delivered += 1
        return True

    def _record(self, due_ms: int, physical_offset: int, size: int) -> MessageExt | None:
        """The record of an entry, if it matches the entry."""
        if physical_offset < self._offsets.min_offset:
            self.lost += 1
            logger.error(
                "timer message lost, its CommitLog file was deleted before it was delivered physical_offset=%d due_ms=%d",
                physical_offset,
                due_ms,
            )
            return None
        record = _decoded(self._log.read(physical_offset, size))
        if record is None or record.topic != TIMER_TOPIC or due_of_record(record.properties) != due_ms:
            # Not durable when the machine died: the entry exists, the record does not.
            return None
        return record

    # -- keeping ----------------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_S)
            try:
                await self.keep_once(asyncio.get_running_loop().time())
            except OSError as error:
                logger.warning("timer index not saved, will retry error=%r", str(error))

    async def keep_once(self, now_s: float) -> None:
        """Writes collected entries, and the checkpoint if its data is durable. Raises OSError."""
        is_sync_due = now_s - self._synced_at_s >= _SYNC_S and self._next_offset() > self._synced.queue_offset
        synced = Checkpoint(self._next_offset(), 0, self._offsets.wrote_offset)
        if self._files.has_gathered:
            self._files.begin_write()
            await asyncio.to_thread(self._files.write)
            self._files.end_write()
        if is_sync_due:
            await asyncio.to_thread(self._files.sync)
            self._synced = synced
            self._synced_at_s = now_s
        self._mark_idle()
        checkpoint = self._take_checkpoint()
        if checkpoint is not None:
            # Not in the loop: on a busy disk it may take a second.
            await asyncio.to_thread(self._checkpoint_file.write, checkpoint, self._checkpoint_file.next_turn())
            self._checkpoint_written(checkpoint)

    def _mark_idle(self) -> None:
        """If nothing is due, everything due until now has been delivered."""
        now_ms = self._clock_ms()
        head = self._wheel.head()
        if (
            not self._is_delivering
            and (head is None or due_of(head) > now_ms)
            and self._horizon_ms > now_ms > self._delivered_before
        ):
            self._mark(now_ms)

    def _take_checkpoint(self) -> Checkpoint | None:
        """Takes a checkpoint if something has changed; returns the last one when everything that it covers is durable."""
        if self._pending is None:
            taken = Checkpoint(self._synced.queue_offset, self._delivered_before, self._marked_offset)
            if (
                self._is_changed
                or taken.queue_offset != self._written.queue_offset
                or self._files.has_before(taken.delivered_before)
                or (
                    taken.physical_offset - self._written.physical_offset > _SEARCH_BYTES
                    and self._files.next_bucket(0) is not None
                )
            ):
                self._pending = taken
                self._pending_end = max(taken.physical_offset, self._synced.physical_offset)
                self._is_changed = self._is_delivering
        return (
            self._pending if self._pending is not None and self._offsets.flushed_offset >= self._pending_end else None
        )

    def _checkpoint_written(self, checkpoint: Checkpoint) -> None:
        self._written, self._pending = checkpoint, None
        # order: after the checkpoint, which covers them.
        self._files.delete_before(checkpoint.delivered_before)


def _decoded(view: memoryview | None) -> MessageExt | None:
    """The record; None if it no longer exists, or none."""
    try:
        return None if view is None else decode_record(view)
    except RemoteProtocolError:
        return None
