"""ConcurrentService: messages to handlers, many at a time, in no order; each is done with by itself (client spec 3.8).

    pulled ─► calls ──► workers ─► done ─────────────────────► out of the process queue; the smallest offset left may be committed
                                 └ failed ─► sent back ───────┘
                                           └ not possible ─► again here, in five seconds; it holds the offset back

So an offset is never committed before all messages below it are done with, or lie elsewhere. What workers have done comes back to the loop in bulk.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from headrace.client.cluster.instance import StartTask
from headrace.client.consuming.consume_statistics import ConsumeStatistics
from headrace.client.consuming.offset_store import OffsetStore
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.push.consume_call import HandlerCalls, Handlers
from headrace.client.consuming.push.consume_handler import Handler
from headrace.client.consuming.push.consume_result import Failure, LeftToQueue
from headrace.client.consuming.push.consume_workers import TaskWorkers, ThreadWorkers
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.send_back import SendBack
from headrace.client.durations import now_ms
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""When a message that could not be sent back is tried again here."""
TURN_S: Final = 0.001  # limit: how long calls in a row may keep the loop from other things
EXPIRED_AT_ONCE: Final = 16
EXPIRED_DELAY_LEVEL: Final = 3


class _Work:
    """What one pull brought for one handler: calls that are still to be made. Workers share it; each takes the first call left.

    `is_offered`: it lies in the workers' queue, for whoever is free.
    """

    __slots__ = ("calls", "handler", "is_offered", "process_queue")

    def __init__(self, process_queue: ProcessQueue, handler: Handler, calls: deque[Sequence[ReceivedMessage]]) -> None:
        self.process_queue = process_queue
        self.handler = handler
        self.calls = calls
        self.is_offered = True


_Done: TypeAlias = tuple[ProcessQueue, Sequence[ReceivedMessage], Failure | None, float]
"""What a call was given, what came of it, and how many seconds it took; less than none: it was not made."""

NOT_MADE: Final = -1.0


