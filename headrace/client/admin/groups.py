"""Consumer groups: settings, members, progress, and requests to connected consumers."""

from headrace.client.admin.calls import LONG_TIMEOUT_MS, AdminCalls
from headrace.client.admin.progress import GroupProgress, QueueProgress
from headrace.errors import BrokerError, ConfigError
from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    ProducerConnection,
    ProducerTableInfo,
    QueryConsumeTimeSpanBody,
    SubscriptionGroupWrapper,
    encode_bean,
)
from headrace.protocol.bodies.stats import QueueTimeSpan
from headrace.protocol.headers import (
    ConsumeMessageDirectlyRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetBrokerConsumeStatsRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode


class GroupAdmin(AdminCalls):
    """Administration of groups and clients."""

    # -- settings ---------------------------------------------------------------------------------------------------------

    async def update_group(
        self, config: SubscriptionGroupConfig, *, broker: str | None = None, cluster: str | None = None
    ) -> None:
        """Creates or replaces a group's settings at one broker (an address), at the masters of a cluster, or at all masters.

        Raises ConfigError for an invalid name, BrokerNotFound, BrokerError, RemotingError.
        """
        problem = names.group_problem(config.group_name)
        if problem is not None:
            raise ConfigError(problem, "group_name")
        wrapped = SubscriptionGroupConfig(
            self._wrap(config.group_name),
            config.consume_enable,
            config.consume_from_min_enable,
            config.consume_broadcast_enable,
            config.retry_queue_count,
            config.retry_max_times,
            config.broker_id,
            config.which_broker_when_consume_slowly,
            config.notify_consumer_ids_changed_enable,
        )
        for address in await self._targets(broker, cluster):
            await self._ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode_bean(wrapped))

    async def delete_group(
        self, group: str, *, remove_offsets: bool = False, broker: str | None = None, cluster: str | None = None
    ) -> None:
        """Deletes a group's settings, and with `remove_offsets` its offsets. Raises BrokerNotFound, BrokerError, RemotingError."""
        for address in await self._targets(broker, cluster):
            await self._ask(address, DeleteSubscriptionGroupRequestHeader(self._wrap(group), remove_offsets))

    async def group_configs(self, broker: str) -> dict[str, SubscriptionGroupConfig]:
        """Returns all groups of the broker at an address, with their settings, by name (with the namespace)."""
        answer = await self._body(SubscriptionGroupWrapper, broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return answer.subscription_group_table

    # -- members ----------------------------------------------------------------------------------------------------------

    async def consumer_connection(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Returns the members of a consumer group and their subscriptions, as one broker knows them.

        Raises BrokerError (206) if none is connected, RouteNotFound if the group has never consumed.
        """
        header = GetConsumerConnectionListRequestHeader(self._wrap(group))
        addresses = [broker] if broker else list((await self._brokers_of(names.retry_topic(group))).values())
        problem: BrokerError | None = None
        for address in addresses:
            try:
                found = await self._body(ConsumerConnection, address, header)
            except BrokerError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                problem = error
                continue
            if found.connection_set:
                return found
        raise problem or BrokerError.of(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group {group} has no connected member"
        )

    async def producer_connection(self, group: str, topic: str, *, broker: str | None = None) -> ProducerConnection:
        """Returns the members of a producer group that send to a topic. Raises BrokerError if there are none, RouteNotFound."""
        header = GetProducerConnectionListRequestHeader(self._wrap(group))
        addresses = [broker] if broker else list((await self._brokers_of(topic)).values())
        problem: BrokerError | None = None
        for address in addresses:
            try:
                return await self._body(ProducerConnection, address, header)
            except BrokerError as error:
                problem = error
        raise problem or BrokerError.of(
            ResponseCode.SYSTEM_ERROR, f"the producer group {group} has no connected member"
        )

    async def producers(self, broker: str) -> ProducerTableInfo:
        """Returns all producers connected to the broker at an address, by group."""
        return await self._body(ProducerTableInfo, broker, RequestCode.GET_ALL_PRODUCER_INFO)

    # -- progress ---------------------------------------------------------------------------------------------------------

    async def consume_stats(self, group: str, topic: str | None = None, *, broker: str | None = None) -> ConsumeStats:
        """Returns the broker's and the group's offset for each queue that a group consumes, of one topic or all, at one broker (an address) or all.

        Raises RouteNotFound if no member has ever connected (and neither topic nor broker is given), BrokerError, RemotingError.
        """
        whole = ConsumeStats()
        header = GetConsumeStatsRequestHeader(self._wrap(group), self._wrap(topic) if topic else None)
        addresses = [broker] if broker else (await self._brokers_of(topic or names.retry_topic(group))).values()
        for address in addresses:
            part = await self._body(ConsumeStats, address, header, LONG_TIMEOUT_MS)
            whole.offset_table.update(self._unwrap_queues(part.offset_table))
            whole.consume_tps += part.consume_tps
        return whole

    async def consumer_progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Returns how far a group is behind in each queue, and the member that reads it. Raises as `consume_stats`."""
        stats = await self.consume_stats(group, topic)
        owners = await self.queue_owners(group)
        queues = [
            QueueProgress(queue, one.broker_offset, one.consumer_offset, one.last_timestamp, owners.get(queue))
            for queue, one in sorted(stats.offset_table.items())
        ]
        return GroupProgress(group, queues, stats.consume_tps)

    async def queue_owners(self, group: str) -> dict[MessageQueue, str]:
        """Returns the client id that reads each queue, as the connected members report it; empty if none is connected."""
        try:
            connection = await self.consumer_connection(group)
        except BrokerError:
            return {}
        owners: dict[MessageQueue, str] = {}
        for one in connection.connection_set:
            if one.client_id is not None:
                try:
                    info = await self.running_info(group, one.client_id)
                except BrokerError:
                    continue
                owners.update(dict.fromkeys(map(self._unwrap_queue, info.mq_table), one.client_id))
        return owners

    async def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> ConsumeStatsList:
        """Returns the progress of all groups at the broker at an address."""
        header = GetBrokerConsumeStatsRequestHeader(only_ordered)
        return await self._body(ConsumeStatsList, broker, header, LONG_TIMEOUT_MS)

    async def consume_time_span(self, topic: str, group: str, *, broker: str | None = None) -> list[QueueTimeSpan]:
        """Returns for each queue, of one broker (an address) or all, when its first, its last and the group's next message were stored.

        Raises RouteNotFound, BrokerError, RemotingError.
        """
        header = QueryConsumeTimeSpanRequestHeader(self._wrap(topic), self._wrap(group))
        spans: list[QueueTimeSpan] = []
        for address in [broker] if broker else (await self._brokers_of(topic)).values():
            spans += (await self._body(QueryConsumeTimeSpanBody, address, header)).consume_time_span_set
        return spans

    # -- requests to connected consumers ----------------------------------------------------------------------------------

    async def running_info(
        self, group: str, client_id: str, *, with_stacks: bool = False, broker: str | None = None
    ) -> ConsumerRunningInfo:
        """Returns a connected consumer's runtime information: settings, queues, rates. Raises BrokerError if it is not connected or does not answer."""
        header = GetConsumerRunningInfoRequestHeader(self._wrap(group), client_id, with_stacks)
        problem: BrokerError | None = None
        for address in [broker] if broker else (await self._brokers_of(names.retry_topic(group))).values():
            try:
                return await self._body(ConsumerRunningInfo, address, header, LONG_TIMEOUT_MS)
            except BrokerError as error:
                problem = error
        raise problem or BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer {client_id} is not connected")

    async def consumer_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Returns the offsets that connected consumers have in memory, by client id and queue. Raises RouteNotFound, BrokerError."""
        header = GetConsumerStatusRequestHeader(self._wrap(topic), self._wrap(group), client_id)
        for address in (await self._brokers_of(topic)).values():
            found = (await self._body(GetConsumerStatusBody, address, header, LONG_TIMEOUT_MS)).consumer_table
            if found:
                return {client: self._unwrap_queues(offsets) for client, offsets in found.items()}
        return {}

    async def consume_directly(
        self, group: str, client_id: str, offset_message_id: str, *, broker: str | None = None
    ) -> ConsumeMessageDirectlyResult:
        """Makes a connected consumer consume one message now; returns the result. Raises BrokerError."""
        header = ConsumeMessageDirectlyRequestHeader(self._wrap(group), client_id, offset_message_id)
        address = broker or self._address_in(offset_message_id)
        return await self._body(ConsumeMessageDirectlyResult, address, header, LONG_TIMEOUT_MS)
