"""Offsets: the bounds of queues, the offsets of groups, and how to change them."""

from headrace.client.admin.calls import LONG_TIMEOUT_MS, AdminCalls
from headrace.client.consuming import queue_requests
from headrace.client.durations import Moment, epoch_ms
from headrace.errors import BrokerError
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumerConnection, QueryCorrectionOffsetBody, ResetOffsetBody
from headrace.protocol.headers import (
    CloneGroupOffsetRequestHeader,
    GetConsumerConnectionListRequestHeader,
    QueryCorrectionOffsetRequestHeader,
    ResetOffsetRequestHeader,
)
from headrace.protocol.response_code import ResponseCode

LATEST = -1
"""In place of a time: the end of each queue."""


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
                done.update({self._unwrap_queue(queue): offset for queue, offset in body.offset_table.items()})
            except BrokerError as error:
                # compat: RocketMQ rejects a group without an offset for one of the queues before it looks whether a member is connected.
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE and await self._is_connected(group, address):
                    raise
                done.update(await self._reset_offline(group, topic, broker_name, timestamp, force=force))
        return done

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
            if timestamp == LATEST:
                target = await queue_requests.max_offset(self._instance, queue)
            else:
                target = await queue_requests.search_offset(self._instance, queue, timestamp)
            stored = await queue_requests.consumer_offset(self._instance, self._wrap(group), queue)
            if not force and stored is not None and target >= stored:
                target = stored
            await queue_requests.update_consumer_offset(self._instance, self._wrap(group), queue, max(target, 0))
            done[self._unwrap_queue(queue)] = max(target, 0)
        return done
