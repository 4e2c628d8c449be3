"""Requests that brokers send to clients, by request code, and which member handles them (client spec 1.14)."""

import logging

from headrace.client.cluster.members import ConsumerMember, ProducerMember, TransactionCheck
from headrace.client.cluster.replies import Replies
from headrace.client.durations import now_ms
from headrace.model import properties as property_names
from headrace.model import sys_flag as sys_flags
from headrace.model.host import Host, parse_host
from headrace.model.message import MessageExt
from headrace.protocol.bodies import GetConsumerStatusBody, ResetOffsetBody
from headrace.protocol.compression import decompress
from headrace.protocol.headers import (
    CheckTransactionStateRequestHeader,
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    ReplyMessageRequestHeader,
    ResetOffsetRequestHeader,
)
from headrace.protocol.record import decode_record
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable

logger = logging.getLogger(__name__)


class BrokerRequests:
    """Handles brokers' requests for the members of one instance."""

    def __init__(
        self, producers: dict[str, ProducerMember], consumers: dict[str, ConsumerMember], replies: Replies
    ) -> None:
        self._producers = producers
        self._consumers = consumers
        self._replies = replies

    def register(self, handlers: HandlerTable) -> None:
        """Registers all handlers."""
        handlers.register(RequestCode.CHECK_TRANSACTION_STATE, self._check_transaction)
        handlers.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._notify)
        handlers.register(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset_offsets)
        handlers.register(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._consumer_status)
        handlers.register(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info)
        handlers.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly)
        handlers.register(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._reply)

    def _check_transaction(self, connection: Connection, command: RemotingCommand) -> None:
        header = CheckTransactionStateRequestHeader.from_ext(command.ext)
        message = decode_record(command.body, inflate=True)
        group = message.properties.get(property_names.PRODUCER_GROUP, "")
        producer = self._producers.get(group)
        if producer is None:
            logger.warning(
                "transaction check dropped, producer group not found group=%s broker=%s", group, connection.remote
            )
            return
        producer.check_transaction(TransactionCheck(message, header, connection))

    def _notify(self, _connection: Connection, command: RemotingCommand) -> None:
        header = NotifyConsumerIdsChangedRequestHeader.from_ext(command.ext)
        logger.debug("group members changed group=%s", header.consumer_group)
        # compat: whichever group it names, all consumers of the instance rebalance.
        for consumer in self._consumers.values():
            consumer.rebalance_soon()

    async def _reset_offsets(self, _connection: Connection, command: RemotingCommand) -> None:
        header = ResetOffsetRequestHeader.from_ext(command.ext)
        consumer = self._consumers.get(header.group)
        if consumer is not None:
            offsets = ResetOffsetBody.decode(command.body).offset_table
            logger.info("offsets reset group=%s topic=%s queues=%d", header.group, header.topic, len(offsets))
            await consumer.reset_offsets(header.topic, offsets)

    def _consumer_status(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        header = GetConsumerStatusRequestHeader.from_ext(command.ext)
        consumer = self._consumers.get(header.group)
        offsets = consumer.offsets(header.topic) if consumer is not None else {}
        return response_to(command, ResponseCode.SUCCESS, body=GetConsumerStatusBody(offsets).encode())

    async def _running_info(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        header = GetConsumerRunningInfoRequestHeader.from_ext(command.ext)
        consumer = self._consumers.get(header.consumer_group)
        if consumer is None:
            return _no_such_group(command, header.consumer_group)
        info = await consumer.running_info(with_stacks=header.jstack_enable)
        return response_to(command, ResponseCode.SUCCESS, body=info.encode())

    async def _consume_directly(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        header = ConsumeMessageDirectlyRequestHeader.from_ext(command.ext)
        consumer = self._consumers.get(header.consumer_group)
        if consumer is None:
            return _no_such_group(command, header.consumer_group)
        message = decode_record(command.body, inflate=True)
        result = await consumer.consume_directly(message, header.broker_name)
        return response_to(command, ResponseCode.SUCCESS, body=result.encode())

    def _reply(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        header = ReplyMessageRequestHeader.from_ext(command.ext)
        body, sys_flag = command.body, header.sys_flag
        if sys_flag & sys_flags.COMPRESSED:
            body, sys_flag = decompress(body, sys_flag), sys_flag & ~sys_flags.COMPRESSED
        properties = property_names.decode_properties(header.properties or "")
        properties[property_names.ARRIVE_TIME] = str(now_ms())
        reply = MessageExt(
            header.topic,
            header.queue_id,
            sys_flag=sys_flag,
            flag=header.flag,
            body=body,
            born_timestamp=header.born_timestamp,
            born_host=_host(header.born_host),
            store_timestamp=header.store_timestamp,
            store_host=_host(header.store_host),
            reconsume_times=header.reconsume_times or 0,
            properties=properties,
        )
        self._replies.arrived(reply)
        return response_to(command, ResponseCode.SUCCESS)


def _host(text: str) -> Host:
    try:
        return parse_host(text.removeprefix("/"))
    except ValueError:
        return ("0.0.0.0", 0)


def _no_such_group(command: RemotingCommand, group: str) -> RemotingCommand:
    return response_to(command, ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer")
