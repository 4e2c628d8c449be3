"""Routes: which brokers have a topic, with how many queues, and where brokers are; kept fresh by polling (client spec 1.7).

A route that was found once stays valid until a name server says another: a topic that is gone, and name servers that cannot be reached, change
nothing. A topic that does not exist yet is given the route of a template topic, capped; the broker makes the topic out of the first message.
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

_AT_ONCE: Final = 8  # limit: routes asked for at the same time by the poll


@dataclass(frozen=True, slots=True)
class Route:
    """What is known of a topic. `is_default`: it is the template's, the topic itself has none yet."""

    topic: str
    data: TopicRouteData
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    is_default: bool = False


class BrokerAddress(NamedTuple):
    """Where to ask: the address, and the broker's id at that address, 0 for a master."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        """Whether a slave was found."""
        return self.broker_id != MASTER_ID


RouteListener: TypeAlias = Callable[[Route], None]


def publish_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """The queues to which messages may be sent, in order of broker and id (client spec 2.3).

    Raises RemoteProtocolError if what an operator has configured as the order cannot be read.
    """
    if data.order_topic_conf:
        queues = []
        for piece in data.order_topic_conf.split(";"):
            broker_name, _, count = piece.partition(":")
            try:
                queues += [MessageQueue(topic, broker_name, at) for at in range(int(count or 0))]
            except ValueError:
                raise RemoteProtocolError(
                    f"the order of {topic} as it is configured at the name server cannot be read: {data.order_topic_conf!r}"
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
    """The queues from which messages may be read, in order."""
    return tuple(
        MessageQueue(topic, one.broker_name, at)
        for one in sorted(data.queue_datas, key=lambda one: one.broker_name)
        if permissions.is_readable(one.perm)
        for at in range(one.read_queue_nums)
    )


@dataclass(slots=True)
class BrokerTable:
    """Addresses of brokers by name and id, and the release each said in its answer to a heartbeat (0: not known)."""

    addresses: dict[str, dict[int, str]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def find(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> BrokerAddress | None:
        """The broker with that name and id; unless `only_this`, another of the name where it is not there (client spec 1.7)."""
        known = self.addresses.get(broker_name, {})
        # compat: a slave may be followed by the next one; then whichever there is.
        wanted = (broker_id,) if only_this else (broker_id, *((broker_id + 1,) if broker_id else ()), *known)
        for one in wanted:
            if one in known:
                return BrokerAddress(known[one], one)
        return None

    def master(self, broker_name: str) -> str | None:
        """The address of the broker that may write."""
        return self.addresses.get(broker_name, {}).get(MASTER_ID)

    def all_addresses(self, *, only_masters: bool = False) -> list[str]:
        """Every address, once."""
        found = (
            address
            for known in self.addresses.values()
            for one, address in known.items()
            if not only_masters or one == MASTER_ID
        )
        return list(dict.fromkeys(found))

    def learn(self, data: TopicRouteData) -> None:
        """Takes over what a route says of brokers."""
        for broker in data.broker_datas:
            self.addresses[broker.broker_name] = dict(broker.broker_addrs)

    def keep_only(self, addresses: Collection[str]) -> None:
        """Forgets brokers that are in no route any more."""
        for name, known in list(self.addresses.items()):
            left = {one: address for one, address in known.items() if address in addresses}
            if left:
                self.addresses[name] = left
            else:
                del self.addresses[name]
        self.versions = {address: version for address, version in self.versions.items() if address in addresses}


class RouteTable:
    """The routes that a client knows. Topics carry their namespace here."""

    def __init__(self, name_servers: NameServers, timeout_ms: int) -> None:
        self._name_servers = name_servers
        self._timeout_ms = timeout_ms
        self._routes: dict[str, Route] = {}
        # One for each topic that is asked about now: it goes with the last who holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._publish_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._listeners: list[RouteListener] = []
        self.brokers = BrokerTable()

    def cached(self, topic: str) -> Route | None:
        """What is known of a topic now."""
        return self._routes.get(topic)

    def topics(self) -> list[str]:
        """The topics of which a route is known."""
        return list(self._routes)

    def on_change(self, listener: RouteListener) -> Callable[[], None]:
        """Calls `listener(route)` whenever a topic's route is new or another. Returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def find(self, topic: str) -> Route:
        """The topic's route, asked for if it is not known or is only the template's. Raises RouteNotFound, RemotingError, NoNameServer."""
        known = self._routes.get(topic)
        return known if known is not None and not known.is_default else await self.update(topic)

    async def update(self, topic: str) -> Route:
        """Asks a name server for the topic's route. If it does not know the topic, the route known before stays.

        Raises RouteNotFound if there is none, RemotingError, NoNameServer, BrokerError, RemoteProtocolError.
        """
        async with self._locks.setdefault(topic, asyncio.Lock()):
            data = await self._ask(topic)
            if data is None:
                known = self._routes.get(topic)
                if known is None or known.is_default:
                    raise RouteNotFound(f"no name server knows the topic {topic}", topic)
                return known
            return self._take(topic, data, is_default=False)

    async def update_default(self, topic: str, template: str, max_queues: int) -> Route:
        """Gives the topic the route of a template topic, with at most `max_queues` queues a broker. Raises as `update` does."""
        async with self._locks.setdefault(topic, asyncio.Lock()):
            known = self._routes.get(topic)
            if known is not None and not known.is_default:
                return known
            data = await self._ask(template)
            if data is None:
                raise RouteNotFound(
                    f"no name server knows the topic {topic}, nor {template}, from which it could be made", topic
                )
            for one in data.queue_datas:
                one.read_queue_nums = one.write_queue_nums = min(max_queues, one.read_queue_nums)
            return self._take(topic, data, is_default=True)

    async def find_to_publish(self, topic: str, template: str, max_queues: int) -> Route:
        """The topic's route with queues to write to; for a topic that does not exist yet, the template's (client spec 2.3).

        Raises RouteNotFound if there are no such queues, RemotingError, NoNameServer.
        """
        # Many sends may wait for one topic: the first asks, the others find.
        async with self._publish_locks.setdefault(topic, asyncio.Lock()):
            route = self._routes.get(topic)
            if route is None or not route.publish_queues:
                try:
                    route = await self.update(topic)
                except RouteNotFound:
                    route = await self.update_default(topic, template, max_queues)
        if not route.publish_queues:
            raise RouteNotFound(
                f"the topic {topic} has no queue that may be written to, at a broker with a master", topic
            )
        return route

    async def poll(self, topics: Iterable[str]) -> None:
        """Asks for each topic's route anew. What fails is logged and changes nothing."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def refresh(topic: str) -> None:
            async with gate:
                try:
                    await self.update(topic)
                except RouteNotFound:
                    logger.debug("no route topic=%s", topic)
                except HeadraceError as error:
                    logger.warning("route not refreshed topic=%s reason=%s", topic, error)

        await asyncio.gather(*map(refresh, dict.fromkeys(topics)))

    def clean_brokers(self) -> None:
        """Forgets brokers that no route has any more."""
        addresses = {
            address
            for route in self._routes.values()
            for broker in route.data.broker_datas
            for address in broker.broker_addrs.values()
        }
        self.brokers.keep_only(addresses)

    def address_for(self, topic: str) -> str | None:
        """Some broker of the topic, its master where there is one."""
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
