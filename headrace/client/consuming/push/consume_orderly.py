"""OrderlyService: the messages of a queue one after another, by one member of the group (client spec 3.9).

Each queue has a task that takes messages, calls their handler, and commits, until the queue is lost. A broker's lock excludes other members; while it
cannot be confirmed, the queue pauses. A failed message blocks those after it and is redelivered, without limit unless `max_reconsume_times` is set;
then it becomes a dead letter.

Plain handlers get several messages in one visit to a worker thread, for at most 10 ms; the first failure ends the visit.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.cluster.instance import StartTask
from headrace.client.consuming.consume_statistics import ConsumeStatistics
from headrace.client.consuming.offset_store import OffsetStore
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.push.consume_call import HandlerCalls, Handlers
from headrace.client.consuming.push.consume_handler import Handler
from headrace.client.consuming.push.consume_result import ConsumeContext, Failure, LeftToQueue
from headrace.client.consuming.push.consume_workers import ThreadWorkers
from headrace.client.consuming.push.queue_locks import QueueLocks
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.send_back import SendBack
from headrace.client.namespace import wrap
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)

LOCK_RETRY_S: Final = 3.0
VISIT_S: Final = 0.01  # limit: how much is consumed again after a crash, in addition to the running call
VISIT_MESSAGES: Final = 64
MIN_SUSPEND_S, MAX_SUSPEND_S = 0.01, 30.0
MAX_TIMES: Final = (1 << 31) - 1


@dataclass(slots=True)
class _Visit:
    process_queue: ProcessQueue
    handler: Handler
    messages: Sequence[ReceivedMessage]
    is_one_call: bool
    future: "asyncio.Future[tuple[int, Failure | None]]"


class OrderlyService:
    """Consumes for one group. `locks` and `send_back` are None when broadcasting: nobody else reads the queue."""

    def __init__(
        self,
        handlers: Handlers,
        calls: HandlerCalls,
        store: OffsetStore,
        send_back: SendBack | None,
        locks: QueueLocks | None,
        statistics: ConsumeStatistics,
        start_task: StartTask,
        *,
        workers: int,
        batch_size: int,
        suspend_s: float,
        max_reconsume_times: int,
        namespace: str | None,
        name: str,
    ) -> None:
        self._handlers = handlers
        self._calls = calls
        self._store = store
        self._send_back = send_back
        self._locks = locks
        self._statistics = statistics
        self._start_task = start_task
        self._batch_size = batch_size
        self._suspend_s = suspend_s
        self._max_times = MAX_TIMES if max_reconsume_times < 0 else max_reconsume_times
        self._namespace = namespace
        self._threads = ThreadWorkers[_Visit](workers, self._work, name)
        self._at_once = asyncio.Semaphore(workers)
        self._tasks: dict[asyncio.Task[None], ProcessQueue] = {}
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    def hold(self, process_queue: ProcessQueue) -> None:
        """Called when a queue was assigned to us: starts its task."""
        task = self._start_task(self._consume(process_queue), "orderly queue")
        self._tasks[task] = process_queue
        task.add_done_callback(self._tasks.pop)

    def submit(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Does nothing: the queue's task has noticed the messages."""

    def resize(self, workers: int) -> None:
        """Changes the number of queues that are consumed at once by plain handlers, not by coroutines."""
        self._threads.resize(workers)

    async def _consume(self, process_queue: ProcessQueue) -> None:
        while not process_queue.is_dropped and not self._is_closing:
            if not process_queue.waiting:
                await process_queue.wait_changed()
                continue
            if self._locks is not None and not process_queue.is_lock_valid:
                await self._lock(process_queue, self._locks)
                continue
            async with process_queue.consume_lock:
                if self._is_over(process_queue):
                    return
                suspend_s = await self._turn(process_queue)
            if suspend_s is not None:
                await self._rest(process_queue, min(max(suspend_s, MIN_SUSPEND_S), MAX_SUSPEND_S))

    def _is_over(self, process_queue: ProcessQueue) -> bool:
        return process_queue.is_dropped or self._is_closing

    async def _lock(self, process_queue: ProcessQueue, locks: QueueLocks) -> None:
        granted, _ = await locks.lock([process_queue.queue])
        if granted:
            process_queue.lock_confirmed()
        else:
            await self._rest(process_queue, LOCK_RETRY_S)

    async def _rest(self, process_queue: ProcessQueue, duration_s: float) -> None:
        end = self._loop.time() + duration_s
        while not process_queue.is_dropped and not self._is_closing and (left := end - self._loop.time()) > 0:
            await process_queue.wait_changed(left)

    async def _turn(self, process_queue: ProcessQueue) -> float | None:
        """Calls the handler with some messages. Returns how long to pause then, None for not at all."""
        first = process_queue.first()
        assert first is not None
        topic = wrap(self._namespace, first.topic) if first.origin.is_retry else process_queue.queue.topic
        handler = self._handlers.of_topic(topic)
        is_one_call = handler.is_batch or handler.is_async
        limit = self._batch_size if handler.is_batch else 1 if handler.is_async else VISIT_MESSAGES
        # Messages of a retry topic may have different handlers: one at a time.
        messages = process_queue.take(1 if first.origin.is_retry and not handler.is_batch else limit)
        began = time.perf_counter()
        async with self._at_once:
            if handler.is_async:
                context = ConsumeContext(messages[0].queue)
                try:
                    failure = await self._calls.call_async(handler, messages, context)
                except asyncio.CancelledError:
                    process_queue.rollback(messages)
                    raise
                except LeftToQueue:
                    process_queue.rollback(messages)
                    return None
                done = len(messages) if failure is None else failure.first
            else:
                future: asyncio.Future[tuple[int, Failure | None]] = self._loop.create_future()
                self._threads.put(_Visit(process_queue, handler, messages, is_one_call, future))
                done, failure = await future
        if process_queue.is_dropped and (self._locks is None or not process_queue.is_lock_valid):
            # The queue is lost, perhaps to another member: the result does not count. As long as we have the lock, nobody else reads the queue.
            return None
        sums = self._statistics.of(process_queue.queue.topic)
        sums.calls += 1
        sums.work_s += time.perf_counter() - began
        sums.ok += done
        if failure is None:
            process_queue.rollback(messages[done:])
            self._commit(process_queue)
            return None
        if done == len(messages):
            return self._decided(process_queue, failure)
        sums.failed += 1
        return await self._failed(process_queue, handler, messages, done, failure)

    def _work(self, visit: _Visit) -> None:
        done, failure = 0, None
        if visit.is_one_call:
            failure = self._calls.call(visit.handler, visit.messages, ConsumeContext(visit.messages[0].queue))
            done = len(visit.messages) if failure is None else failure.first
        else:
            process_queue = visit.process_queue
            end = time.monotonic() + VISIT_S
            for message in visit.messages:
                failure = self._calls.call(visit.handler, (message,))
                if failure is not None:
                    break
                done += 1
                is_lost = self._locks is not None and not process_queue.is_lock_valid
                if is_lost or process_queue.is_dropped or self._is_closing or time.monotonic() > end:
                    break
        try:
            self._loop.call_soon_threadsafe(_complete, visit.future, done, failure)
        except RuntimeError:
            logger.warning("handler returned after the loop was closed queue=%s", visit.process_queue.queue.label)

    def _commit(self, process_queue: ProcessQueue) -> None:
        offset = process_queue.commit()
        if offset >= 0:
            # compat: may decrease: a queue that was reset continues where it was set.
            self._store.update(process_queue.queue, offset)

    def _decided(self, process_queue: ProcessQueue, decision: Failure) -> float | None:
        """Handles the result of a handler that commits by itself."""
        if decision.is_committed or decision.decision == "commit":
            self._commit(process_queue)
            return None
        if decision.decision == "rollback":
            process_queue.rollback()
            return self._suspend_of(decision)
        return None

    def _suspend_of(self, failure: Failure) -> float:
        return self._suspend_s if failure.suspend_seconds is None else failure.suspend_seconds

    async def _failed(
        self,
        process_queue: ProcessQueue,
        handler: Handler,
        messages: Sequence[ReceivedMessage],
        done: int,
        failure: Failure,
    ) -> float | None:
        # The messages that failed in one call: all of a batch, or the one. Those not reached wait again.
        failed = messages[done:] if handler.is_batch else messages[done : done + 1]
        reached = done + len(failed)
        hold_up = False
        for message in failed:
            may_come_again = message.reconsume_times < self._max_times and failure.delay_level >= 0
            if may_come_again or not await self._send_dead_letter(message):
                hold_up = True
                message.reconsume_times += 1
        back = messages[done:] if hold_up else messages[reached:]
        process_queue.rollback(back)
        if failure.is_committed or not hold_up:
            self._commit(process_queue)
        return self._suspend_of(failure) if hold_up else None

    async def _send_dead_letter(self, message: ReceivedMessage) -> bool:
        if self._send_back is None:
            logger.warning(
                "message dropped, retries exhausted topic=%s message=%s cause='broadcast consumers have no dead letter queue'",
                message.topic,
                message.message_id,
            )
            return True
        try:
            # The broker sees that its deliveries have reached the maximum and stores it as a dead letter.
            topic = wrap(self._namespace, message.topic)
            await self._send_back.send_anew(
                message, topic, max(self._send_back.max_reconsume_times, message.reconsume_times)
            )
        except HeadraceError as error:
            logger.warning(
                "dead letter not sent, message will be retried topic=%s message=%s error=%r",
                message.topic,
                message.message_id,
                str(error),
            )
            return False
        return True

    async def drain(self, timeout_s: float) -> None:
        """Waits at most `timeout_s` for running handlers."""
        self._is_closing = True
        for process_queue in self._tasks.values():
            process_queue.changed()
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=timeout_s)
            if late:
                logger.warning("handlers still running waited_s=%g queues=%d", timeout_s, len(late))

    async def close(self) -> None:
        """Stops the workers; cancels running coroutines."""
        await self._threads.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _complete(future: "asyncio.Future[tuple[int, Failure | None]]", done: int, failure: Failure | None) -> None:
    if not future.done():
        future.set_result((done, failure))
