"""ClientInstance: what producers, consumers and admin of one client id share: connections, routes, heartbeats, timers (client spec 1).

    instance = await ClientInstance.open(config)          # finds or makes, starts; one more user
    instance.register_consumer(member)                    # members.ConsumerMember; StateError if the group is there already
    await instance.routes.find(topic)                     # Route: .subscribe_queues, .publish_queues, .data
    await instance.send_heartbeat()                       # brokers must know a subscription before they are asked to serve it
    answer = await instance.invoke(address, command, 3000)
    ...
    await instance.unregister_consumer(group)
    await instance.close()                                # one user less; the last one ends it

What a consumer is offered

    config, client_id                    settings, and the id that stands in the group's member list
    routes                               RouteTable: find, update, cached, on_change(listener) -> stop, address_for(topic)
    brokers                              BrokerTable: find(name, id, only_this=), master(name), versions[address]
    find_broker(name, topic)             an address, after one look at the route if it is not known; BrokerNotFound
    request / invoke / oneway            the raw answer / success or BrokerError / no answer; addresses are `host:port`
    vip(address)                         where requests of RocketMQ's VIP channel go (client spec 1.11), else the address itself
    send_heartbeat()                     tells all brokers, returns when they have answered
    consumer_ids(group, topic)           client ids of the group's members, as a broker of the topic knows them
    handlers                             HandlerTable for requests of brokers; those of client spec 1.14 are answered already
    start_task(coroutine, name)          a background task, which ends with the instance and whose failure is logged
    emit(kind, …)                        tells ClientConfig.on_event
    queue_requests.py                    max_offset, min_offset, search_offset, consumer offsets of a queue

What a consumer must implement is in members.py. Two clients share an instance only if their configurations name the same `instance_name`; then the
first one's settings hold. An instance belongs to the loop, and to the process, that it was opened in: a forked child that uses it is told so.
"""

import asyncio
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from headrace.client.cluster.answers import expect_success
from headrace.client.cluster.broker_requests import BrokerRequests
from headrace.client.cluster.client_connection import ClientConnection
from headrace.client.cluster.client_id import build_client_id, fresh_instance_name
from headrace.client.cluster.heartbeats import Heartbeats
from headrace.client.cluster.members import ConsumerMember, ProducerMember
from headrace.client.cluster.name_servers import NameServers
from headrace.client.cluster.replies import Replies
from headrace.client.cluster.routes import BrokerTable, Route, RouteTable
from headrace.client.cluster.transport import ClientTransport, RequestStamp
from headrace.client.durations import milliseconds, seconds
from headrace.client.settings import ClientConfig, ClientEvent, EventKind
from headrace.errors import BrokerNotFound, HeadraceError, NoNameServer, RouteNotFound, StateError
from headrace.model.host import format_host, parse_host
from headrace.model.names import AUTO_CREATE_TOPIC, CLIENT_INNER_PRODUCER_GROUP
from headrace.protocol.bodies import GetConsumerListByGroupResponseBody, HeartbeatData, ProducerData
from headrace.protocol.headers import GetConsumerListByGroupRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable

logger = logging.getLogger(__name__)

LOOKUP_INTERVAL_S: Final = 120.0
FIRST_HEARTBEAT_S: Final = 1.0
FIRST_PERSIST_S: Final = 10.0
RECONNECT_PAUSE_S: Final = 1.0
"""How long after a broker's connection was lost, or a broker was found, it is sent a heartbeat, so that it knows the client."""
VIP_DISTANCE: Final = 2

StartTask: TypeAlias = Callable[[Coroutine[Any, Any, Any], str], "asyncio.Task[Any]"]
"""`ClientInstance.start_task`."""

_instances: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ClientInstance]]" = (
    weakref.WeakKeyDictionary()
)

