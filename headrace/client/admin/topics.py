"""Topics: created, changed, deleted, listed, and their statistics."""

from headrace.client.admin.calls import AdminCalls
from headrace.errors import ConfigError, HeadraceError, RouteNotFound
from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies import TopicConfigSerializeWrapper, TopicList, TopicRouteData, TopicStatsTable
from headrace.protocol.bodies.tables import GroupList
from headrace.protocol.headers import (
    CreateTopicRequestHeader,
    DeleteTopicFromNameServerRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicsByClusterRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from headrace.protocol.request_code import RequestCode

_CREATE_TRIES = 5


class TopicAdmin(AdminCalls):
    """Administration of topics."""

    async def create_topic(
        self, name: str, queues: int = 4, *, template: str = names.AUTO_CREATE_TOPIC, sys_flag: int = 0
    ) -> None:
        """Creates a topic, or changes its number of queues, at every master that has the template topic.

        On clusters without auto-creation (autoCreateTopicEnable=false) use `update_topic` instead. Succeeds if one broker did it.
        Raises ConfigError for an invalid name, RouteNotFound, and the last broker's error if none succeeded.
        """
        _check_new(self._wrap(name))
        route = await self._instance.routes.update(template)
        config = TopicConfig(self._wrap(name), queues, queues, sys_flag=sys_flag)
        addresses = [broker.master_address for broker in route.data.broker_datas if broker.master_address is not None]
        done, problem = 0, None
        for address in addresses:
            for _ in range(_CREATE_TRIES):
                try:
                    await self._put_topic(address, config)
                except HeadraceError as error:
                    problem = error
                    if not error.retryable:
                        break
                else:
                    done += 1
                    break
        if not done:
            raise problem or RouteNotFound(
                f"no running master has the topic {template}, so its brokers are unknown; use update_topic() with broker= or cluster=",
                template,
            )

    async def update_topic(self, config: TopicConfig, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Creates or replaces a topic's settings at one broker (an address), at the masters of a cluster, or at all masters.

        Raises ConfigError for an invalid name, BrokerNotFound, BrokerError, RemotingError.
        """
        name = self._wrap(config.name)
        _check_new(name)
        wrapped = TopicConfig(
            name,
            config.read_queue_count,
            config.write_queue_count,
            config.permission,
            config.filter_type,
            config.sys_flag,
            config.order,
        )
        for address in await self._targets(broker, cluster):
            await self._put_topic(address, wrapped)

    async def delete_topic(self, name: str, *, cluster: str | None = None) -> None:
        """Deletes a topic with its queues at the masters of a cluster (or of all), and at the name servers.

        If auto-creation is enabled, clients that still send to the topic create it again. Raises BrokerNotFound, BrokerError, RemotingError.
        """
        topic = self._wrap(name)
        for address in await self._targets(None, cluster):
            await self._ask(address, DeleteTopicRequestHeader(topic))
        await self._ask_name_servers(DeleteTopicFromNameServerRequestHeader(topic, cluster))

    async def topics(self) -> list[str]:
        """Returns the names of all topics known to the name servers, sorted, including RocketMQ's own. With a namespace, only those in it."""
        answer = await self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return self._in_namespace(TopicList.decode(answer.body).topic_list)

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        """Returns the names of a cluster's topics, sorted."""
        answer = await self._ask_name_server(GetTopicsByClusterRequestHeader(cluster))
        return self._in_namespace(TopicList.decode(answer.body).topic_list)

    async def unit_topics(self, *, subscribed: bool = False, only_subscribed: bool = False) -> list[str]:
        """Returns the topics of units (client spec 1.10): those with the unit flag, with subscribers in units, or with the latter only."""
        code = RequestCode.GET_UNIT_TOPIC_LIST
        if only_subscribed:
            code = RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
        elif subscribed:
            code = RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
        return sorted(TopicList.decode((await self._ask_name_server(code)).body).topic_list)

    async def system_topics(self, broker: str | None = None) -> list[str]:
        """Returns RocketMQ's own topics: those of one broker (an address), or of the whole cluster."""
        if broker is not None:
            return sorted(
                (await self._body(TopicList, broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).topic_list
            )
        answer = await self._ask_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        known = TopicList.decode(answer.body)
        return sorted({*known.topic_list, *(await self.system_topics(known.broker_addr) if known.broker_addr else ())})

    async def topic_configs(self, broker: str) -> dict[str, TopicConfig]:
        """Returns all topics of the broker at an address, with their settings, by name (with the namespace)."""
        return (
            await self._body(TopicConfigSerializeWrapper, broker, RequestCode.GET_ALL_TOPIC_CONFIG)
        ).topic_config_table

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Returns which brokers have the topic, with how many queues. Raises RouteNotFound, RemotingError."""
        return (await self._fresh_route(topic)).data

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that may be written to. Raises RouteNotFound, RemotingError."""
        return [self._unwrap_queue(queue) for queue in (await self._fresh_route(topic)).publish_queues]

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that may be read. Raises RouteNotFound, RemotingError."""
        return [self._unwrap_queue(queue) for queue in (await self._fresh_route(topic)).subscribe_queues]

    async def topic_stats(self, topic: str, *, broker: str | None = None) -> TopicStatsTable:
        """Returns each queue's first and next offset, and when it was last written (ms), of all brokers or the one at an address.

        Raises RouteNotFound, BrokerError, RemotingError.
        """
        whole = TopicStatsTable()
        for address in [broker] if broker is not None else (await self._brokers_of(topic)).values():
            part = await self._body(TopicStatsTable, address, GetTopicStatsInfoRequestHeader(self._wrap(topic)))
            whole.offset_table.update(self._unwrap_queues(part.offset_table))
        return whole

    async def topic_groups(self, topic: str) -> list[str]:
        """Returns the groups that consume a topic: those connected, and those with offsets. Raises RouteNotFound, BrokerError, RemotingError."""
        groups: set[str] = set()
        for address in (await self._brokers_of(topic)).values():
            answer = await self._body(GroupList, address, QueryTopicConsumeByWhoRequestHeader(self._wrap(topic)))
            groups.update(map(self._unwrap, answer.group_list))
        return sorted(groups)

    async def _put_topic(self, address: str, config: TopicConfig) -> None:
        header = CreateTopicRequestHeader(
            config.name,
            names.AUTO_CREATE_TOPIC,
            config.read_queue_count,
            config.write_queue_count,
            config.permission,
            config.filter_type.value,
            config.sys_flag,
            config.order,
        )
        await self._ask(address, header)

    def _in_namespace(self, topics: list[str]) -> list[str]:
        if not self._config.namespace:
            return sorted(topics)
        return sorted(topic for name in topics if (topic := self._unwrap(name)) != name or self._wrap(name) == name)


def _check_new(topic: str) -> None:
    problem = names.topic_problem(topic)
    if problem is None and names.is_system_topic(topic):
        problem = f"the topic {topic} is reserved by RocketMQ; choose another name"
    if problem is not None:
        raise ConfigError(problem, "topic")
