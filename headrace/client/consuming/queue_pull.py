"""QueuePull: pulls one queue for a push consumer until the queue is lost (client spec 3.6, 3.7).

One request is in flight at a time. Pulling pauses while enough messages wait here (flow control), and while an orderly consumer's queue is not locked.

Pulls also carry the group's offset, so that little is consumed again after a crash. The broker does not hold such a pull. When the queue is
released, its answer is awaited, because an offset still in flight could be stored after the final one.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.consuming.consume_statistics import ConsumeStatistics
from headrace.client.consuming.offset_store import Offsets
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.puller import (
    AT_ONCE_TIMEOUT_MS,
    PUSH_SUSPEND_MS,
    SUSPENDED_TIMEOUT_MS,
    Puller,
    PullResult,
    PullStatus,
)
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.subscriptions import Subscriptions
from headrace.client.durations import now_ms
from headrace.errors import BrokerError, FlowControl, HeadraceError
from headrace.model.subscription import SubscriptionData
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)

ERROR_DELAY_S: Final = 1.0
FLOW_CONTROL_DELAY_S: Final = 0.02
FULL_CHECK_S: Final = 1.0
REPORT_FULL_S: Final = 60.0
STORE_S: Final = 1.0
"""How often a pull carries the offset of a queue that is consumed as fast as it grows: each time costs an additional pull."""
_NOTHING: Final = contextlib.nullcontext()
_NOT_KNOWN: Final = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
)
"""The broker was restarted, or another member's heartbeat overtook ours."""


