"""Automatic batching: messages to one topic that are sent at nearly the same time are sent as one batch (`linger`, `batch_size`).

A batch is sent when it has `batch_size` bytes, or `linger` after its first message. Each sender gets the result of its own message. Messages that no
batch can contain (delayed, of a transaction, to a queue of the caller's choice) are not given to the accumulator.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from headrace.client.cluster.instance import StartTask
from headrace.client.sending.batches import BatchEntry
from headrace.client.sending.send_result import SendResult, stored_result
from headrace.errors import StateError

SendBatch: TypeAlias = Callable[[list[BatchEntry]], Awaitable[SendResult]]
_Key: TypeAlias = tuple[str, bool]


class _Gathering:
    __slots__ = ("entries", "results", "size", "timer")

    def __init__(self) -> None:
        self.entries: list[BatchEntry] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        """Fails the sends that still wait."""
        for future in self.results:
            if not future.done():
                future.set_exception(error)


class Accumulator:
    """Collects messages and sends them with `send_batch`, in tasks that `start_task` creates."""

    def __init__(self, linger_s: float, batch_size: int, send_batch: SendBatch, start_task: StartTask) -> None:
        self._loop = asyncio.get_running_loop()
        self._linger_s = linger_s
        self._batch_size = batch_size
        self._send_batch = send_batch
        self._start_task = start_task
        self._gathering: dict[_Key, _Gathering] = {}
        self._under_way: set[asyncio.Task[Any]] = set()

    def send(self, entry: BatchEntry) -> "asyncio.Future[SendResult]":
        """Sends the message with the next batch. The future fails with the error of that batch."""
        loop = self._loop
        key = entry.message.topic, entry.wait_store
        size = len(entry.data)
        gathering = self._gathering.get(key)
        if gathering is not None and gathering.size + size > self._batch_size:
            self._flush(key)
            gathering = None
        if gathering is None:
            gathering = self._gathering[key] = _Gathering()
            gathering.timer = loop.call_later(self._linger_s, self._flush, key)
        result: asyncio.Future[SendResult] = loop.create_future()
        gathering.entries.append(entry)
        gathering.results.append(result)
        gathering.size += size
        if gathering.size >= self._batch_size:
            self._flush(key)
        return result

    async def flush(self) -> None:
        """Sends what was collected, and waits for all batches in flight."""
        for key in list(self._gathering):
            self._flush(key)
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _flush(self, key: _Key) -> None:
        gathering = self._gathering.pop(key, None)
        if gathering is None:
            return
        if gathering.timer is not None:
            gathering.timer.cancel()
        task = self._start_task(self._deliver(gathering), "batch")
        self._under_way.add(task)
        task.add_done_callback(lambda done: self._delivered(gathering, done))

    async def _deliver(self, gathering: _Gathering) -> None:
        try:
            whole = await self._send_batch(gathering.entries)
        except Exception as error:  # noqa: BLE001 (a hook may raise anything; the senders get it)
            gathering.fail(error)
            return
        for future, result in zip(gathering.results, parts_of(whole, len(gathering.results)), strict=True):
            if not future.done():
                future.set_result(result)

    def _delivered(self, gathering: _Gathering, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        # A batch whose task was cancelled, perhaps before its first step, must leave nobody waiting.
        gathering.fail(
            StateError(
                "the producer was closed before the broker confirmed the message; it may be stored or not", "closed"
            )
        )


def parts_of(whole: SendResult, count: int) -> list[SendResult]:
    """Splits a batch's result into those of its messages: the ids are comma-separated lists, the offsets are consecutive."""
    ids, offset_ids = whole.message_id.split(","), whole.offset_message_id.split(",")
    if len(offset_ids) != count:
        offset_ids = [whole.offset_message_id] * count
    status, queue, first = whole.status, whole.queue, whole.queue_offset
    transaction_id, region, trace_on = whole.transaction_id, whole.region, whole.trace_on
    return [
        stored_result(status, ids[at], offset_ids[at], queue, first + at, transaction_id, region, trace_on)
        for at in range(count)
    ]
