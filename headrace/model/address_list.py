"""Lists of addresses and networks, as options have them: `10.0.0.5, 10.1.0.0/16, fd00::/8`."""

import ipaddress
from functools import lru_cache
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(key: str, text: str) -> tuple[Network, ...]:
    """The networks in `text`, the value of option `key`, separated by commas, semicolons or blanks. Raises ValueError."""
    entries = text.replace(",", " ").replace(";", " ").split()
    networks = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError as error:
            raise ValueError(
                f"{key}={text}: {error}; expected addresses and networks, such as 10.0.0.5,10.1.0.0/16"
            ) from error
    return tuple(networks)


# Asked for each connection; parsing takes longer than accepting one.
@lru_cache(maxsize=8192)  # limit: the clients of one server
def parse_address(host: str) -> Address | None:
    """The address in a socket's host, with IPv4-mapped IPv6 addresses as IPv4; None if it is not an address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
