"""Requests that the broker relays to clients for tools: runtime information, direct consumption, new offsets (remoting spec 4.19).

The broker changes nothing itself: clients apply and commit the new offsets that they receive. Responses of
clients are passed on unchanged.
"""

import logging
from collections.abc import Callable, Mapping

from broker.admin.admin_handler import AdminHandler, refuse
from broker.clients.clients import Client, ClientTable
from broker.clients.offsets import OffsetTable
from broker.topics.topics import TopicTable
from headrace.errors import RemoteProtocolError, RemotingError, RequestTimeout
from headrace.model.message_id import decode_offset_message_id
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import GetConsumerStatusBody, ResetOffsetBody
from headrace.protocol.headers import ConsumeMessageDirectlyRequestHeader, GetConsumerRunningInfoRequestHeader
from headrace.protocol.headers.offset import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.protocol.version import MIN_RESET_OFFSET_VERSION, MIN_RUNNING_INFO_VERSION, version_text

logger = logging.getLogger(__name__)

RELAY_TIMEOUT_MS = 10_000
STATUS_TIMEOUT_MS = 5_000
_END_OF_QUEUE = -1

Bounds = Callable[[str, int], tuple[int, int]]
OffsetByTime = Callable[[str, int, int], int]


class Relays:
    """Relays tools' requests to consumers. `view(physical_offset)` returns the record there, None if there is none."""

    def __init__(
        self,
        broker_name: str,
        topics: TopicTable,
        clients: ClientTable,
        offsets: OffsetTable,
        bounds: Bounds,
        offset_by_time: OffsetByTime,
        view: Callable[[int], bytes | None],
    ) -> None:
        self._broker_name = broker_name
        self._topics = topics
        self._clients = clients
        self._offsets = offsets
        self._bounds = bounds
        self._offset_by_time = offset_by_time
        self._view = view

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset_offsets,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
        }

    # -- state and direct consumption -------------------------------------------------------------------------------------

    async def running_info(self, command: RemotingCommand) -> RemotingCommand:
        """GET_CONSUMER_RUNNING_INFO (307)."""
        header = GetConsumerRunningInfoRequestHeader.from_ext(command.ext_fields)
        return await self._relay(command, header.consumer_group, header.client_id, dict(command.ext), b"")

    async def consume_directly(self, command: RemotingCommand) -> RemotingCommand:
        """CONSUME_MESSAGE_DIRECTLY (309): the message is read by its offset id and sent with the request."""
        header = ConsumeMessageDirectlyRequestHeader.from_ext(command.ext_fields)
        try:
            _, physical_offset = decode_offset_message_id(header.msg_id or "")
        except ValueError as error:
            return refuse(
                command, ResponseCode.SYSTEM_ERROR, f"{error}: give the offset message id, as `viewMessage` shows it"
            )
        body = self._view(physical_offset)
        if body is None:
            return refuse(
                command, ResponseCode.SYSTEM_ERROR, f"no message begins at {physical_offset}; it may have expired"
            )
        ext = dict(command.ext) | {"brokerName": self._broker_name}
        return await self._relay(command, header.consumer_group, header.client_id, ext, body)

    async def _relay(
        self, command: RemotingCommand, group: str, client_id: str | None, ext: dict[str, str], body: bytes
    ) -> RemotingCommand:
        consumers = self._clients.consumer_group(group)
        client = consumers.find_client(client_id) if consumers is not None and client_id else None
        if client is None:
            return refuse(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"the consumer <{group}> <{client_id}> not online; `consumerConnection` lists the online consumers",
            )
        if client.version < MIN_RUNNING_INFO_VERSION:
            return refuse(command, ResponseCode.SYSTEM_ERROR, _too_old(client, MIN_RUNNING_INFO_VERSION))
        request = create_request(command.code, ext, body, language=LanguageCode.JAVA)
        try:
            answer = await client.connection.request(request, RELAY_TIMEOUT_MS)
        except RequestTimeout:
            return refuse(
                command,
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{client_id}> did not respond within {RELAY_TIMEOUT_MS} ms",
            )
        except RemotingError as error:
            return refuse(
                command, ResponseCode.SYSTEM_ERROR, f"the request to consumer <{group}> <{client_id}> failed: {error}"
            )
        return response_to(command, answer.code, answer.remark, answer.ext_fields, answer.body)

    # -- offsets ----------------------------------------------------------------------------------------------------------

    def reset_offsets(self, command: RemotingCommand) -> RemotingCommand:
        """INVOKE_BROKER_TO_RESET_OFFSET (222): every member is sent the offsets of a time; unless forced, only backwards."""
        header = ResetOffsetRequestHeader.from_ext(command.ext_fields)
        topic = self._topics.find(header.topic)
        if topic is None:
            return refuse(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"reset offset failed, no topic in this broker. topic={header.topic}",
            )
        table: dict[MessageQueue, int] = {}
        for queue_id in range(topic.write_queue_count):
            committed = self._offsets.query(header.group, header.topic, queue_id)
            if committed < 0:
                return refuse(command, ResponseCode.SYSTEM_ERROR, self._without_offset(header, queue_id))
            target = self._target(header, queue_id)
            if not header.is_force:
                target = min(target, committed)
            table[MessageQueue(header.topic, self._broker_name, queue_id)] = target
        consumers = self._clients.consumer_group(header.group)
        if consumers is None:
            return refuse(
                command,
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic}; "
                "start a consumer of the group, or reset its offsets in the console (Reset offsets)",
            )
        too_old = [client for client in consumers.clients.values() if client.version < MIN_RESET_OFFSET_VERSION]
        if too_old:
            return refuse(command, ResponseCode.SYSTEM_ERROR, _too_old(too_old[0], MIN_RESET_OFFSET_VERSION))
        body = ResetOffsetBody(table)
        # compat: requests to clients always say that it is not forced, because the broker has decided already.
        ext = ResetOffsetRequestHeader(header.topic, header.group, header.timestamp, False).to_ext()
        told = body.encode_list() if command.language == LanguageCode.CPP else body.encode()
        for client in consumers.clients.values():
            request = create_request(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(ext), told, language=LanguageCode.JAVA
            )
            client.connection.send_oneway(request)
        logger.info(
            "offset reset requested group=%s topic=%s timestamp=%d clients=%d",
            header.group,
            header.topic,
            header.timestamp,
            len(consumers.clients),
        )
        return response_to(command, ResponseCode.SUCCESS, body=body.encode())

    def _without_offset(self, header: ResetOffsetRequestHeader, queue_id: int) -> str:
        if self._clients.consumer_group(header.group) is None and not self._offsets.by_topic(header.group):
            # compat: the first sentence is RocketMQ's, with its two capital letters.
            return (
                f"THe consumer group <{header.group}> not exist: it has no members and no offsets here; check its name"
            )
        return (
            f"the consumer group <{header.group}> has no offset for queue {queue_id} of topic {header.topic}: "
            "it has not consumed from this queue yet"
        )

    def _target(self, header: ResetOffsetRequestHeader, queue_id: int) -> int:
        if header.timestamp == _END_OF_QUEUE:
            return self._bounds(header.topic, queue_id)[1]
        return max(self._offset_by_time(header.topic, queue_id, header.timestamp), 0)

    async def status(self, command: RemotingCommand) -> RemotingCommand:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): each member's own view of its offsets; those that do not answer are skipped."""
        header = GetConsumerStatusRequestHeader.from_ext(command.ext_fields)
        consumers = self._clients.consumer_group(header.group)
        if consumers is None:
            return refuse(
                command, ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        result = GetConsumerStatusBody()
        for client in list(consumers.clients.values()):
            if header.client_addr and client.client_id != header.client_addr:
                continue
            if client.version < MIN_RESET_OFFSET_VERSION:
                return refuse(command, ResponseCode.SYSTEM_ERROR, _too_old(client, MIN_RESET_OFFSET_VERSION))
            ext = GetConsumerStatusRequestHeader(header.topic, header.group).to_ext()
            request = create_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext, language=LanguageCode.JAVA)
            try:
                answer = await client.connection.request(request, STATUS_TIMEOUT_MS)
                if answer.code == ResponseCode.SUCCESS and answer.body:
                    result.consumer_table[client.client_id] = GetConsumerStatusBody.decode(
                        answer.body, untrusted=True
                    ).message_queue_table
            except (RemotingError, RemoteProtocolError) as error:
                logger.warning(
                    "consumer status not received group=%s client=%s error=%r",
                    header.group,
                    client.client_id,
                    str(error),
                )
        return response_to(command, ResponseCode.SUCCESS, body=result.encode())


def _too_old(client: Client, least: int) -> str:
    return (
        f"the client {client.client_id} has version {version_text(client.version)}, which does not support this request; "
        f"version {version_text(least)} or newer is required"
    )
