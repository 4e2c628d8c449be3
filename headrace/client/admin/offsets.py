"""Offsets: the bounds of queues, the offsets of groups, and how to change them."""

import asyncio

from headrace.client.admin.calls import LONG_TIMEOUT_MS, AdminCalls
from headrace.client.admin.progress import OffsetChange
from headrace.client.consuming import queue_requests
from headrace.client.durations import Moment, epoch_ms
from headrace.errors import BrokerError
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import (
    ConsumerConnection,
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from headrace.protocol.headers import (
    CloneGroupOffsetRequestHeader,
    GetConsumerConnectionListRequestHeader,
    QueryCorrectionOffsetRequestHeader,
    ResetOffsetRequestHeader,
)
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

LATEST = -1
"""In place of a time: the end of each queue."""


_QUEUES_AT_ONCE = 8  # limit: four requests each


class OffsetAdmin(AdminCalls):
    """Administration of offsets. Calls about one queue go to the master of its broker; all raise BrokerNotFound, BrokerError, RemotingError."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the next message to be written."""
        return await queue_requests.max_offset(self._instance, self._wrap_queue(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the first message that is still stored."""
        return await queue_requests.min_offset(self._instance, self._wrap_queue(queue))

    async def search_offset(self, queue: MessageQueue, moment: Moment) -> int:
        """Returns the offset of the message stored nearest to a time (aware datetime, or ms since 1970)."""
        return await queue_requests.search_offset(self._instance, self._wrap_queue(queue), epoch_ms(moment))

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Returns when the first message that is still stored was stored, ms since 1970; -1 for an empty queue."""
        return await queue_requests.earliest_store_time(self._instance, self._wrap_queue(queue))

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns the offset at which a group continues, None if none is stored."""
        return await queue_requests.consumer_offset(self._instance, self._wrap(group), self._wrap_queue(queue))

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Stores a group's offset. Connected consumers do not notice and overwrite it: use `reset_offsets` for those."""
        await queue_requests.update_consumer_offset(self._instance, self._wrap(group), self._wrap_queue(queue), offset)

    async def reset_offsets(
        self, group: str, topic: str, moment: Moment = LATEST, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Resets a group to the offsets of a time (LATEST: the ends), at all brokers of the topic; returns the new offsets.

        Connected consumers are notified and continue there after about ten seconds; if none is connected the stored offsets are changed. Without
        `force` offsets only move backwards. Raises RouteNotFound, BrokerError, RemotingError.
        """
        timestamp = LATEST if moment == LATEST else epoch_ms(moment)
        header = ResetOffsetRequestHeader(self._wrap(topic), self._wrap(group), timestamp, force)
        done: dict[MessageQueue, int] = {}
        for broker_name, address in (await self._brokers_of(topic)).items():
            try:
                body = await self._body(ResetOffsetBody, address, header)
                done.update(self._unwrap_queues(body.offset_table))
            except BrokerError as error:
                # compat: RocketMQ rejects a group without an offset for one of the queues before it looks whether a member is connected.
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE and await self._is_connected(group, address):
                    raise
                done.update(await self._reset_offline(group, topic, broker_name, timestamp, force=force))
        return done

    async def preview_reset(
        self, group: str, topic: str, moment: Moment = LATEST, *, force: bool = True
    ) -> list[OffsetChange]:
        """Returns for each queue what `reset_offsets` with the same arguments would change. Changes nothing.

        Raises RouteNotFound, BrokerError, RemotingError.
        """
        timestamp = LATEST if moment == LATEST else epoch_ms(moment)
        limit = asyncio.Semaphore(_QUEUES_AT_ONCE)

        async def preview(queue: MessageQueue) -> OffsetChange:
            async with limit:
                first, end, stored, target = await asyncio.gather(
                    queue_requests.min_offset(self._instance, queue),
                    queue_requests.max_offset(self._instance, queue),
                    queue_requests.consumer_offset(self._instance, self._wrap(group), queue),
                    self._offset_at(queue, timestamp),
                )
            if not force and stored is not None:
                target = min(stored, target)
            return OffsetChange(self._unwrap_queue(queue), first, end, stored, target)

        queues = (await self._fresh_route(topic)).subscribe_queues
        return list(await asyncio.gather(*map(preview, queues)))

    async def consumer_offsets(self, broker: str) -> dict[str, dict[str, dict[int, int]]]:
        """Returns the offsets of all groups at the broker at an address: by group, topic and queue id (names with the namespace)."""
        answer = await self._body(ConsumerOffsetSerializeWrapper, broker, RequestCode.GET_ALL_CONSUMER_OFFSET)
        found: dict[str, dict[str, dict[int, int]]] = {}
        for key, offsets in answer.offset_table.items():
            topic, _, group = key.partition("@")
            found.setdefault(group, {})[topic] = offsets
        return found

    async def delay_offsets(self, broker: str) -> dict[int, int]:
        """Returns by delay level the offset in SCHEDULE_TOPIC_XXXX up to which the broker at an address has delivered.

        Raises BrokerError at a broker of RocketMQ that has not stored its first offsets yet.
        """
        return (await self._body(DelayOffsetSerializeWrapper, broker, RequestCode.GET_ALL_DELAY_OFFSET)).offset_table

    async def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, offline: bool = True, cluster: str | None = None
    ) -> None:
        """Copies the offsets of one group to another, for one topic or all, at the masters of a cluster or of all."""
        header = CloneGroupOffsetRequestHeader(
            self._wrap(source), self._wrap(target), self._wrap(topic) if topic else None, offline
        )
        for address in await self._targets(None, cluster):
            await self._ask(address, header, timeout_ms=LONG_TIMEOUT_MS)

    async def correction_offsets(
        self, broker: str, topic: str, group: str, filter_groups: tuple[str, ...] = ()
    ) -> dict[int, int]:
        """Returns by queue id the smallest offset of all other groups at the broker at an address, where the group is not behind it."""
        header = QueryCorrectionOffsetRequestHeader(
            self._wrap(topic), self._wrap(group), ",".join(map(self._wrap, filter_groups)) or None
        )
        return (await self._body(QueryCorrectionOffsetBody, broker, header)).correction_offsets

    async def _is_connected(self, group: str, address: str) -> bool:
        """Whether a member of the group is connected to the broker and must be notified."""
        header = GetConsumerConnectionListRequestHeader(self._wrap(group))
        try:
            return bool((await self._body(ConsumerConnection, address, header)).connection_set)
        except BrokerError as error:
            return error.code != ResponseCode.CONSUMER_NOT_ONLINE

    async def _reset_offline(
        self, group: str, topic: str, broker_name: str, timestamp: int, *, force: bool
    ) -> dict[MessageQueue, int]:
        done: dict[MessageQueue, int] = {}
        route = await self._fresh_route(topic)
        for queue in route.subscribe_queues:
            if queue.broker_name != broker_name:
                continue
            target = await self._offset_at(queue, timestamp)
            stored = await queue_requests.consumer_offset(self._instance, self._wrap(group), queue)
            if not force and stored is not None and target >= stored:
                target = stored
            await queue_requests.update_consumer_offset(self._instance, self._wrap(group), queue, max(target, 0))
            done[self._unwrap_queue(queue)] = max(target, 0)
        return done

    async def _offset_at(self, queue: MessageQueue, timestamp: int) -> int:
        """Returns the offset that a reset to a time sets."""
        if timestamp == LATEST:
            return await queue_requests.max_offset(self._instance, queue)
        return max(await queue_requests.search_offset(self._instance, queue, timestamp), 0)
