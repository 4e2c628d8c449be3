"""ConcurrentService: gives messages to handlers, many at a time, in no order; each message is completed by itself (client spec 3.8).

    pulled ─► calls ──► workers ─► success ──────────────────► removed from the process queue; the smallest offset left may be committed
                                 └ failed ─► sent back ───────┘
                                           └ not possible ─► retried here in five seconds; until then it holds the offset back

So an offset is never committed before all messages below it are consumed or sent back. Workers return their results to the loop in bulk.
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

RETRY_S: Final = 5.0
"""When a message that could not be sent back is retried here."""
TURN_S: Final = 0.001  # limit: how long successive calls may block the loop
EXPIRED_AT_ONCE: Final = 16
EXPIRED_DELAY_LEVEL: Final = 3


class _Work:
    """The calls for one handler that one pull resulted in. Workers share it; each takes the first call left.

    `is_offered`: it is in the workers' queue, for any idle worker.
    """

    __slots__ = ("calls", "handler", "is_offered", "process_queue")

    def __init__(self, process_queue: ProcessQueue, handler: Handler, calls: deque[Sequence[ReceivedMessage]]) -> None:
        self.process_queue = process_queue
        self.handler = handler
        self.calls = calls
        self.is_offered = True


_Done: TypeAlias = tuple[ProcessQueue, Sequence[ReceivedMessage], Failure | None, float]
"""The messages of a call, its outcome, and its duration in seconds; negative: the call was not made."""

NOT_MADE: Final = -1.0


class ConcurrentService:
    """Consumes for one group. `send_back` None: failed messages are dropped (broadcasting)."""

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
        """Called when a queue was assigned to us; there is nothing to do."""

    def submit(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Passes messages that were put into a process queue to their handlers."""
        for handler, calls in self._handlers.calls(process_queue.queue, messages, self._batch_size):
            process_queue.outstanding += len(calls)
            self._outstanding += len(calls)
            work = _Work(process_queue, handler, deque(calls))
            if handler.is_async:
                self._tasks.put(work)
            else:
                self._threads.put(work)

    def resize(self, workers: int) -> None:
        """Changes the number of concurrent handlers."""
        self._threads.resize(workers)
        self._tasks.resize(workers)

    # -- workers ----------------------------------------------------------------------------------------------------------

    def _work(self, work: _Work) -> None:
        # In a thread. The queues of calls and results are safe to share: each operation on them is a single one in C.
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
                    # order: offered before the handler is called: it may take long, and others are idle.
                    work.is_offered = True
                    self._threads.put(work)
                outcome = call(handler, messages)
                began, now = now, clock()
                report((process_queue, messages, outcome, now - began))
            # order: reported, then signalled; _collect resets the signal before it looks, so no report is missed.
            if not self._is_signalled:
                self._is_signalled = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    logger.warning("handler returned after the loop was closed topic=%s", process_queue.queue.topic)
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
                # A handler that is cancelled because the consumer closes has not consumed its messages.
                report((process_queue, messages, outcome, elapsed_s))
                if not self._is_signalled:
                    self._is_signalled = True
                    self._loop.call_soon(self._collect)
            if clock() - turn_began > TURN_S:
                # Successive calls may not have waited for anything: let other tasks run.
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
            logger.warning("failed messages dropped queue=%s offset=%d count=%d", process_queue.queue.label,
                           messages[0].queue_offset, len(messages))  # fmt: skip
            self._finish(process_queue, messages)
            return
        task = self._start_task(self._return(process_queue, messages, delay_level), "send back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage], delay_level: int) -> None:
        assert self._send_back is not None
        # Expired messages have been sent back already.
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
                logger.warning(
                    "message not sent back, will be retried locally message=%s error=%r",
                    message.message_id,
                    str(result),
                )
                message.reconsume_times += 1
                stuck.append(message)
            else:
                raise result
        if returned:
            self._finish(process_queue, returned)
        if stuck:
            self._loop.call_later(RETRY_S, self._again, process_queue, stuck)

    def _again(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        if not process_queue.is_dropped and not self._is_closing:
            self.submit(process_queue, messages)

    async def clean_expired(self, process_queue: ProcessQueue, timeout_s: float) -> None:
        """Sends back the first messages of a queue if their handler has not returned in time."""
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
            logger.warning("handler timed out, sending the message back message=%s", message.message_id)
            try:
                await self._send_back.send(message, EXPIRED_DELAY_LEVEL, process_queue.queue.broker_name)
            except HeadraceError as error:
                logger.warning(
                    "message not sent back after handler timeout message=%s error=%r", message.message_id, str(error)
                )
                return
            if process_queue.first() is message:
                self._finish(process_queue, (message,))

    # -- the end ----------------------------------------------------------------------------------------------------------

    async def drain(self, timeout_s: float) -> None:
        """Waits at most `timeout_s` for running handlers, whose results count; starts no others."""
        self._is_closing = True
        end = self._loop.time() + timeout_s
        if self._outstanding:
            self._all_back = self._loop.create_future()
            await asyncio.wait([self._all_back], timeout=timeout_s)
        if self._outstanding:
            logger.warning("handlers still running at shutdown waited_s=%g count=%d", timeout_s, self._outstanding)
        if self._returning:
            await asyncio.wait(self._returning, timeout=max(1.0, end - self._loop.time()))

    async def close(self) -> None:
        """Stops the workers; cancels running coroutines, and leaves running threads alone."""
        await self._threads.close()
        await self._tasks.close()
