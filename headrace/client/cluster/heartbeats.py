"""Heartbeats: they register the client's groups and subscriptions at every known broker, which forgets them after 120 s without one (client spec 1.8)."""

import asyncio
import logging
from collections.abc import Callable

from headrace.client.cluster.routes import BrokerTable
from headrace.client.cluster.transport import ClientTransport
from headrace.errors import HeadraceError
from headrace.protocol.bodies import HeartbeatData
from headrace.protocol.headers import UnregisterClientRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)


class Heartbeats:
    """Registers the client at brokers, and unregisters it. Failures are logged; the next round repeats it."""

    def __init__(
        self, transport: ClientTransport, brokers: BrokerTable, content: Callable[[], HeartbeatData], timeout_ms: int
    ) -> None:
        self._transport = transport
        self._brokers = brokers
        self._content = content
        self._timeout_ms = timeout_ms
        self._lock = asyncio.Lock()

    async def send(self) -> None:
        """Sends a heartbeat to every broker, or to masters only while there is no consumer. Returns when all have answered or failed."""
        async with self._lock:
            content = self._content()
            if not content.producer_data_set and not content.consumer_data_set:
                return
            body = content.encode()
            addresses = self._brokers.all_addresses(only_masters=not content.consumer_data_set)
            await asyncio.gather(*(self._beat(address, body) for address in addresses))

    async def _beat(self, address: str, body: bytes) -> None:
        answer = await self._try(address, create_request(RequestCode.HEART_BEAT, None, body), "heartbeat")
        if answer is not None:
            self._brokers.versions[address] = answer.version

    async def unregister(self, client_id: str, *, producer: str | None = None, consumer: str | None = None) -> None:
        """Tells every broker that a group no longer has a member here."""
        ext = UnregisterClientRequestHeader(client_id, producer, consumer).to_ext()
        await asyncio.gather(
            *(
                self._try(address, create_request(RequestCode.UNREGISTER_CLIENT, dict(ext)), "unregistration")
                for address in self._brokers.all_addresses()
                # A broker that was never reached, or is gone, removes the client by itself; closing must not wait for it.
                if self._transport.is_connected(address)
            )
        )

    async def _try(self, address: str, command: RemotingCommand, what: str) -> RemotingCommand | None:
        try:
            answer = await self._transport.request(address, command, self._timeout_ms)
        except HeadraceError as error:
            logger.warning("%s failed broker=%s error=%r", what, address, str(error))
            return None
        if answer.code != ResponseCode.SUCCESS:
            logger.warning("%s rejected broker=%s code=%d remark=%r", what, address, answer.code, answer.remark)
            return None
        return answer