_forks = 0
"""How many forks lie between this process and the first one that loaded this module."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class ClientInstance:
    """One client id's connections, routes, heartbeats and timers; see the module. Made by `open`."""

    def __init__(self, config: ClientConfig, client_id: str, *, stream: bool = False) -> None:
        self.config = config
        self.client_id = client_id
        self.handlers = HandlerTable()
        self.replies = Replies()
        self.api_timeout_ms = milliseconds(config.api_timeout)
        self.stamp = RequestStamp(config, stream=stream)
        self._transport = ClientTransport(config, self.stamp, self.handlers, self._lost)
        self.name_servers = NameServers(self._transport, config.name_server_list)
        self.routes = RouteTable(self.name_servers, self.api_timeout_ms)
        self._heartbeats = Heartbeats(self._transport, self.brokers, self._heartbeat, self.api_timeout_ms)
        self._producers: dict[str, ProducerMember] = {}
        self._consumers: dict[str, ConsumerMember] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._heartbeat_wanted = asyncio.Event()
        self._users = 0
        self._pid = os.getpid()
        self._forks = _forks
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        BrokerRequests(self._producers, self._consumers, self.replies).register(self.handlers)
        self.routes.on_change(self._route_changed)

    # -- life -------------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(cls, config: ClientConfig, *, rename: bool = True, stream: bool = False) -> "ClientInstance":
        """The running instance for a configuration. Each `open` wants its `close`.

        Without an `instance_name` it is a new one of its own; `rename=False` (broadcasting consumers) names it DEFAULT instead. Raises
        NoNameServer if no name server is configured.
        """
        if not config.name_servers:
            raise NoNameServer("no name server is given; pass name_servers, or set NAMESRV_ADDR")
        name = config.instance_name or (fresh_instance_name() if rename else "DEFAULT")
        client_id = build_client_id(name, config.client_ip, config.unit_name, stream=stream)
        loop = asyncio.get_running_loop()
        known = _instances.setdefault(loop, {})
        instance = known.get(client_id)
        if instance is None:
            instance = known[client_id] = cls(config, client_id, stream=stream)
            # A task of its own: whoever comes while it is under way waits for the same, and one that is cancelled ends it for nobody else.
            instance._starting = loop.create_task(instance._start())
        instance._users += 1
        try:
            if instance._starting is not None:
                await asyncio.shield(instance._starting)
        except BaseException:
            await instance.close()
            raise
        return instance

    async def _start(self) -> None:
        try:
            if self.name_servers.is_looked_up:
                await self.name_servers.look_up()
                self.start_task(self._look_up_forever(), "name server look-up")
        except BaseException:
            # Those who wait have the error; the next who comes begins anew.
            self._leave_table()
            raise
        finally:
            self._starting = None
        config = self.config
        self.start_task(self._every(self._poll_routes, 0.01, seconds(config.poll_name_server)), "route poll")
        self.start_task(self._beat_forever(), "heartbeat")
        self.start_task(self._every(self._persist, FIRST_PERSIST_S, seconds(config.persist_offsets)), "offsets")
        logger.info("client started client_id=%s name_servers=%s", self.client_id, ";".join(config.name_server_list))
        self.emit(EventKind.STARTED)

    async def close(self) -> None:
        """One user less; the last one ends timers and connections. Members must have been unregistered."""
        self._users -= 1
        if self._users > 0 or self._is_closed:
            return
        self._is_closed = True
        self._leave_table()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        if self._starting is not None:
            tasks.append(self._starting)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._transport.close()
        logger.info("client closed client_id=%s", self.client_id)
        self.emit(EventKind.CLOSED)

    def _leave_table(self) -> None:
        known = _instances.get(self._loop, {})
        if known.get(self.client_id) is self:
            del known[self.client_id]

    @property
    def is_closed(self) -> bool:
        """Whether the last user has left."""
        return self._is_closed

    def start_task(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Runs a coroutine in the background until it ends, or the instance does. If it fails, that is logged."""
        task = self._loop.create_task(work, name=f"headrace {name} {self.client_id}")
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background task failed task=%s", task.get_name(), exc_info=error)

    # -- members ----------------------------------------------------------------------------------------------------------

    def register_producer(self, producer: ProducerMember) -> None:
        """Adds a producer; it is in the next heartbeat. Raises StateError if its group has one here."""
        self._register(self._producers, producer.group, producer, "producer")

    def register_consumer(self, consumer: ConsumerMember) -> None:
        """Adds a consumer; it is in the next heartbeat. Raises StateError if its group has one here."""
        self._register(self._consumers, consumer.group, consumer, "consumer")

    def _register(self, members: dict[str, Any], group: str, member: object, kind: str) -> None:
        self.check_usable()
        if group in members:
            message = f"the {kind} group {group} has a member in the client {self.client_id} already; give another instance_name"
            raise StateError(message, "registered")
        members[group] = member

    async def unregister_producer(self, group: str) -> None:
        """Takes a producer out, and tells the brokers."""
        if self._producers.pop(group, None) is not None:
            await self._heartbeats.unregister(self.client_id, producer=group)

    async def unregister_consumer(self, group: str) -> None:
        """Takes a consumer out, and tells the brokers, which tell the group."""
        if self._consumers.pop(group, None) is not None:
            await self._heartbeats.unregister(self.client_id, consumer=group)

    async def send_heartbeat(self) -> None:
        """Tells all brokers who is here. Returns when they have answered; failures are logged."""
        self.check_usable()
        await self._heartbeats.send()

    def _heartbeat(self) -> HeartbeatData:
        if not self._producers and not self._consumers:
            return HeartbeatData(self.client_id)
        # compat: every client names this group, with which messages are sent back.
        groups = dict.fromkeys([CLIENT_INNER_PRODUCER_GROUP, *self._producers])
        consumers = [consumer.heartbeat() for consumer in self._consumers.values()]
        return HeartbeatData(self.client_id, [ProducerData(group) for group in groups], consumers)

    # -- asking -----------------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> BrokerTable:
        """Where brokers are, and their releases."""
        return self.routes.brokers

    def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> Awaitable[RemotingCommand]:
        """The answer of the peer at an address, whatever its code. Raises RemotingError, StateError once closed, or in a forked child."""
        # Not `async def`: each layer between a caller and its answer costs at every step.
        self.check_usable()
        return self._transport.request(address, command, timeout_ms)

    def standing_connection(self, address: str) -> ClientConnection | None:
        """The connection to the peer at an address, if one is open now."""
        return self._transport.standing(address)

    async def invoke(self, address: str, command: RemotingCommand, timeout_ms: int | None = None) -> RemotingCommand:
        """The answer, if it is a success. Raises BrokerError, and as `request` does. Without a time-out: `api_timeout`."""
        answer = await self.request(address, command, self.api_timeout_ms if timeout_ms is None else timeout_ms)
        return expect_success(answer, address)

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Sends what wants no answer. Raises ConnectError, StateError."""
        self.check_usable()
        await self._transport.oneway(address, command)

    def oneway_on(self, connection: Connection, command: RemotingCommand) -> None:
        """Sends what wants no answer on a connection on which a broker asked something."""
        self.check_usable()
        self.stamp(connection.remote, command)
        connection.send_oneway(command)

    def vip(self, address: str) -> str:
        """The address for requests that may go by the VIP channel."""
        if not self.config.vip_channel:
            return address
        host, port = parse_host(address)
        return format_host((host, port - VIP_DISTANCE))

    async def find_broker(self, broker_name: str, topic: str | None = None) -> str:
        """The master's address; if it is not known, the topic's route is looked at once. Raises BrokerNotFound."""
        address = self.brokers.master(broker_name)
        if address is None and topic is not None:
            try:
                await self.routes.update(topic)
            except HeadraceError as error:
                logger.debug("route not refreshed topic=%s reason=%s", topic, error)
            address = self.brokers.master(broker_name)
        if address is None:
            raise BrokerNotFound(f"no address of a master of the broker {broker_name} is known", broker_name)
        return address

    async def consumer_ids(self, group: str, topic: str) -> list[str]:
        """The client ids of a group's members, unsorted, as some broker of the topic knows them. Raises RouteNotFound, BrokerError, RemotingError."""
        address = self.routes.address_for(topic)
        if address is None:
            await self.routes.find(topic)
            address = self.routes.address_for(topic)
        if address is None:
            raise RouteNotFound(f"no broker of the topic {topic} is known", topic)
        header = GetConsumerListByGroupRequestHeader(group)
        command = create_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.to_ext())
        answer = await self.invoke(self.vip(address), command)
        return GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list

    def emit(
        self,
        kind: EventKind,
        *,
        topic: str | None = None,
        group: str | None = None,
        address: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Tells `ClientConfig.on_event`; what that raises is logged."""
        if self.config.on_event is not None:
            try:
                self.config.on_event(ClientEvent(kind, self.client_id, topic, group, address, detail))
            except Exception:
                logger.exception("on_event failed kind=%s", kind)

    def check_usable(self) -> None:
        """Raises StateError once closed, and in a forked child."""
        if self._is_closed:
            raise StateError(f"the client {self.client_id} is closed", "closed")
        if self._forks != _forks:
            message = f"the client {self.client_id} was made in the process {self._pid}, before a fork; make one in this process"
            raise StateError(message, "forked")

    # -- timers -----------------------------------------------------------------------------------------------------------

    async def _every(self, work: Callable[[], Awaitable[None]], first_s: float, period_s: float) -> None:
        await asyncio.sleep(first_s)
        while True:
            try:
                await work()
            except HeadraceError as error:
                logger.warning("periodic work failed reason=%s", error)
            await asyncio.sleep(period_s)

    async def _poll_routes(self) -> None:
        topics = [topic for consumer in self._consumers.values() for topic in consumer.subscribed_topics()]
        topics += [topic for producer in self._producers.values() for topic in producer.publish_topics()]
        if self._producers:
            topics.append(AUTO_CREATE_TOPIC)
        await self.routes.poll(topics)

    async def _beat_forever(self) -> None:
        wait_s = FIRST_HEARTBEAT_S
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._heartbeat_wanted.wait()
                self._heartbeat_wanted.clear()
                await asyncio.sleep(RECONNECT_PAUSE_S)
            except TimeoutError:
                pass
            self.routes.clean_brokers()
            await self._heartbeats.send()
            wait_s = seconds(self.config.heartbeat)

    async def _persist(self) -> None:
        consumers = list(self._consumers.values())
        results = await asyncio.gather(*(one.persist_offsets() for one in consumers), return_exceptions=True)
        for consumer, result in zip(consumers, results, strict=True):
            if isinstance(result, BaseException):
                logger.warning("offsets not persisted group=%s", consumer.group, exc_info=result)

    async def _look_up_forever(self) -> None:
        await asyncio.sleep(10)
        while True:
            if await self.name_servers.look_up():
                self.emit(EventKind.NAME_SERVERS_CHANGED, detail=";".join(self.name_servers.addresses))
            await asyncio.sleep(LOOKUP_INTERVAL_S)

    # -- what happens -----------------------------------------------------------------------------------------------------

    def _lost(self, connection: Connection, reason: str) -> None:
        if not self._is_closed:
            self._heartbeat_wanted.set()
            self.emit(EventKind.DISCONNECTED, address=connection.remote, detail=reason)

    def _route_changed(self, route: Route) -> None:
        logger.info("route changed topic=%s queues=%d", route.topic, len(route.publish_queues))
        self.emit(EventKind.ROUTE_CHANGED, topic=route.topic)
        masters = [broker.master_address for broker in route.data.broker_datas]
        if any(address is not None and address not in self.brokers.versions for address in masters):
            self._heartbeat_wanted.set()
