"""Registration: registers this broker and its topics at every name server.

    at the start       all topics, waiting for the responses
    periodically       all topics, first after 10 s, then every registerNameServerPeriod
    connection lost    all topics, soon: a restarted name server has no brokers
    topic created      all topics, one-way, at once: the producer's next request must find it
    topic changed      only that topic, waiting for the responses, so that it can be used at once
    at the stop        the broker unregisters

Name servers are independent, so requests go to all of them in parallel, and one that is down delays nothing longer than
`registerBrokerTimeoutMills`. Only changes of a name server's state are logged (remoting spec 3.3 to 3.5).
"""

import asyncio
import dataclasses
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from ssl import SSLContext
from typing import Final, Protocol

from msgspec.structs import replace

from broker.config import BrokerConfig
from broker.table_text import TOPICS, wire_text
from broker.topics.topics import READ_WRITE, TopicTable
from headrace.errors import HeadraceError, RemoteProtocolError
from headrace.model import names
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies.register_broker import RegisterBrokerBody
from headrace.protocol.bodies.tables import KVTable, TopicConfigSerializeWrapper
from headrace.protocol.headers.name_server import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnregisterBrokerRequestHeader,
)
from headrace.protocol.json_bean import encode_bean
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode, response_name
from headrace.remoting.client import RemotingClient

logger = logging.getLogger(__name__)

FIRST_PERIODIC_S: Final = 10.0  # RocketMQ's, after the registration at the start
# limit: ten seconds after a lost connection; then the clock again, as in RocketMQ
AGAIN_PAUSES_S: Final = (0.1,) + (0.25,) * 40
LEAVE_TIMEOUT_MS: Final = (
    3000  # limit: a name server that misses this request drops the broker when the connection closes
)


class Client(Protocol):
    """What is needed of `headrace.remoting.client.RemotingClient`."""

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request and waits for its response; raises HeadraceError."""

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Sends a one-way request; raises HeadraceError."""

    async def close(self) -> None:
        """Closes all connections."""


