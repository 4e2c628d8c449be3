"""ClientInstance: what the producers, consumers and admins with one client id share: connections, routes, heartbeats, timers (client spec 1).

    instance = await ClientInstance.open(config)          # finds or creates it, and starts it; adds a user
    instance.register_consumer(member)                    # members.ConsumerMember; StateError if the group is registered already
    await instance.routes.find(topic)                     # Route: .subscribe_queues, .publish_queues, .data
    await instance.send_heartbeat()                       # brokers must know a subscription before the first pull
    answer = await instance.invoke(address, command, 3000)
    ...
    await instance.unregister_consumer(group)
    await instance.close()                                # removes a user; the last one stops it

What it offers to consumers

    config, client_id                    settings, and the id in the group's list of members
    routes                               RouteTable: find, update, cached, on_change(listener) -> stop, address_for(topic)
    brokers                              BrokerTable: find(name, id, only_this=), master(name), versions[address]
    find_broker(name, topic)             an address; updates the route once if the broker is unknown; BrokerNotFound
    request / invoke / oneway            any answer / success or BrokerError / no answer; addresses are `host:port`
    vip(address)                         the address for RocketMQ's VIP channel (client spec 1.11), if that is enabled
    send_heartbeat()                     sends a heartbeat to all brokers; returns when they have answered
    consumer_ids(group, topic)           client ids of the group's members, from a broker of the topic
    handlers                             HandlerTable for brokers' requests; those of client spec 1.14 are registered already
    start_task(coroutine, name)          a background task that ends with the instance; its failure is logged
    emit(kind, …)                        calls ClientConfig.on_event
    queue_requests.py                    max_offset, min_offset, search_offset, consumer offsets of a queue

members.py defines what a consumer must implement. Two clients share an instance only if their configurations have the same `instance_name`; then the
settings of the first one apply. An instance belongs to the loop and the process that opened it: a forked child that uses it gets StateError.
"""

import asyncio
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from headrace.client.cluster.answers import expect_success
from headrace.client.cluster.broker_requests import BrokerRequests
from headrace.client.cluster.client_id import build_client_id, fresh_instance_name
from headrace.client.cluster.heartbeats import Heartbeats
from headrace.client.cluster.members import ConsumerMember, ProducerMember
from headrace.client.cluster.name_servers import NameServers
from headrace.client.cluster.replies import Replies
from headrace.client.cluster.routes import BrokerTable, Route, RouteTable
from headrace.client.cluster.send_pipeline import SendPipeline
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
"""How long after a broker's connection was lost, or a broker was found, a heartbeat is sent, so that the broker knows the client."""
VIP_DISTANCE: Final = 2

StartTask: TypeAlias = Callable[[Coroutine[Any, Any, Any], str], "asyncio.Task[Any]"]
"""`ClientInstance.start_task`."""

_instances: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ClientInstance]]" = (
    weakref.WeakKeyDictionary()
)

