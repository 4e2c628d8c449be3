"""Routes: which brokers have a topic, with how many queues, and the brokers' addresses; refreshed by polling (client spec 1.7).

A route stays valid until a name server returns another one: a deleted topic, or unreachable name servers, change nothing. A topic that does not
exist yet gets the route of a template topic, with fewer queues; the broker creates the topic from its first message.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from headrace.client.cluster.answers import error_of
from headrace.client.cluster.name_servers import NameServers
from headrace.errors import HeadraceError, RemoteProtocolError, RouteNotFound
from headrace.model import permission as permissions
from headrace.model.message_queue import MessageQueue
from headrace.model.names import MASTER_ID
from headrace.protocol.bodies import QueueData, TopicRouteData
from headrace.protocol.headers import GetRouteInfoRequestHeader
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 8  # limit: concurrent requests of the poll


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a topic. `is_default`: it is the template's, because the topic does not exist yet."""

    topic: str
    data: TopicRouteData
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    is_default: bool = False


class BrokerAddress(NamedTuple):
    """The address of a broker, and its id: 0 for a master."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        """Whether it is a slave."""
        return self.broker_id != MASTER_ID


RouteListener: TypeAlias = Callable[[Route], None]


def publish_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Returns the queues that messages may be sent to, in order of broker and id (client spec 2.3).

    Raises RemoteProtocolError if the operator's order configuration of the topic is invalid.
    """
    if data.order_topic_conf:
        queues = []
        for piece in data.order_topic_conf.split(";"):
            broker_name, _, count = piece.partition(":")
            try:
                queues += [MessageQueue(topic, broker_name, at) for at in range(int(count or 0))]
            except ValueError:
                raise RemoteProtocolError(
                    f"the order configuration of {topic} at the name server is invalid: {data.order_topic_conf!r}; expected broker:queues;…"
                ) from None
        return tuple(queues)
    with_master = {broker.broker_name for broker in data.broker_datas if MASTER_ID in broker.broker_addrs}
    return tuple(
        MessageQueue(topic, one.broker_name, at)
        for one in sorted(data.queue_datas, key=lambda one: one.broker_name)
        if permissions.is_writeable(one.perm) and one.broker_name in with_master
        for at in range(one.write_queue_nums)
    )


def subscribe_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Returns the queues that messages may be read from, in order."""
    return tuple(
        MessageQueue(topic, one.broker_name, at)
        for one in sorted(data.queue_datas, key=lambda one: one.broker_name)
        if permissions.is_readable(one.perm)
        for at in range(one.read_queue_nums)
    )


@dataclass(slots=True)
class BrokerTable:
    """Addresses of brokers by name and id, and the version that each reported in its answer to a heartbeat (0: unknown)."""

    addresses: dict[str, dict[int, str]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def find(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> BrokerAddress | None:
        """Returns the broker with this name and id; if it is unknown and not `only_this`, another one of the name (client spec 1.7)."""
        known = self.addresses.get(broker_name, {})
        # compat: for a slave, try the next id first; then any.
        wanted = (broker_id,) if only_this else (broker_id, *((broker_id + 1,) if broker_id else ()), *known)
        for one in wanted:
            if one in known:
                return BrokerAddress(known[one], one)
        return None

    def master(self, broker_name: str) -> str | None:
        """Returns the master's address."""
        return self.addresses.get(broker_name, {}).get(MASTER_ID)

    def all_addresses(self, *, only_masters: bool = False) -> list[str]:
        """Returns all addresses, without duplicates."""
        found = (
            address
            for known in self.addresses.values()
            for one, address in known.items()
            if not only_masters or one == MASTER_ID
        )
        return list(dict.fromkeys(found))

    def learn(self, data: TopicRouteData) -> None:
        """Adds the brokers of a route."""
        for broker in data.broker_datas:
            self.addresses[broker.broker_name] = dict(broker.broker_addrs)

    def keep_only(self, addresses: Collection[str]) -> None:
        """Removes brokers that no route contains."""
        for name, known in list(self.addresses.items()):
            left = {one: address for one, address in known.items() if address in addresses}
            if left:
                self.addresses[name] = left
            else:
                del self.addresses[name]
        self.versions = {address: version for address, version in self.versions.items() if address in addresses}


