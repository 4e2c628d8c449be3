"""The name-server address service: `/rocketmq/nsaddr`, which clients ask if they were given no address (client spec 1.4).

The answer is one line of addresses joined by `;`. Clients with a unit name ask for `/rocketmq/nsaddr-UNIT?nofix=1`; every unit gets the same
addresses, because one console serves one cluster.
"""

from collections.abc import Sequence
from typing import Final

from headrace.model.address_list import parse_address
from headrace.model.host import format_host, parse_host

SUBGROUP: Final = "nsaddr"


def name_server_line(addresses: Sequence[str], reached_at: str) -> str:
    """The addresses for a client that reached the console at the host `reached_at`.

    An address of the loopback or of all interfaces is of no use to a client on another machine: it gets the host by which it found the console.
    """
    lines = []
    for address in addresses:
        host, port = parse_host(address)
        lines.append(format_host((reached_at, port)) if _is_local(host) and not _is_local(reached_at) else address)
    return ";".join(lines)


def is_subgroup(name: str) -> bool:
    """Whether the last part of the path asks for name servers: `nsaddr`, or `nsaddr-UNIT`."""
    return name == SUBGROUP or name.startswith(f"{SUBGROUP}-")


def _is_local(host: str) -> bool:
    address = parse_address(host)
    return host == "localhost" if address is None else address.is_loopback or address.is_unspecified