class ConcurrentService:
    """Consumes for one group. `send_back` None: failed messages are forgotten (broadcasting)."""

    def __init__(
        self,
        handlers: Handlers,
        calls: HandlerCalls,
        store: OffsetStore,
        send_back: SendBack | None,
        statistics: ConsumeStatistics,
        start_task: StartTask,
        *,
        workers: int,
        batch_size: int,
        name: str,
    ) -> None:
        self._handlers = handlers
        self._calls = calls
        self._store = store
        self._send_back = send_back
        self._statistics = statistics
        self._start_task = start_task
        self._batch_size = batch_size
        self._threads = ThreadWorkers[_Work](workers, self._work, name)
        self._tasks = TaskWorkers[_Work](workers, self._work_async, start_task)
        self._done: deque[_Done] = deque()
        self._is_signalled = False
        self._is_closing = False
        self._outstanding = 0
        self._returning: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._all_back: asyncio.Future[None] | None = None

    def hold(self, process_queue: ProcessQueue) -> None:
        """A queue is ours from now on; nothing is to be done about it."""

    def submit(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Has messages consumed that were put into a process queue."""
        for handler, calls in self._handlers.calls(process_queue.queue, messages, self._batch_size):
            process_queue.outstanding += len(calls)
            self._outstanding += len(calls)
            work = _Work(process_queue, handler, deque(calls))
            if handler.is_async:
                self._tasks.put(work)
            else:
                self._threads.put(work)

    def resize(self, workers: int) -> None:
        """From now on so many handlers at once."""
        self._threads.resize(workers)
        self._tasks.resize(workers)

    # -- workers ----------------------------------------------------------------------------------------------------------

    def _work(self, work: _Work) -> None:
        # In a thread. The queues of calls and of what is done are safe to share: each step on them is one of C's.
        work.is_offered = False
        process_queue, calls, call, handler = work.process_queue, work.calls, self._calls.call, work.handler
        clock, report = time.perf_counter, self._done.append
        now = clock()
        while calls:
            try:
                messages = calls.popleft()
            except IndexError:  # another worker was quicker
                return
            if process_queue.is_dropped or self._is_closing:
                report((process_queue, messages, None, NOT_MADE))
            else:
                if calls and not work.is_offered:
                    # order: offered before the handler is called: it may take its time, and others are free.
                    work.is_offered = True
                    self._threads.put(work)
                outcome = call(handler, messages)
                began, now = now, clock()
                report((process_queue, messages, outcome, now - began))
            # order: reported, then signalled; _collect takes the signal down before it looks, so nothing reported is overlooked.
            if not self._is_signalled:
                self._is_signalled = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    logger.warning("handler came back after the loop was closed topic=%s", process_queue.queue.topic)
                    return

    async def _work_async(self, work: _Work) -> None:
        work.is_offered = False
        process_queue, calls, call, handler = work.process_queue, work.calls, self._calls.call_async, work.handler
        clock, report = time.perf_counter, self._done.append
        turn_began = clock()
        while calls:
            messages = calls.popleft()
            outcome, elapsed_s = None, NOT_MADE
            try:
                if not process_queue.is_dropped and not self._is_closing:
                    if calls and not work.is_offered:
                        work.is_offered = True
                        self._tasks.put(work)
                    began = clock()
                    outcome = await call(handler, messages)
                    elapsed_s = clock() - began
            except LeftToQueue:
                pass
            finally:
                # A handler that is cancelled when the consumer closes has not done with its messages.
                report((process_queue, messages, outcome, elapsed_s))
                if not self._is_signalled:
                    self._is_signalled = True
                    self._loop.call_soon(self._collect)
            if clock() - turn_began > TURN_S:
                # A row of calls none of which may have waited for anything: others have their turn.
                await asyncio.sleep(0)
                turn_began = clock()

    # -- in the loop ------------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        self._is_signalled = False
        done = self._done
        finished: dict[ProcessQueue, list[ReceivedMessage]] = {}
        while done:
            process_queue, messages, outcome, elapsed_s = done.popleft()
            process_queue.outstanding -= 1
            self._outstanding -= 1
            if process_queue.is_dropped or elapsed_s < 0:
                continue
            sums = self._statistics.of(process_queue.queue.topic)
            sums.calls += 1
            sums.work_s += elapsed_s
            if outcome is not None:
                failed = messages[outcome.first :]
                messages = messages[: outcome.first]
                sums.failed += len(failed)
                self._failed(process_queue, failed, outcome.delay_level)
            sums.ok += len(messages)
            if (known := finished.get(process_queue)) is None:
                finished[process_queue] = list(messages)
            else:
                known += messages
        for process_queue, some in finished.items():
            self._finish(process_queue, some)
        if not self._outstanding and self._all_back is not None and not self._all_back.done():
            self._all_back.set_result(None)

    def _finish(self, process_queue: ProcessQueue, messages: Iterable[ReceivedMessage]) -> None:
        offset = process_queue.remove(messages)
        if offset >= 0 and not process_queue.is_dropped:
            self._store.update(process_queue.queue, offset, only_up=True)

    def _failed(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage], delay_level: int) -> None:
        if not messages:
            return
        if self._send_back is None:
            logger.warning("messages failed and are forgotten queue=%s offset=%d count=%d", process_queue.queue,
                           messages[0].queue_offset, len(messages))  # fmt: skip
            self._finish(process_queue, messages)
            return
        task = self._start_task(self._return(process_queue, messages, delay_level), "send back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage], delay_level: int) -> None:
        assert self._send_back is not None
        # One that was not done with for too long has been sent back already.
        messages = [message for message in messages if process_queue.holds(message)]
        broker_name = process_queue.queue.broker_name
        results = await asyncio.gather(
            *(self._send_back.send(message, delay_level, broker_name) for message in messages), return_exceptions=True
        )
        returned, stuck = [], []
        for message, result in zip(messages, results, strict=True):
            if result is None:
                returned.append(message)
            elif isinstance(result, HeadraceError):
                logger.warning("not sent back, tried again here message=%s reason=%s", message.message_id, result)
                message.reconsume_times += 1
                stuck.append(message)
            else:
                raise result
        if returned:
            self._finish(process_queue, returned)
        if stuck:
            self._loop.call_later(AGAIN_S, self._again, process_queue, stuck)

    def _again(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        if not process_queue.is_dropped and not self._is_closing:
            self.submit(process_queue, messages)

    async def clean_expired(self, process_queue: ProcessQueue, timeout_s: float) -> None:
        """Sends back the first messages of a queue if their handler has not returned for too long."""
        for _ in range(EXPIRED_AT_ONCE):
            message = process_queue.first()
            if (
                self._send_back is None
                or process_queue.is_dropped
                or message is None
                or not message.started_ms
                or now_ms() - message.started_ms <= timeout_s * 1000
            ):
                return
            logger.warning("message not done with in time, sent back message=%s", message.message_id)
            try:
                await self._send_back.send(message, EXPIRED_DELAY_LEVEL, process_queue.queue.broker_name)
            except HeadraceError as error:
                logger.warning("expired message not sent back message=%s reason=%s", message.message_id, error)
                return
            if process_queue.first() is message:
                self._finish(process_queue, (message,))

    # -- the end ----------------------------------------------------------------------------------------------------------

    async def drain(self, timeout_s: float) -> None:
        """Lets handlers at work finish, for so long at most; what waits is not begun. Their results count."""
        self._is_closing = True
        end = self._loop.time() + timeout_s
        if self._outstanding:
            self._all_back = self._loop.create_future()
            await asyncio.wait([self._all_back], timeout=timeout_s)
        if self._outstanding:
            logger.warning("handlers still at work after %g s count=%d", timeout_s, self._outstanding)
        if self._returning:
            await asyncio.wait(self._returning, timeout=max(1.0, end - self._loop.time()))

    async def close(self) -> None:
        """Ends the workers; coroutines still at work are cancelled, threads left alone."""
        await self._threads.close()
        await self._tasks.close()
