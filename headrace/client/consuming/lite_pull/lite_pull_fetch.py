"""Fetches: the queues of a lite pull consumer; a task for each fetches batches into one line, from which `poll` takes them (client spec 4.1).

    broker ─► fetch task ─► process queue   (how much of the queue is fetched: flow control)
                        └─► line of batches ─► poll

A seek starts anew: it drops the queue's process queue, which invalidates its batches in the line, and creates another.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from headrace.client.cluster.instance import StartTask
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.puller import PULL_SUSPEND_MS, Puller, PullStatus
from headrace.client.consuming.queue_pull import ERROR_DELAY_S, FLOW_CONTROL_DELAY_S, FULL_CHECK_S, FlowLimits
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.durations import now_ms
from headrace.errors import FlowControl, HeadraceError
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData

logger = logging.getLogger(__name__)

BEGIN_AGAIN_S: Final = 3.0
UNKNOWN: Final = -1


class _Batch:
    __slots__ = ("at", "messages", "process_queue")

    def __init__(self, process_queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self.process_queue = process_queue
        self.messages = messages
        self.at = 0


class Fetches:
    """Fetches queues (with the namespace) for one consumer."""

    def __init__(
        self,
        puller: Puller,
        subscription_of: Callable[[str], SubscriptionData],
        begin: Callable[[MessageQueue], Awaitable[int]],
        limits: FlowLimits,
        total_limit: int,
        batch_size: int,
        start_task: StartTask,
    ) -> None:
        """`begin(queue)` returns the offset to start at."""
        self._puller = puller
        self._subscription_of = subscription_of
        self._begin = begin
        self._limits = limits
        self._total_limit = total_limit
        self._batch_size = batch_size
        self._start_task = start_task
        self._held: dict[MessageQueue, ProcessQueue] = {}
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._paused: set[MessageQueue] = set()
        self._line: deque[_Batch] = deque()
        self._total = 0
        self._pollers: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()

    @property
    def queues(self) -> list[MessageQueue]:
        """Returns the queues that are fetched."""
        return list(self._held)

    def update(self, queues: Collection[MessageQueue]) -> tuple[list[MessageQueue], list[MessageQueue]]:
        """Fetches exactly these queues from now on. Returns which were added and which removed."""
        wanted = set(queues)
        lost = [queue for queue in self._held if queue not in wanted]
        for queue in lost:
            self._stop(queue)
            self._paused.discard(queue)
        fresh = sorted(wanted - self._held.keys())
        for queue in fresh:
            self._start(queue, UNKNOWN)
        return fresh, lost

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at another offset; drops what was fetched."""
        self._stop(queue)
        self._start(queue, offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stops fetching these queues; fetched messages can still be polled."""
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continues fetching these queues."""
        for queue in queues:
            self._paused.discard(queue)
            if queue in self._held:
                self._held[queue].changed()

    def _start(self, queue: MessageQueue, offset: int) -> None:
        process_queue = self._held[queue] = ProcessQueue(queue, offset)
        self._tasks[process_queue] = self._start_task(self._fetch(process_queue), "fetch")

    def _stop(self, queue: MessageQueue) -> None:
        process_queue = self._held.pop(queue)
        process_queue.drop()
        self._total -= process_queue.count
        self._room.set()
        self._puller.forget(queue)
        self._tasks.pop(process_queue).cancel()

    async def close(self) -> None:
        """Stops all fetching and wakes the pollers."""
        tasks = list(self._tasks.values())
        for queue in self.queues:
            self._stop(queue)
        self._line.clear()
        while self._pollers:
            self._wake()
        if tasks:
            await asyncio.wait(tasks)

    # -- taking -----------------------------------------------------------------------------------------------------------

    def take(self, limit: int | None) -> tuple[list[ReceivedMessage], ProcessQueue, int] | None:
        """Takes the first messages of the line, of one batch, at most `limit`. Returns them, their queue, and the offset to commit once they are consumed."""
        while self._line:
            batch = self._line[0]
            if batch.process_queue.is_dropped:
                self._line.popleft()
                continue
            end = len(batch.messages) if limit is None else min(batch.at + limit, len(batch.messages))
            messages = batch.messages[batch.at : end]
            batch.at = end
            if end == len(batch.messages):
                self._line.popleft()
            self._total -= len(messages)
            self._room.set()
            return messages, batch.process_queue, batch.process_queue.remove(messages)
        return None

    async def wait(self, timeout_s: float) -> bool:
        """Waits for the line; returns whether it has anything."""
        if self._line:
            return True
        loop = asyncio.get_running_loop()
        poller: asyncio.Future[None] = loop.create_future()
        self._pollers.append(poller)
        try:
            async with asyncio.timeout(timeout_s):
                await poller
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if poller.done() and not poller.cancelled() and self._line:
                self._wake()  # another poller must not miss the wake-up
            raise
        finally:
            # Removed if it was not woken: otherwise the list would grow with each poll while no messages arrive.
            if poller in self._pollers:
                self._pollers.remove(poller)
        return bool(self._line)

    def _wake(self) -> None:
        while self._pollers:
            poller = self._pollers.popleft()
            if not poller.done():
                poller.set_result(None)
                return

    # -- fetching ---------------------------------------------------------------------------------------------------------

    async def _fetch(self, process_queue: ProcessQueue) -> None:
        queue = process_queue.queue
        while process_queue.next_offset == UNKNOWN:
            try:
                process_queue.next_offset = await self._begin(queue)
            except HeadraceError as error:
                logger.warning("start offset unknown, queue not fetched yet queue=%s error=%r", queue.label, str(error))
                await asyncio.sleep(BEGIN_AGAIN_S)
        while not process_queue.is_dropped:
            if queue in self._paused or self._limits.excess(process_queue) is not None:
                await process_queue.wait_changed(FULL_CHECK_S)
                continue
            if self._total > self._total_limit:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                await self._fetch_once(process_queue)
            except FlowControl:
                await asyncio.sleep(FLOW_CONTROL_DELAY_S)
            except HeadraceError as error:
                logger.warning(
                    "pull failed queue=%s offset=%d error=%r", queue.label, process_queue.next_offset, str(error)
                )
                await asyncio.sleep(ERROR_DELAY_S)

    async def _fetch_once(self, process_queue: ProcessQueue) -> None:
        queue = process_queue.queue
        process_queue.last_pull_ms = now_ms()
        result = await self._puller.pull(
            queue,
            self._subscription_of(queue.topic),
            process_queue.next_offset,
            self._batch_size,
            suspend_ms=PULL_SUSPEND_MS,
            with_expression=True,
            is_lite=True,
        )
        if process_queue.is_dropped:
            return
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "offset out of range queue=%s offset=%d next_offset=%d",
                queue.label, process_queue.next_offset, result.next_offset,
            )  # fmt: skip
        process_queue.next_offset = result.next_offset
        if result.messages:
            process_queue.put(result.messages)
            self._total += len(result.messages)
            self._line.append(_Batch(process_queue, list(result.messages)))
            self._wake()
