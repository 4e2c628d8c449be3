"""ClientUsage: the resources that all connections of one client use together.

A client is an account, or an address while its connections have no account. Of an IPv6 address only the network (64 bits) counts, because a
host can use all addresses of its network. Each connection holds a reference to its client's usage, so that nothing is looked up for a request.
"""

from collections import deque
from time import monotonic_ns
from typing import Any, Final

WINDOW_BITS: Final = 21  # limit: windows of 2 ms, in which `turns` divides the time
_MAPPED_IPV4: Final = "::ffff:"


class ClientUsage:
    """The usage of one client, kept while it has connections and a little longer (`ClientUsages`)."""

    __slots__ = ("connections", "handshakes", "is_queued", "name", "requests", "spent_ns", "waiting", "window")

    def __init__(self, name: str) -> None:
        self.name = name
        """For remarks and log lines: `account NAME` or `address HOST`."""
        self.connections = 0
        self.handshakes = 0
        """TLS handshakes of its connections that are in progress."""
        self.requests = 0
        """Requests of its connections that are in progress."""
        # For `turns`: the time that it has used in a window of time, and its channels that wait for a turn.
        self.window = 0
        self.spent_ns = 0
        self.waiting: deque[Any] = deque()
        self.is_queued = False


NOBODY: Final = ClientUsage("")
"""The usage of connections whose peer is not known yet."""


class ClientUsages:
    """The usage of each client that has connections, or has used the loop's time in the current window or the one before (`turns`).

    One that connects again is no new client. Owned by one event loop.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, ClientUsage] = {}
        self._left: deque[ClientUsage] = deque()
        self.connections = 0
        """Connections of all addresses."""

    def __len__(self) -> int:
        return len(self._by_name)

    def join(self, name: str) -> ClientUsage:
        """Adds a connection; returns the client's usage."""
        usage = self._by_name.get(name)
        if usage is None:
            usage = self._by_name[name] = ClientUsage(name)
        usage.connections += 1
        return usage

    def join_address(self, host: str) -> ClientUsage:
        """Adds a connection of an address; returns the usage of the client without an account."""
        self.connections += 1
        return self.join(name_of_address(host))

    def leave_address(self, usage: ClientUsage) -> None:
        """Removes a connection that `join_address` has added; nothing for NOBODY."""
        if usage is not NOBODY:
            self.connections -= 1
            self.leave(usage)

    def leave(self, usage: ClientUsage) -> None:
        """Removes a connection."""
        usage.connections -= 1
        if not usage.connections:
            self._left.append(usage)
        last = (
            monotonic_ns() >> WINDOW_BITS
        ) - 1  # `turns` carries what was used beyond the share into the next window
        while self._left and (self._left[0].connections or self._left[0].window < last):
            gone = self._left.popleft()
            if not gone.connections and self._by_name.get(gone.name) is gone:
                del self._by_name[gone.name]


def name_of_account(account: str) -> str:
    """The name of a client with an account."""
    return f"account {account}"


def name_of_address(host: str) -> str:
    """The name of a client without one."""
    if host.startswith(_MAPPED_IPV4) and "." in host:
        host = host.removeprefix(_MAPPED_IPV4)
    elif ":" in host:
        host = _network(host)
    return f"address {host}"


def _network(host: str) -> str:
    """The first 64 bits of an IPv6 address."""
    before, has_gap, after = host.partition("%")[0].partition("::")
    groups, rest = [group for group in before.split(":") if group], [group for group in after.split(":") if group]
    if has_gap:
        groups += ["0"] * (8 - len(groups) - len(rest)) + rest
    return ":".join(groups[:4]) + "::/64"
