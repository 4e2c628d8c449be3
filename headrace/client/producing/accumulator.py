"""Automatic batching: messages to one topic that are sent at nearly the same time go as one batch (`linger`, `batch_size`).

A batch is sent when it has `batch_size` bytes, or `linger` after its first message. Each sender gets its own result out of the batch's. What
cannot be in a batch (delays, transactions, a queue of the caller's choice) is not given to the accumulator.
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
        """Tells those who still wait."""
        for future in self.results:
            if not future.done():
                future.set_exception(error)


class Accumulator:
    """Gathers messages, and sends them with `send_batch` in tasks made by `start_task`."""

    def __init__(self, linger_s: float, batch_size: int, send_batch: SendBatch, start_task: StartTask) -> None:
        self._loop = asyncio.get_running_loop()
        self._linger_s = linger_s
        self._batch_size = batch_size
        self._send_batch = send_batch
        self._start_task = start_task
        self._gathering: dict[_Key, _Gathering] = {}
        self._under_way: set[asyncio.Task[Any]] = set()

    def send(self, entry: BatchEntry) -> "asyncio.Future[SendResult]":
        """Sends with the next batch. The future fails with what sending the batch raises."""
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
        """Sends what was gathered, and waits for all that is under way."""
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
        except Exception as error:  # noqa: BLE001 (a hook may forbid with what it likes: it is for those who send)
            gathering.fail(error)
            return
        for future, result in zip(gathering.results, parts_of(whole, len(gathering.results)), strict=True):
            if not future.done():
                future.set_result(result)

    def _delivered(self, gathering: _Gathering, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        # A batch that was cut off, perhaps before its first step, leaves nobody waiting.
        gathering.fail(StateError("the producer was closed before the message was known to be stored", "closed"))


def parts_of(whole: SendResult, count: int) -> list[SendResult]:
    """The results of a batch's messages out of the batch's: ids are lists with commas, offsets follow each other."""
    ids, offset_ids = whole.message_id.split(","), whole.offset_message_id.split(",")
    if len(offset_ids) != count:
        offset_ids = [whole.offset_message_id] * count
    status, queue, first = whole.status, whole.queue, whole.queue_offset
    transaction_id, region, trace_on = whole.transaction_id, whole.region, whole.trace_on
    return [
        stored_result(status, ids[at], offset_ids[at], queue, first + at, transaction_id, region, trace_on)
        for at in range(count)
    ]
