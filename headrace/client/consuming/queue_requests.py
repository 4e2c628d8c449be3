"""Requests about one queue to the master of its broker: its bounds, and a group's offset (client spec 5, 3.10)."""

from typing import Final

from headrace.client.cluster.answers import expect_success
from headrace.client.cluster.instance import ClientInstance
from headrace.model.message_queue import MessageQueue
from headrace.protocol.headers import (
    CommandHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.response_code import ResponseCode

TIMEOUT_MS: Final = 6_000
OFFSET_TIMEOUT_MS: Final = 5_000


async def _ask(
    instance: ClientInstance, queue: MessageQueue, header: CommandHeader, timeout_ms: int
) -> tuple[RemotingCommand, str]:
    address = instance.vip(await instance.find_broker(queue.broker_name, queue.topic))
    assert header.CODE is not None
    return await instance.request(address, create_request(header.CODE, header.to_ext()), timeout_ms), address


async def _offset(instance: ClientInstance, queue: MessageQueue, header: CommandHeader) -> int:
    answer, address = await _ask(instance, queue, header, TIMEOUT_MS)
    return OffsetResponseHeader.from_ext(expect_success(answer, address).ext).offset


async def max_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """Returns the offset of the next message to be written; 0 for a queue that does not exist. Raises BrokerNotFound, BrokerError, RemotingError."""
    return await _offset(
        instance, queue, GetMaxOffsetRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)
    )


async def min_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """Returns the offset of the first message that is still stored; 0 for a queue that does not exist. Raises as `max_offset` does."""
    return await _offset(
        instance, queue, GetMinOffsetRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)
    )


async def search_offset(instance: ClientInstance, queue: MessageQueue, timestamp_ms: int) -> int:
    """Returns the offset of the message stored nearest to a time. Raises as `max_offset` does."""
    header = SearchOffsetRequestHeader(queue.topic, queue.queue_id, timestamp_ms, bname=queue.broker_name)
    return await _offset(instance, queue, header)


async def earliest_store_time(instance: ClientInstance, queue: MessageQueue) -> int:
    """Returns when the queue's first message was stored, ms; -1 if it has none. Raises as `max_offset` does."""
    header = GetEarliestMsgStoretimeRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)
    answer, address = await _ask(instance, queue, header, TIMEOUT_MS)
    return GetEarliestMsgStoretimeResponseHeader.from_ext(expect_success(answer, address).ext).timestamp


async def consumer_offset(instance: ClientInstance, group: str, queue: MessageQueue) -> int | None:
    """Returns the offset of a group at the broker, None if it has none. Raises as `max_offset` does."""
    header = QueryConsumerOffsetRequestHeader(group, queue.topic, queue.queue_id, bname=queue.broker_name)
    answer, address = await _ask(instance, queue, header, OFFSET_TIMEOUT_MS)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    return OffsetResponseHeader.from_ext(expect_success(answer, address).ext).offset


async def update_consumer_offset(instance: ClientInstance, group: str, queue: MessageQueue, offset: int) -> None:
    """Stores a group's offset at the broker. Raises as `max_offset` does."""
    header = UpdateConsumerOffsetRequestHeader(group, queue.topic, queue.queue_id, offset, bname=queue.broker_name)
    expect_success(*await _ask(instance, queue, header, OFFSET_TIMEOUT_MS))
