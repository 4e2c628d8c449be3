"""The connected clients: consumers and producers of a group, all producers, the groups that consume a topic (admin spec 4.4)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from broker.admin.admin_handler import AdminHandler, refuse, respond
from broker.admin.connected_clients import ConnectedClient, ConnectedClients
from broker.clients.offsets import OffsetTable
from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.protocol.bodies.connections import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from headrace.protocol.bodies.tables import GroupList
from headrace.protocol.headers.admin import QueryTopicConsumeByWhoRequestHeader
from headrace.protocol.headers.client import (
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

E = TypeVar("E", bound=StrEnum)


class ClientAdmin:
    """Answers from the table of connected clients and from committed offsets."""

    def __init__(self, clients: ConnectedClients, offsets: OffsetTable) -> None:
        self._clients = clients
        self._offsets = offsets

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
        }

    def consumer_connections(self, command: RemotingCommand) -> RemotingCommand:
        """GET_CONSUMER_CONNECTION_LIST (203)."""
        name = GetConsumerConnectionListRequestHeader.from_ext(command.ext_fields).consumer_group
        group = self._clients.consumer_group(name)
        if group is None:
            return refuse(command, ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        # compat: tools fail on a body that lacks one of the three words; a group always has them after a heartbeat.
        return respond(
            command,
            ConsumerConnection(
                _connections(group.clients.values()),
                dict(group.subscriptions),
                _member_of(ConsumeType, group.consume_type),
                _member_of(MessageModel, group.message_model),
                _member_of(ConsumeFromWhere, group.consume_from_where),
            ),
        )

    def producer_connections(self, command: RemotingCommand) -> RemotingCommand:
        """GET_PRODUCER_CONNECTION_LIST (204)."""
        name = GetProducerConnectionListRequestHeader.from_ext(command.ext_fields).producer_group
        producers = self._clients.producers(name)
        if not producers:
            return refuse(command, ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return respond(command, ProducerConnection(_connections(producers)))

    def all_producers(self, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_PRODUCER_INFO (328)."""
        data = {
            group: [_producer_info(client) for client in clients]
            for group, clients in self._clients.producer_groups().items()
            if clients
        }
        return respond(command, ProducerTableInfo(data))

    def groups_of_topic(self, command: RemotingCommand) -> RemotingCommand:
        """QUERY_TOPIC_CONSUME_BY_WHO (300): groups that subscribe to the topic, and those that have committed offsets of it."""
        topic = QueryTopicConsumeByWhoRequestHeader.from_ext(command.ext_fields).topic
        groups = {*self._clients.groups_subscribing(topic), *self._offsets.groups_of(topic)}
        return respond(command, GroupList(sorted(groups)))


def _connections(clients: Iterable[ConnectedClient]) -> list[Connection]:
    return [
        Connection(client.client_id, client.connection.remote, _language(client), client.version) for client in clients
    ]


def _producer_info(client: ConnectedClient) -> ProducerInfo:
    # compat: the text of a Java InetSocketAddress has the slash, and tools print it unchanged.
    address = f"/{client.connection.remote}"
    return ProducerInfo(client.client_id, address, _language(client), client.version, client.last_update_ms)


def _language(client: ConnectedClient) -> LanguageCode:
    return client.language if client.language is not None else LanguageCode.OTHER


def _member_of(kind: type[E], word: str) -> E | None:
    return kind.__members__.get(word)
