"""QueuePull: pulls one queue for a push consumer, again and again, until the queue is lost (client spec 3.6, 3.7).

One request is under way at a time. It is held back while enough is here (flow control), and when the queue of an orderly consumer is not locked.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.consume_statistics import ConsumeStatistics
from headrace.client.durations import now_ms
from headrace.client.offset_store import OffsetStore
from headrace.client.process_queue import ProcessQueue
from headrace.client.pull_request import PUSH_SUSPEND_MS, Puller, PullResult, PullStatus
from headrace.client.received_message import ReceivedMessage
from headrace.client.subscriptions import Subscriptions
from headrace.errors import FlowControl, HeadraceError

logger = logging.getLogger(__name__)

ERROR_DELAY_S: Final = 1.0
FLOW_CONTROL_DELAY_S: Final = 0.02
FULL_CHECK_S: Final = 1.0
SAY_FULL_S: Final = 60.0


@dataclass(slots=True)
class FlowLimits:
    """How much of a queue may be here. `span` None: any. They change when queues are shared out anew."""

    count: int
    size_mib: int
    span: int | None

    def excess(self, process_queue: ProcessQueue) -> str | None:
        """What there is too much of; None: go on."""
        if process_queue.count > self.count:
            return f"{process_queue.count} messages"
        if process_queue.size_mib > self.size_mib:
            return f"{process_queue.size_mib} MiB"
        if self.span is not None and process_queue.span > self.span:
            return f"a span of {process_queue.span} offsets"
        return None


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What all queues of a consumer are pulled with."""

    puller: Puller
    store: OffsetStore
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
    """The offset lies outside the queue; go on at this one."""
    on_full: Callable[[ProcessQueue, str], None]
    not_paused: asyncio.Event


class QueuePull:
    """Pulls for one process queue."""

    def __init__(self, plan: PullPlan, process_queue: ProcessQueue) -> None:
        self._plan = plan
        self._process_queue = process_queue
        self._said_full_at = -SAY_FULL_S
        self._topic = process_queue.queue.topic

    async def run(self) -> None:
        """Pulls until the queue is dropped."""
        process_queue, plan = self._process_queue, self._plan
        loop = asyncio.get_running_loop()
        sums = plan.statistics.of(self._topic)
        while not process_queue.is_dropped:
            process_queue.last_pull_ms = now_ms()
            if not plan.not_paused.is_set():
                await plan.not_paused.wait()
                continue
            excess = plan.limits.excess(process_queue)
            if excess is not None:
                self._say_full(loop.time(), excess)
                await process_queue.wait_changed(FULL_CHECK_S)
                continue
            subscription = plan.subscriptions.get(self._topic)
            if subscription is None or (plan.needs_lock and not process_queue.is_locked):
                await process_queue.wait_changed(ERROR_DELAY_S)
                continue
            commit = None if plan.is_broadcast else plan.store.memory(process_queue.queue)
            began = loop.time()
            try:
                result = await plan.puller.pull(
                    process_queue.queue,
                    subscription,
                    process_queue.next_offset,
                    plan.batch_size,
                    commit_offset=commit or 0,
                    suspend_ms=PUSH_SUSPEND_MS,
                    with_expression=plan.with_expression,
                )
            except FlowControl:
                await asyncio.sleep(FLOW_CONTROL_DELAY_S)
                continue
            except HeadraceError as error:
                logger.warning(
                    "pull failed queue=%s offset=%d reason=%s", process_queue.queue, process_queue.next_offset, error
                )
                await asyncio.sleep(ERROR_DELAY_S)
                continue
            if self._is_lost():
                return
            sums.pulls += 1
            sums.pull_s += loop.time() - began
            if self._take(result) and plan.interval_s:
                await asyncio.sleep(plan.interval_s)

    def _is_lost(self) -> bool:
        return self._process_queue.is_dropped

    def _take(self, result: PullResult) -> bool:
        """Whether there were messages."""
        process_queue, plan = self._process_queue, self._plan
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "offset outside the queue queue=%s offset=%d goes_on_at=%d",
                process_queue.queue, process_queue.next_offset, result.next_offset,
            )  # fmt: skip
            process_queue.next_offset = result.next_offset
            plan.on_illegal(process_queue, result.next_offset)
            return False
        process_queue.next_offset = result.next_offset
        if result.messages:
            plan.statistics.of(self._topic).pulled += len(result.messages)
            process_queue.put(result.messages)
            plan.submit(process_queue, result.messages)
            return True
        if result.status is not PullStatus.FOUND and not process_queue.count:
            plan.store.update(process_queue.queue, result.next_offset, only_up=True)
        return False

    def _say_full(self, now: float, excess: str) -> None:
        if now - self._said_full_at >= SAY_FULL_S:
            self._said_full_at = now
            logger.info("not pulled, enough is here queue=%s has=%s", self._process_queue.queue, excess)
            self._plan.on_full(self._process_queue, excess)
