"""NameServers: a shuffled list of name servers, of which one is used until it fails (client spec 1.4).

The server that answered last is used again as long as its connection is open. If it cannot be reached, each of the others is tried once. A list at
an `http://` address is fetched when the client starts, and every two minutes after that; a failed fetch leaves the list as it is.
"""

import asyncio
import logging
import random
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from typing import Final

from headrace.client.cluster.transport import ClientTransport
from headrace.client.settings import parse_name_servers
from headrace.errors import ConfigError, ConnectError, NoNameServer, RequestTimeout, SendRequestError
from headrace.protocol.remoting_command import RemotingCommand

logger = logging.getLogger(__name__)

LOOKUP_TIMEOUT_S: Final = 3.0
_LOOKUP_LIMIT: Final = 1 << 16  # limit: bytes of a fetched list


class NameServers:
    """Sends requests to a name server that can be reached."""

    def __init__(self, transport: ClientTransport, addresses: Iterable[str]) -> None:
        given = tuple(addresses)
        self._transport = transport
        self._lookup_url = next((one for one in given if one.startswith(("http://", "https://"))), None)
        self._addresses: list[str] = []
        self._at = random.randrange(1000)
        self._chosen: str | None = None
        if self._lookup_url is None:
            self.replace(given)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The known servers."""
        return tuple(self._addresses)

    @property
    def is_looked_up(self) -> bool:
        """Whether the list is fetched from an HTTP address."""
        return self._lookup_url is not None

    def replace(self, addresses: Iterable[str]) -> bool:
        """Replaces the list; returns whether it changed."""
        fresh = list(dict.fromkeys(addresses))
        if not fresh or set(fresh) == set(self._addresses):
            return False
        random.shuffle(fresh)
        self._addresses = fresh
        if self._chosen not in fresh:
            self._chosen = None
        return True

    async def look_up(self) -> bool:
        """Fetches the list from its HTTP address; returns whether it changed. A failure is logged and changes nothing."""
        if self._lookup_url is None:
            return False
        try:
            text = await asyncio.to_thread(_fetch, self._lookup_url)
            return self.replace(parse_name_servers(text))
        except (OSError, HTTPException, ConfigError) as error:
            logger.warning("name server list not fetched url=%s error=%r", self._lookup_url, str(error))
            return False

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Returns the answer of a name server, whatever its code.

        Raises NoNameServer if none is known, ConnectError if none can be reached, RequestTimeout. After a timeout the next request uses another server.
        """
        if not self._addresses:
            raise NoNameServer("no name server is configured; pass name_servers, or set NAMESRV_ADDR")
        end = asyncio.get_running_loop().time() + timeout_ms / 1000
        problem: Exception | None = None
        for address in self._candidates():
            remaining_ms = int((end - asyncio.get_running_loop().time()) * 1000)
            if remaining_ms <= 0:
                break
            try:
                answer = await self._transport.request(address, command, remaining_ms)
            except (ConnectError, SendRequestError) as error:
                problem = error
                if self._chosen == address:
                    self._chosen = None
            except RequestTimeout:
                self._chosen = None
                raise
            else:
                self._chosen = address
                return answer
        if problem is None:
            raise RequestTimeout(f"no name server answered within {timeout_ms} ms", timeout=timeout_ms / 1000)
        servers = ", ".join(self._addresses)
        raise ConnectError(f"cannot connect to any name server ({servers}): {problem}") from problem

    def _candidates(self) -> list[str]:
        """Returns the servers in the order to try: the current one, whose connection may have broken unnoticed, then each once.

        order: computed once for each request: concurrent requests that shared it would skip servers.
        """
        addresses = self._addresses
        self._at += 1
        start = self._at % len(addresses)
        in_turn = [*addresses[start:], *addresses[:start]]
        return in_turn if self._chosen is None else [self._chosen, *in_turn]


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LOOKUP_TIMEOUT_S) as answer:  # noqa: S310 - http or https, see NameServers
        text = answer.read(_LOOKUP_LIMIT).decode("utf-8", "replace").strip()
    return text.splitlines()[0] if text else ""