_forks = 0
"""The number of forks between this process and the first one that loaded this module."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class ClientInstance:
    """Connections, routes, heartbeats and timers of one client id; see the module. Created by `open`."""

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

    # -- open and close ---------------------------------------------------------------------------------------------------

    @classmethod
    async def open(cls, config: ClientConfig, *, rename: bool = True, stream: bool = False) -> "ClientInstance":
        """Returns the running instance for a configuration. Each `open` needs a `close`.

        Without an `instance_name` a new instance is created; with `rename=False` (broadcasting consumers) its name is DEFAULT. Raises NoNameServer
        if no name server is configured.
        """
        if not config.name_servers:
            raise NoNameServer("no name server is configured; pass name_servers, or set NAMESRV_ADDR")
        name = config.instance_name or (fresh_instance_name() if rename else "DEFAULT")
        client_id = build_client_id(name, config.client_ip, config.unit_name, stream=stream)
        loop = asyncio.get_running_loop()
        known = _instances.setdefault(loop, {})
        instance = known.get(client_id)
        if instance is None:
            instance = known[client_id] = cls(config, client_id, stream=stream)
            # In a task of its own: concurrent callers wait for the same start, and cancelling one of them does not end it.
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
            # The waiting callers get the error; the next caller starts anew.
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
        """Removes a user; the last one stops timers and connections. Members must be unregistered before."""
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
        """Whether the last user has closed it."""
        return self._is_closed

    def start_task(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Runs a coroutine in the background until it or the instance ends. Its failure is logged."""
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
        """Adds a producer to the next heartbeat. Raises StateError if its group is registered already."""
        self._register(self._producers, producer.group, producer, "producer")

    def register_consumer(self, consumer: ConsumerMember) -> None:
        """Adds a consumer to the next heartbeat. Raises StateError if its group is registered already."""
        self._register(self._consumers, consumer.group, consumer, "consumer")

    def _register(self, members: dict[str, Any], group: str, member: object, kind: str) -> None:
        self.check_usable()
        if group in members:
            message = f"the client {self.client_id} already has a member of the {kind} group {group}; use another instance_name"
            raise StateError(message, "registered")
        members[group] = member

    async def unregister_producer(self, group: str) -> None:
        """Removes a producer and notifies the brokers."""
        if self._producers.pop(group, None) is not None:
            await self._heartbeats.unregister(self.client_id, producer=group)

    async def unregister_consumer(self, group: str) -> None:
        """Removes a consumer and notifies the brokers, which notify the group."""
        if self._consumers.pop(group, None) is not None:
            await self._heartbeats.unregister(self.client_id, consumer=group)

    async def send_heartbeat(self) -> None:
        """Sends a heartbeat to all brokers. Returns when they have answered; failures are logged."""
        self.check_usable()
        await self._heartbeats.send()

    def _heartbeat(self) -> HeartbeatData:
        if not self._producers and not self._consumers:
            return HeartbeatData(self.client_id)
        # compat: every client registers this group, which sends messages back.
        groups = dict.fromkeys([CLIENT_INNER_PRODUCER_GROUP, *self._producers])
        consumers = [consumer.heartbeat() for consumer in self._consumers.values()]
        return HeartbeatData(self.client_id, [ProducerData(group) for group in groups], consumers)

    # -- requests ---------------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> BrokerTable:
        """The addresses of brokers, and their versions."""
        return self.routes.brokers

    def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> Awaitable[RemotingCommand]:
        """Returns the answer of the peer at an address, whatever its code. Raises RemotingError, and StateError if closed or in a forked child."""
        # Not `async def`: each coroutine between a caller and its answer costs time at every step.
        self.check_usable()
        return self._transport.request(address, command, timeout_ms)

    def send_pipeline(self, address: str) -> SendPipeline | None:
        """Returns the pipeline of the open connection to an address, if there is one."""
        return self._transport.pipeline(address)

    async def invoke(self, address: str, command: RemotingCommand, timeout_ms: int | None = None) -> RemotingCommand:
        """Returns a successful answer. Raises BrokerError, and as `request` does. The default timeout is `api_timeout`."""
        answer = await self.request(address, command, self.api_timeout_ms if timeout_ms is None else timeout_ms)
        return expect_success(answer, address)

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Sends a request that gets no answer. Raises ConnectError, StateError."""
        self.check_usable()
        await self._transport.oneway(address, command)

    def oneway_on(self, connection: Connection, command: RemotingCommand) -> None:
        """Sends a request that gets no answer on the connection on which a broker sent one."""
        self.check_usable()
        self.stamp(connection.remote, command)
        connection.send_oneway(command)

    def vip(self, address: str) -> str:
        """Returns the address for requests that may use the VIP channel."""
        if not self.config.vip_channel:
            return address
        host, port = parse_host(address)
        return format_host((host, port - VIP_DISTANCE))

    async def find_broker(self, broker_name: str, topic: str | None = None) -> str:
        """Returns the master's address; updates the topic's route once if it is unknown. Raises BrokerNotFound."""
        address = self.brokers.master(broker_name)
        if address is None and topic is not None:
            try:
                await self.routes.update(topic)
            except HeadraceError as error:
                logger.debug("route not updated topic=%s error=%r", topic, str(error))
            address = self.brokers.master(broker_name)
        if address is None:
            raise BrokerNotFound(
                f"no known master for broker {broker_name}; check that it is running and registered with the name servers",
                broker_name,
            )
        return address

    async def consumer_ids(self, group: str, topic: str) -> list[str]:
        """Returns the client ids of a group's members, unsorted, from a broker of the topic. Raises RouteNotFound, BrokerError, RemotingError."""
        address = self.routes.address_for(topic)
        if address is None:
            await self.routes.find(topic)
            address = self.routes.address_for(topic)
        if address is None:
            raise RouteNotFound(f"no known broker for topic {topic}; check that the topic exists", topic)
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
        """Calls `ClientConfig.on_event`; its exceptions are logged."""
        if self.config.on_event is not None:
            try:
                self.config.on_event(ClientEvent(kind, self.client_id, topic, group, address, detail))
            except Exception:
                logger.exception("on_event callback failed kind=%s", kind)

    def check_usable(self) -> None:
        """Raises StateError if closed, or in a forked child."""
        if self._is_closed:
            raise StateError(f"the client {self.client_id} is closed; create a new one", "closed")
        if self._forks != _forks:
            message = f"the client {self.client_id} was created in process {self._pid}, before a fork; create one in this process"
            raise StateError(message, "forked")

    # -- timers -----------------------------------------------------------------------------------------------------------

    async def _every(self, work: Callable[[], Awaitable[None]], first_s: float, period_s: float) -> None:
        await asyncio.sleep(first_s)
        while True:
            try:
                await work()
            except HeadraceError as error:
                logger.warning("periodic task failed error=%r", str(error))
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
                logger.warning("offsets not stored group=%s", consumer.group, exc_info=result)

    async def _look_up_forever(self) -> None:
        await asyncio.sleep(10)
        while True:
            if await self.name_servers.look_up():
                self.emit(EventKind.NAME_SERVERS_CHANGED, detail=";".join(self.name_servers.addresses))
            await asyncio.sleep(LOOKUP_INTERVAL_S)

    # -- events -----------------------------------------------------------------------------------------------------------

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
