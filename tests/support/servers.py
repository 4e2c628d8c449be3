"""The interface of a running server of either kind, and free ports to start one on."""

import fcntl
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Server(Protocol):
    """A running name server and broker: Apache's (`support.reference`) or ours (`support.appliance`)."""

    name: str
    data: Path

    @property
    def name_server(self) -> str:
        """HOST:PORT of the name server."""

    @property
    def broker(self) -> str:
        """HOST:PORT of the broker."""

    @property
    def store(self) -> Path:
        """The store's root, which contains commitlog, consumequeue, index and config."""

    def pids(self) -> list[int]:
        """All running processes of the server."""

    def stop(self) -> None:
        """Stops it cleanly and waits until it has ended."""

    def kill(self) -> None:
        """Kills it, as in a crash."""


def wait_until(condition: Callable[[], object], deadline_s: float, what: str) -> None:
    """Waits until `condition()` is true; AssertionError naming `what` if it is not by the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            message = f"not within {deadline_s:g} s: {what}"
            raise AssertionError(message)
        time.sleep(0.02)


def _ports_for_servers() -> range:
    """Candidate ports for brokers, outside the kernel's ephemeral range, which outgoing connections use."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    below, above = range(11_000, min(first, 32_000) - 8, 8), range(last // 8 * 8 + 16, 65_528, 8)
    most = max(below, above, key=len)
    return (
        most if len(most) > 500 else range(11_000, 32_000, 8)
    )  # one run may need this many, whatever the ephemeral range is


_PORTS = _ports_for_servers()
_chosen_here: set[int] = set()
_reservations = (Path(tempfile.gettempdir()) / f"headrace-test-ports-{os.getuid()}").open("ab")


def free_ports() -> tuple[int, int]:
    """Reserves a port for a name server and one for a broker; the VIP (port - 2) and HA (port + 1) ports are free too.

    They are reserved until this process ends: no other test process on this machine gets them before a server binds
    them. No later server of this process gets them either, because the clients in its long-lived JVM would take it for
    the first one.
    """
    chosen = random.Random(os.urandom(8))
    for _ in range(2000):
        broker = chosen.choice(_PORTS)
        name_server = broker - 4
        if _is_ours_alone(broker) and all(_is_free(port) for port in (name_server, broker - 2, broker, broker + 1)):
            return name_server, broker
    message = "no free ports"
    raise AssertionError(message)


def _is_ours_alone(broker: int) -> bool:
    """Whether no test process has reserved the ports at `broker`; each is a lock on one byte of a file."""
    if broker in _chosen_here:
        return False
    try:
        fcntl.lockf(_reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, broker)
    except OSError:
        return False
    _chosen_here.add(broker)
    return True


def free_port() -> int:
    """One free port below the ephemeral range, so that no outgoing connection gets it."""
    return free_ports()[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