class Registration:
    """Keeps this broker registered at every name server. One for each broker; used in its event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        name_servers: Sequence[str] = (),
        client: Client | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`name_servers` count where namesrvAddr gives none. `tls`: connect to them by TLS."""
        self._client: Client = client or RemotingClient(
            on_close=lambda _connection, _reason: self.connection_lost(), ssl=tls
        )
        self._topics = topics
        self._config = config
        self._given_name_servers = tuple(name_servers)
        self._answers: dict[str, bool] = {}
        self._is_stopped = False
        self._periodic: asyncio.Task[None] | None = None
        self._soon: asyncio.Task[None] | None = None
        self._after_change: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None
        self._has_lost = False

    # -- from the start to the stop ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Registers everywhere, waits for the responses, and continues periodically and whenever a topic is created.

        Unreachable name servers are retried.
        """
        self._topics.on_created(lambda _topic: self.register_soon())
        if not self.name_servers:
            logger.warning("no name servers configured (namesrvAddr), clients cannot find this broker by topic")
        await self.register()
        self._periodic = asyncio.get_running_loop().create_task(self._register_by_the_clock())

    async def stop(self) -> None:
        """Unregisters from every name server and closes the connections to them."""
        self._is_stopped = True
        for task in (self._periodic, self._soon, self._after_change, self._again):
            if task is not None:
                task.cancel()
        self._periodic = self._soon = self._after_change = self._again = None
        header = UnregisterBrokerRequestHeader(*self._who())
        answers = await self._ask_all(
            lambda: create_request(RequestCode.UNREGISTER_BROKER, header.to_ext()), LEAVE_TIMEOUT_MS
        )
        await self._client.close()
        if answers:
            logger.info("broker unregistered name_servers=%s", ";".join(answers))

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the name servers."""
        return self._config.name_servers or self._given_name_servers

    def options_changed(self, keys: frozenset[str]) -> None:
        """Registers at once after a change of the broker's permission."""
        if "brokerPermission" in keys:
            self._after_change = asyncio.get_running_loop().create_task(self._register_changed())

    async def _register_changed(self) -> None:
        try:
            self._topics.raise_version()
        except OSError as error:
            logger.warning("topic version not saved, name servers keep the old permission error=%r", str(error))
        await self.register()

    # -- registering ------------------------------------------------------------------------------------------------------

    async def register(self) -> None:
        """Registers all topics everywhere and applies the responses. Errors of name servers are not raised."""
        needed = self.name_servers if self._config.force_register else await self._those_that_differ()
        answers = await self._ask_all(lambda: self._request(self._topics.all()), self._timeout_ms, needed)
        self._apply_answers(list(answers.values()))

    async def register_topic(self, name: str) -> None:
        """Registers one topic everywhere, waits for the responses and applies them."""
        topic = self._topics.find(name)
        if topic is not None:
            answers = await self._ask_all(lambda: self._request({name: topic}), self._timeout_ms)
            self._apply_answers(list(answers.values()))

    def register_soon(self) -> None:
        """Registers all topics everywhere, one-way. Topics created at the same time are registered together."""
        if not self._is_stopped and (self._soon is None or self._soon.done()):
            self._soon = asyncio.get_running_loop().create_task(self._send_all())

    def connection_lost(self) -> None:
        """Registers again as soon as the name server is back, if it is within seconds: to clients we are missing until then."""
        self._has_lost = True
        if not self._is_stopped and (self._again is None or self._again.done()):
            self._again = asyncio.get_running_loop().create_task(self._register_again())

    async def _register_again(self) -> None:
        for pause_s in AGAIN_PAUSES_S:
            self._has_lost = False
            await asyncio.sleep(pause_s)
            await self.register()
            if not self._has_lost and all(map(self._answers.get, self.name_servers)):
                return

    async def _register_by_the_clock(self) -> None:
        await asyncio.sleep(FIRST_PERIODIC_S)
        while True:
            await self.register()
            await asyncio.sleep(self._config.register_period_s)

    async def _send_all(self) -> None:
        version = None
        # A topic created meanwhile finds this running, so it checks again before it ends.
        while version != self._topics.data_version:
            version = self._topics.data_version
            request = self._request(self._topics.all())
            await asyncio.gather(
                *(self._send_oneway(address, dataclasses.replace(request)) for address in self.name_servers)
            )

    async def _send_oneway(self, address: str, request: RemotingCommand) -> None:
        try:
            await self._client.oneway(address, request)
        except HeadraceError as error:
            self._note(address, error)

    async def _those_that_differ(self) -> tuple[str, ...]:
        """The name servers that have another version of the topics, or did not respond."""
        header = QueryDataVersionRequestHeader(*self._who())
        body = encode_bean(self._topics.data_version)
        answers = await self._ask_all(
            lambda: create_request(RequestCode.QUERY_DATA_VERSION, header.to_ext(), body), self._timeout_ms
        )
        same = {address for address, answer in answers.items() if not _is_changed(answer)}
        return tuple(address for address in self.name_servers if address not in same)

    async def _ask_all(
        self, request: Callable[[], RemotingCommand], timeout_ms: int, addresses: tuple[str, ...] | None = None
    ) -> dict[str, RemotingCommand]:
        """Sends a request to all name servers in parallel; returns the successful responses by address."""
        asked = self.name_servers if addresses is None else addresses
        found = await asyncio.gather(*(self._ask(address, request(), timeout_ms) for address in asked))
        return {address: answer for address, answer in zip(asked, found, strict=True) if answer is not None}

    async def _ask(self, address: str, request: RemotingCommand, timeout_ms: int) -> RemotingCommand | None:
        try:
            answer = await self._client.request(address, request, timeout_ms)
        except HeadraceError as error:
            self._note(address, error)
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._note(address, f"{response_name(answer.code)}: {answer.remark}")
            return None
        self._note(address, None)
        return answer

    def _note(self, address: str, trouble: HeadraceError | str | None) -> None:
        """Logs a name server's state if it has changed."""
        is_well = trouble is None
        if self._answers.get(address) == is_well:
            return
        self._answers[address] = is_well
        if is_well:
            logger.info("broker registered name_server=%s address=%s", address, self._config.address)
        else:
            logger.warning("registration failed, will retry name_server=%s error=%r", address, str(trouble))

    def _apply_answers(self, answers: list[RemotingCommand]) -> None:
        """Takes the ordered topics from the first response that has them."""
        for ordered in filter(None, map(_ordered_topics, answers)):
            try:
                self._topics.set_ordered(ordered.table)
            except OSError as error:
                logger.warning("ordered topics not updated, will retry error=%r", str(error))
            break

    # -- what is sent -----------------------------------------------------------------------------------------------------

    @property
    def _timeout_ms(self) -> int:
        return self._config.register_broker_timeout_mills

    def _who(self) -> tuple[str, str, str, int]:
        config = self._config
        return config.broker_name, config.address, config.broker_cluster_name, config.broker_id

    def _request(self, topics: Mapping[str, TopicConfig]) -> RemotingCommand:
        config = self._config
        shown = {name: self._shown(topic) for name, topic in topics.items()}
        version = self._topics.data_version
        if config.compressed_register:
            body = RegisterBrokerBody(TopicConfigSerializeWrapper(version, shown), []).encode_compressed()
        else:
            wrapper = wire_text(TOPICS, shown, version)
            body = f'{{"filterServerList":[],"topicConfigSerializeWrapper":{wrapper}}}'.encode()
        header = RegisterBrokerRequestHeader(
            config.broker_name,
            config.address,
            config.broker_cluster_name,
            config.ha_address,
            config.broker_id,
            config.compressed_register,
            zlib.crc32(body) & 0x7FFFFFFF,
        )
        return create_request(RequestCode.REGISTER_BROKER, header.to_ext(), body)

    def _shown(self, topic: TopicConfig) -> TopicConfig:
        """The topic as registered: limited by the broker's permission."""
        permission = self._config.broker_permission
        return topic if permission == READ_WRITE else replace(topic, permission=permission)


def _is_changed(answer: RemotingCommand) -> bool:
    try:
        return QueryDataVersionResponseHeader.from_ext(answer.ext_fields).changed
    except RemoteProtocolError:
        return True


def _ordered_topics(answer: RemotingCommand) -> KVTable | None:
    """The table ORDER_TOPIC_CONFIG, whose keys are the ordered topics; None if the name server has none."""
    if not answer.body:
        return None
    try:
        return KVTable.decode(answer.body)
    except RemoteProtocolError as error:
        logger.warning("unreadable table from name server table=%s error=%r", names.ORDER_TOPIC_NAMESPACE, str(error))
        return None
