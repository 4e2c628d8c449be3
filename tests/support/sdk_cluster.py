"""A cluster written for tests, on real sockets in the test's loop: a name server and brokers with scripted answers.

async with Cluster("a", "b") as cluster:
    cluster.brokers["a"].answers.append(Answer(code=1))      # the next send is refused; then sends succeed again
    cluster.brokers["b"].is_silent = True
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from headrace.model.message_id import encode_offset_message_id
from headrace.protocol.batch import decode_batch
from headrace.protocol.bodies import BrokerData, HeartbeatData, QueueData, TopicRouteData
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.request_code import RequestCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.server import RemotingServer


@dataclass
class Answer:
    """A broker's answer to a send in place of success, delayed by `delay_s`."""

    code: int = 0
    remark: str | None = None
    delay_s: float = 0.0


class FakeBroker:
    """Accepts and records sends and heartbeats."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.answers: list[Answer] = []
        self.is_silent = False
        self.body = b""
        """Of the answers to requests that are neither sends nor heartbeats."""
        self.sends: list[RemotingCommand] = []
        self.others: list[RemotingCommand] = []
        self.heartbeats: list[HeartbeatData] = []
        self.connections: list[Connection] = []
        self._offset = 0
        self._server: RemotingServer | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens, on its former port if it has one.

        A test that restarts a broker gives it a `free_port`; otherwise another process may have taken the port.
        """
        handlers = HandlerTable(self._other)
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
            handlers.register(code, self._send)
        handlers.register(RequestCode.HEART_BEAT, self._heartbeat)
        self._server = RemotingServer(handlers)
        self.port = await self._server.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        """Closes all connections and stops listening."""
        if self._server is not None:
            await self._server.stop(0.1)
            self._server = None

    async def _send(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
        self.sends.append(command)
        answer = self.answers.pop(0) if self.answers else Answer()
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        if self.is_silent:
            return None
        if answer.code not in (0, 10, 11, 12):
            return response_to(command, answer.code, answer.remark)
        count = len(decode_batch(command.body)) if command.ext.get("m") == "true" else 1
        ids = [encode_offset_message_id(("127.0.0.1", self.port), self._offset + at) for at in range(count)]
        offset, self._offset = self._offset, self._offset + count
        ext = {
            "msgId": ",".join(ids),
            "queueId": command.ext["e"],
            "queueOffset": str(offset),
            "MSG_REGION": "DefaultRegion",
        }
        return response_to(command, answer.code, ext=ext)

    def _heartbeat(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        self.connections.append(connection)
        self.heartbeats.append(HeartbeatData.decode(command.body))
        return response_to(command, 0)

    def _other(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        self.others.append(command)
        return response_to(command, 0, body=self.body)

    def push(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Sends a one-way request to the client that sent last."""
        self.connections[-1].send_oneway(create_request(code, ext, body))

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
        """Sends a request to the client that sent last."""
        return await self.connections[-1].request(create_request(code, ext, body), 60_000)


class Cluster:
    """A name server with `topics` of `queues` queues at each broker; requests for `not_answered` get no answer."""

    def __init__(self, *names: str, queues: int = 2) -> None:
        self.queues = queues
        self.topics = {"T", "TBW102"}
        self.not_answered: set[str] = set()
        self.brokers = {name: FakeBroker(name) for name in names}
        self.asked: Counter[str] = Counter()
        self.name_servers: list[str] = []
        self._servers: list[RemotingServer] = []

    @property
    def name_server(self) -> str:
        """All name servers, separated by `;`."""
        return ";".join(self.name_servers)

    async def add_name_server(self, port: int = 0) -> RemotingServer:
        """Adds a name server, on any free port if none is given."""
        handlers = HandlerTable()
        handlers.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        server = RemotingServer(handlers)
        self.name_servers.append(f"127.0.0.1:{await server.listen('127.0.0.1', port)}")
        self._servers.append(server)
        return server

    def route(self) -> TopicRouteData:
        """The route of each topic."""
        queues = [QueueData(name, self.queues, self.queues, 6) for name in self.brokers]
        brokers = [BrokerData(name, "c", {0: broker.address}) for name, broker in self.brokers.items()]
        return TopicRouteData(queues, brokers)

    def _route(self, _connection: Any, command: RemotingCommand) -> RemotingCommand | None:
        topic = command.ext["topic"]
        self.asked[topic] += 1
        if topic in self.not_answered:
            return None
        if topic not in self.topics:
            return response_to(command, 17, "No topic route info in name server for the topic: " + topic)
        return response_to(command, 0, body=self.route().encode())

    async def __aenter__(self) -> Self:
        await self.add_name_server()
        for broker in self.brokers.values():
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            await broker.stop()
        for server in self._servers:
            await server.stop(0.1)