class RouteTable:
    """The routes that a client knows. Topics include the namespace."""

    def __init__(self, name_servers: NameServers, timeout_ms: int) -> None:
        self._name_servers = name_servers
        self._timeout_ms = timeout_ms
        self._routes: dict[str, Route] = {}
        # One for each topic that is being requested; it is dropped with its last holder or waiter.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._publish_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._listeners: list[RouteListener] = []
        self.brokers = BrokerTable()

    def cached(self, topic: str) -> Route | None:
        """Returns the known route of a topic."""
        return self._routes.get(topic)

    def topics(self) -> list[str]:
        """Returns the topics with a known route."""
        return list(self._routes)

    def on_change(self, listener: RouteListener) -> Callable[[], None]:
        """Calls `listener(route)` whenever a topic's route is new or has changed. Returns a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def find(self, topic: str) -> Route:
        """Returns the topic's route; requests it if it is unknown or the template's. Raises RouteNotFound, RemotingError, NoNameServer."""
        known = self._routes.get(topic)
        return known if known is not None and not known.is_default else await self.update(topic)

    async def update(self, topic: str) -> Route:
        """Requests the topic's route. If the name server does not know the topic, the known route stays.

        Raises RouteNotFound if there is none, RemotingError, NoNameServer, BrokerError, RemoteProtocolError.
        """
        async with self._locks.setdefault(topic, asyncio.Lock()):
            data = await self._ask(topic)
            if data is None:
                known = self._routes.get(topic)
                if known is None or known.is_default:
                    raise RouteNotFound(f"the topic {topic} does not exist: no name server has a route for it", topic)
                return known
            return self._take(topic, data, is_default=False)

    async def update_default(self, topic: str, template: str, max_queues: int) -> Route:
        """Gives the topic the route of a template topic, with at most `max_queues` queues on each broker. Raises as `update` does."""
        async with self._locks.setdefault(topic, asyncio.Lock()):
            known = self._routes.get(topic)
            if known is not None and not known.is_default:
                return known
            data = await self._ask(template)
            if data is None:
                raise RouteNotFound(
                    f"topic {topic} does not exist and auto-creation is disabled (no route for {template}); "
                    f"create it with: mqadmin updateTopic -n NAMESRV -c CLUSTER -t {topic}",
                    topic,
                )
            for one in data.queue_datas:
                one.read_queue_nums = one.write_queue_nums = min(max_queues, one.read_queue_nums)
            return self._take(topic, data, is_default=True)

    async def find_to_publish(self, topic: str, template: str, max_queues: int) -> Route:
        """Returns the topic's route with queues to write to; for a topic that does not exist yet, the template's (client spec 2.3).

        Raises RouteNotFound if there are no such queues, RemotingError, NoNameServer.
        """
        # Many sends may wait for one topic: the first one requests the route.
        async with self._publish_locks.setdefault(topic, asyncio.Lock()):
            route = self._routes.get(topic)
            if route is None or not route.publish_queues:
                try:
                    route = await self.update(topic)
                except RouteNotFound:
                    route = await self.update_default(topic, template, max_queues)
        if not route.publish_queues:
            raise RouteNotFound(f"the topic {topic} has no writable queue on a broker with a registered master", topic)
        return route

    async def poll(self, topics: Iterable[str]) -> None:
        """Refreshes the routes of these topics. Failures are logged and change nothing."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def refresh(topic: str) -> None:
            async with gate:
                try:
                    await self.update(topic)
                except RouteNotFound:
                    logger.debug("no route topic=%s", topic)
                except HeadraceError as error:
                    logger.warning("route not updated topic=%s error=%r", topic, str(error))

        await asyncio.gather(*map(refresh, dict.fromkeys(topics)))

    def clean_brokers(self) -> None:
        """Removes brokers that no route contains."""
        addresses = {
            address
            for route in self._routes.values()
            for broker in route.data.broker_datas
            for address in broker.broker_addrs.values()
        }
        self.brokers.keep_only(addresses)

    def address_for(self, topic: str) -> str | None:
        """Returns the address of a broker of the topic, of its master if there is one."""
        route = self._routes.get(topic)
        brokers = [one for one in route.data.broker_datas if one.broker_addrs] if route else []
        if not brokers:
            return None
        chosen = random.choice(brokers)
        return chosen.master_address or random.choice(list(chosen.broker_addrs.values()))

    async def _ask(self, topic: str) -> TopicRouteData | None:
        header = GetRouteInfoRequestHeader(topic)
        answer = await self._name_servers.request(
            create_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext()), self._timeout_ms
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        data = TopicRouteData.decode(answer.body)
        data.queue_datas.sort(key=_broker_name)
        data.broker_datas.sort(key=lambda one: one.broker_name)
        return data

    def _take(self, topic: str, data: TopicRouteData, *, is_default: bool) -> Route:
        self.brokers.learn(data)
        known = self._routes.get(topic)
        if known is not None and known.data == data and known.is_default == is_default:
            return known
        route = Route(topic, data, publish_queues(topic, data), subscribe_queues(topic, data), is_default)
        self._routes[topic] = route
        for listener in list(self._listeners):
            listener(route)
        return route


def _broker_name(data: QueueData) -> str:
    return data.broker_name
