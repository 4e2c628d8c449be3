"""AdminCalls: the basis of all admin calls: one request to a broker, to a name server, or to all of either, and its decoded answer."""

import asyncio
from typing import Final, TypeVar

from headrace.client.cluster.answers import expect_success
from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.lifecycle import ClientObject
from headrace.client.cluster.routes import Route
from headrace.client.namespace import unwrap, wrap
from headrace.errors import BrokerNotFound, MessageInvalid
from headrace.model.host import format_host
from headrace.model.message import MessageExt
from headrace.model.message_id import decode_offset_message_id
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ClusterInfo, JsonBody
from headrace.protocol.headers import CommandHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode

TIMEOUT_MS: Final = 5_000
LONG_TIMEOUT_MS: Final = 15_000
"""For requests that make a broker compute much or ask a client: RocketMQ's tools wait three times as long."""
LARGE_BYTES: Final = (
    1 << 20
)  # limit: larger answers are decoded in a thread; the loop would stand still for a tenth of a second for each MiB

B = TypeVar("B", bound=JsonBody)
T = TypeVar("T")


class AdminCalls(ClientObject):
    """The base class of the groups of admin calls."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {';'.join(self._config.name_server_list)}>"

    async def _begin(self, instance: ClientInstance) -> None:
        """Nothing more: an Admin is not a member of any group and sends no heartbeats."""

    async def _end(self, instance: ClientInstance) -> None:
        """Nothing to finish."""

    async def cluster_info(self, *, name_server: str | None = None) -> ClusterInfo:
        """Returns all brokers known to the name servers, or to one: `broker_addr_table` by broker name, `cluster_addr_table` by cluster. Raises RemotingError, BrokerError."""
        if name_server is None:
            return ClusterInfo.decode((await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        answers = await self._ask_name_servers(RequestCode.GET_BROKER_CLUSTER_INFO, only=name_server)
        return ClusterInfo.decode(answers[name_server].body)

    async def name_servers(self) -> list[str]:
        """Returns the addresses of the name servers that the client uses, sorted. Asks nobody."""
        return sorted(self._instance.name_servers.addresses)

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Returns the addresses of the masters of a cluster, or of all, by broker name. Raises BrokerNotFound if there is none."""
        info = await self.cluster_info()
        names = info.broker_addr_table if cluster is None else info.cluster_addr_table.get(cluster, [])
        found = {
            name: data.master_address
            for name in names
            if (data := info.broker_addr_table.get(name)) is not None and data.master_address is not None
        }
        if not found:
            where = f"the cluster {cluster}" if cluster is not None else "any cluster"
            raise BrokerNotFound(
                f"no master of {where} is registered with the name servers; check the name, and that its brokers are running",
                cluster,
            )
        return found

    # -- for subclasses ---------------------------------------------------------------------------------------------------

    async def _ask(
        self, broker: str, what: CommandHeader | RequestCode, body: bytes = b"", timeout_ms: int = TIMEOUT_MS
    ) -> RemotingCommand:
        """Returns a successful answer of the broker at an address. Raises BrokerError, RemotingError."""
        return await self._instance.invoke(self._instance.vip(broker), _command(what, body), timeout_ms)

    async def _ask_name_server(self, what: CommandHeader | RequestCode, body: bytes = b"") -> RemotingCommand:
        answer = await self._instance.name_servers.request(_command(what, body), TIMEOUT_MS)
        return expect_success(answer)

    async def _ask_name_servers(
        self, what: CommandHeader | RequestCode, body: bytes = b"", only: str | None = None
    ) -> dict[str, RemotingCommand]:
        """Returns the answers of all name servers, or of `only` one, by address."""
        addresses = await self.name_servers() if only is None else [only]
        return {
            address: await self._instance.invoke(address, _command(what, body), TIMEOUT_MS) for address in addresses
        }

    async def _body(
        self, kind: type[B], broker: str, what: CommandHeader | RequestCode, timeout_ms: int = TIMEOUT_MS
    ) -> B:
        body = (await self._ask(broker, what, timeout_ms=timeout_ms)).body
        return await asyncio.to_thread(kind.decode, body) if len(body) > LARGE_BYTES else kind.decode(body)

    async def _fresh_route(self, topic: str) -> Route:
        return await self._instance.routes.update(self._wrap(topic))

    async def _brokers_of(self, topic: str) -> dict[str, str]:
        """Returns an address of each broker that has the topic, the master's if there is one. Raises RouteNotFound."""
        route = await self._fresh_route(topic)
        return {
            broker.broker_name: broker.master_address or next(iter(broker.broker_addrs.values()))
            for broker in route.data.broker_datas
            if broker.broker_addrs
        }

    async def _targets(self, broker: str | None, cluster: str | None) -> list[str]:
        """Returns the given address, or else those of the masters of the cluster, or of all clusters."""
        return [broker] if broker is not None else sorted((await self.masters(cluster)).values())

    def _wrap(self, resource: str) -> str:
        return wrap(self._config.namespace, resource)

    def _unwrap(self, resource: str) -> str:
        return unwrap(self._config.namespace, resource)

    def _wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._wrap(queue.topic), queue.broker_name, queue.queue_id)

    def _unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._unwrap(queue.topic), queue.broker_name, queue.queue_id)

    def _unwrap_queues(self, by_queue: dict[MessageQueue, T]) -> dict[MessageQueue, T]:
        if not self._config.namespace:
            return by_queue  # an answer may have a hundred thousand
        return {self._unwrap_queue(queue): one for queue, one in by_queue.items()}

    def _unwrap_message(self, message: MessageExt) -> MessageExt:
        message.topic = self._unwrap(message.topic)
        return message

    def _address_in(self, offset_message_id: str) -> str:
        try:
            return format_host(decode_offset_message_id(offset_message_id)[0])
        except ValueError as error:
            raise MessageInvalid(str(error)) from error


def _command(what: CommandHeader | RequestCode, body: bytes) -> RemotingCommand:
    if isinstance(what, RequestCode):
        return create_request(what, None, body)
    assert what.CODE is not None
    return create_request(what.CODE, what.to_ext(), body)