@dataclass(slots=True)
class FlowLimits:
    """How much of a queue may wait here. `span` None: no limit. The limits change when queues are reassigned."""

    count: int
    size_mib: int
    span: int | None

    def excess(self, process_queue: ProcessQueue) -> str | None:
        """Returns which limit is exceeded, and by what; None if none is."""
        if process_queue.count > self.count:
            return f"{process_queue.count} messages"
        if process_queue.size_mib > self.size_mib:
            return f"{process_queue.size_mib} MiB"
        if self.span is not None and process_queue.span > self.span:
            return f"a span of {process_queue.span} offsets"
        return None


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What the pulls of all queues of a consumer share."""

    puller: Puller
    store: Offsets
    subscriptions: Subscriptions
    statistics: ConsumeStatistics
    limits: FlowLimits
    batch_size: int
    interval_s: float
    with_expression: bool
    is_broadcast: bool
    needs_lock: bool
    submit: Callable[[ProcessQueue, Sequence[ReceivedMessage]], None]
    on_illegal: Callable[[ProcessQueue, int], None]
    """Called if the offset is outside the queue, with the offset to continue at."""
    on_full: Callable[[ProcessQueue, str], None]
    introduce: Callable[[], Awaitable[None]]
    """Sends the subscriptions to the brokers."""
    not_paused: asyncio.Event


class QueuePull:
    """Pulls one process queue."""

    def __init__(self, plan: PullPlan, process_queue: ProcessQueue) -> None:
        self._plan = plan
        self._process_queue = process_queue
        self._reported_full_at = -REPORT_FULL_S
        self._topic = process_queue.queue.topic
        self._subscription: SubscriptionData | None = None
        self._is_behind = False
        self._stored = 0
        self._stored_at = -math.inf
        self._is_introduced = True

    async def run(self) -> None:
        """Pulls until the queue is dropped."""
        process_queue, plan = self._process_queue, self._plan
        loop = asyncio.get_running_loop()
        sums = plan.statistics.of(self._topic)
        while not self._is_over():
            process_queue.last_pull_ms = now_ms()
            if not plan.not_paused.is_set():
                await plan.not_paused.wait()
                continue
            excess = plan.limits.excess(process_queue)
            if excess is not None:
                self._report_full(loop.time(), excess)
                await process_queue.wait_changed(FULL_CHECK_S)
                continue
            subscription = self._subscribed()
            if subscription is None or (plan.needs_lock and not process_queue.is_locked):
                await process_queue.wait_changed(ERROR_DELAY_S)
                continue
            process_queue.is_storing = True
            offset, turn = await self._offset_to_store(loop.time())
            process_queue.is_storing = offset > 0
            if self._is_over():
                return
            began = loop.time()
            try:
                async with turn:
                    result = await plan.puller.pull(
                        process_queue.queue,
                        subscription,
                        process_queue.next_offset,
                        plan.batch_size,
                        commit_offset=offset,
                        suspend_ms=0 if offset else PUSH_SUSPEND_MS,
                        timeout_ms=AT_ONCE_TIMEOUT_MS if offset else SUSPENDED_TIMEOUT_MS,
                        with_expression=plan.with_expression,
                    )
            except FlowControl:
                self._stored = 0
                await asyncio.sleep(FLOW_CONTROL_DELAY_S)
                continue
            except HeadraceError as error:
                self._stored = 0
                process_queue.is_storing = False
                if isinstance(error, BrokerError) and error.code in _NOT_KNOWN:
                    await plan.introduce()
                    if self._is_introduced:
                        self._is_introduced = False
                        continue
                if self._is_over():
                    return
                logger.warning(
                    "pull failed queue=%s offset=%d error=%r",
                    process_queue.queue.label,
                    process_queue.next_offset,
                    str(error),
                )
                await asyncio.sleep(ERROR_DELAY_S)
                continue
            finally:
                process_queue.is_storing = False
            if self._is_over():
                return
            self._is_introduced = True
            sums.pulls += 1
            sums.pull_s += loop.time() - began
            if self._take(result) and plan.interval_s:
                await asyncio.sleep(plan.interval_s)

    def _is_over(self) -> bool:
        return self._process_queue.is_dropped or not self._process_queue.is_pulled

    def _subscribed(self) -> SubscriptionData | None:
        """Returns the subscription to pull with: the one that was current when its expression was first used here.

        When queues are reassigned it gets a new version, and brokers reject a pull with a version that they do not know yet.
        """
        now, known = self._plan.subscriptions.get(self._topic), self._subscription
        if (
            now is None
            or known is None
            or (now.sub_string, now.expression_type) != (known.sub_string, known.expression_type)
        ):
            self._subscription = now
        return self._subscription

    async def _offset_to_store(self, now: float) -> tuple[int, contextlib.AbstractAsyncContextManager[None]]:
        """Returns the offset that the next pull carries (0: none), and what to hold meanwhile."""
        plan, queue = self._plan, self._process_queue.queue
        offset = 0 if plan.is_broadcast else plan.store.memory(queue) or 0
        is_time = now - self._stored_at >= STORE_S
        if offset and offset != self._stored and (is_time or self._is_behind):
            turn = plan.store.by_pull(queue)
            if turn is not None:
                self._stored, self._stored_at = offset, now
                return offset, turn
            if is_time:
                self._stored_at = now
                await plan.store.persist([queue])
        return 0, _NOTHING

    def _take(self, result: PullResult) -> bool:
        """Takes the result over; returns whether there were messages."""
        process_queue, plan = self._process_queue, self._plan
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "offset out of range queue=%s offset=%d next_offset=%d",
                process_queue.queue.label, process_queue.next_offset, result.next_offset,
            )  # fmt: skip
            process_queue.next_offset = result.next_offset
            plan.on_illegal(process_queue, result.next_offset)
            return False
        process_queue.next_offset = result.next_offset
        self._is_behind = result.next_offset < result.max_offset
        if result.messages:
            plan.statistics.of(self._topic).pulled += len(result.messages)
            process_queue.put(result.messages)
            plan.submit(process_queue, result.messages)
            return True
        if result.status is not PullStatus.FOUND and not process_queue.count:
            plan.store.update(process_queue.queue, result.next_offset, only_up=True)
        return False

    def _report_full(self, now: float, excess: str) -> None:
        if now - self._reported_full_at >= REPORT_FULL_S:
            self._reported_full_at = now
            logger.info("pull paused by flow control queue=%s buffered=%r", self._process_queue.queue.label, excess)
            self._plan.on_full(self._process_queue, excess)
