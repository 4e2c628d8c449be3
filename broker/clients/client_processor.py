"""Requests of clients: heartbeats, unregistration, members of a group, checks of subscriptions (4.14 to 4.18)."""

import time
from collections.abc import Awaitable, Generator, Sequence
from typing import Final

from broker import handler_errors
from broker.clients.clients import Client, ClientTable, ConsumerGroup
from broker.clients.groups import GroupTable
from broker.config import BrokerConfig
from broker.filtering.pull_filters import PullFilters
from broker.topics.topics import READ_WRITE, TopicTable
from headrace.errors import RemoteProtocolError
from headrace.model import names
from headrace.model.subscription import is_tag_type
from headrace.model.topic_config import topic_sys_flag
from headrace.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    ProducerData,
)
from headrace.protocol.headers import (
    GetConsumerListByGroupRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.slices import in_slices

MAX_GROUPS: Final = (
    1024  # limit: of each kind for one client; each may create a group and a topic, which are stored on disk
)
FEW: Final = 16  # limit: groups and subscriptions registered in one step


class MembersNotifier:
    """Notifies the members of a group of changed members or topics, so that they rebalance."""

    def __init__(self, config: BrokerConfig, groups: GroupTable) -> None:
        self._config = config
        self._groups = groups

    def __call__(self, group: ConsumerGroup) -> None:
        """Sends NOTIFY_CONSUMER_IDS_CHANGED to every member, including the one that caused it."""
        settings = self._groups.all().get(group.name)
        if not self._config.notify_consumer_ids_changed_enable or (
            settings is not None and not settings.notify_consumer_ids_changed_enable
        ):
            return
        ext = NotifyConsumerIdsChangedRequestHeader(group.name).to_ext()
        for client in group.clients.values():
            client.connection.send_oneway(
                create_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext, language=LanguageCode.JAVA)
            )


class ClientProcessor:
    """Handles heartbeats and requests about groups."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        filters: PullFilters | None = None,
    ) -> None:
        """Without `filters`, only tags are supported."""
        self._config = config
        self._filters = filters
        self._topics = topics
        self._groups = groups
        self._clients = clients

    def register(self, *tables: HandlerTable) -> None:
        """Serves these requests on these ports."""
        handler_errors.register(
            tables,
            {
                RequestCode.HEART_BEAT: self.heartbeat,
                RequestCode.UNREGISTER_CLIENT: self.unregister,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
                RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
            },
        )

    def heartbeat(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """Registers the client in all its groups, in steps if there are many; members are notified of changes before the response."""
        heartbeat = HeartbeatData.decode(command.body, untrusted=True)
        client = Client(connection, heartbeat.client_id, command.language, command.version, int(time.time() * 1000))
        consumers, producers = heartbeat.consumer_data_set, heartbeat.producer_data_set
        for kind, groups in (("consumer", len(consumers)), ("producer", len(producers))):
            if groups > MAX_GROUPS:
                raise RemoteProtocolError(
                    f"the heartbeat has {groups} {kind} groups; the limit per client is {MAX_GROUPS}"
                )
        steps = self._heartbeat_steps(client, consumers, producers)
        size = len(consumers) + sum(len(consumer.subscription_data_set) for consumer in consumers)
        if size > FEW:
            return self._in_slices(connection, command, steps)
        for _ in steps:
            pass
        return response_to(command, ResponseCode.SUCCESS)

    async def _in_slices(
        self, connection: Connection, command: RemotingCommand, steps: Generator[None, None, None]
    ) -> RemotingCommand:
        await in_slices(connection, steps)
        return response_to(command, ResponseCode.SUCCESS)

    def _heartbeat_steps(
        self, client: Client, consumers: Sequence[ConsumerData], producers: Sequence[ProducerData]
    ) -> Generator[None, None, None]:
        for consumer in consumers:
            yield from self._register_consumer(client, consumer)
            yield
        for producer in producers:
            self._clients.register_producer(producer.group_name, client)

    def _register_consumer(self, client: Client, consumer: ConsumerData) -> Generator[None, None, None]:
        group = self._groups.find(consumer.group_name)
        if group is not None:
            self._topics.create_on_send_back(
                names.retry_topic(consumer.group_name),
                group.retry_queue_count,
                READ_WRITE,
                topic_sys_flag(unit_subscription=consumer.unit_mode),
            )
        self._clients.register_consumer(
            consumer.group_name,
            client,
            str(consumer.consume_type),
            str(consumer.message_model),
            str(consumer.consume_from_where),
            consumer.subscription_data_set,
        )
        if self._filters is not None:
            connection = client.connection
            for rejection in self._filters.table.register_steps(
                consumer.group_name, consumer.subscription_data_set, connection.limit_reached
            ):
                if rejection:
                    connection.request_refused(RequestCode.HEART_BEAT, rejection)
                yield

    def unregister(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Removes the client from the groups it names."""
        header = UnregisterClientRequestHeader.from_ext(command.ext_fields)
        self._clients.unregister(connection, header.producer_group, header.consumer_group)
        return response_to(command, ResponseCode.SUCCESS, ext={})

    def consumer_list(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The ids of a group's members, from which each of them computes its share of the queues."""
        header = GetConsumerListByGroupRequestHeader.from_ext(command.ext_fields)
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            return response_to(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"no consumer for this group, {header.consumer_group}",
                {},
            )
        body = GetConsumerListByGroupResponseBody(group.client_ids())
        return response_to(command, ResponseCode.SUCCESS, ext={}, body=body.encode())

    def check_config(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Checks whether the broker supports a subscription."""
        body = CheckClientRequestBody.decode(command.body, untrusted=True)
        subscription = body.subscription_data
        if subscription is None or is_tag_type(subscription.expression_type):
            return response_to(command, ResponseCode.SUCCESS)
        if self._filters is not None:
            refused = self._filters.check(subscription, connection.limit_reached)
            return response_to(command, ResponseCode.SUCCESS) if refused is None else response_to(command, *refused)
        return response_to(
            command,
            ResponseCode.SYSTEM_ERROR,
            f"the broker does not support consumer to filter message by {subscription.expression_type}; subscribe by tags",
        )
