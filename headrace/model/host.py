"""A host, as in records and message ids: address bytes (4 or 16), then the port in 4 bytes.

In Python a host is a pair of the address as text and the port. Names are not resolved: an IP address is required.
"""

import ipaddress
from functools import lru_cache
from typing import Final

Host = tuple[str, int]

V4_SIZE: Final = 8
V6_SIZE: Final = 20


def encode_host(host: Host) -> bytes:
    """Returns the 8 (IPv4) or 20 (IPv6) bytes of a host. Raises ValueError if the address is invalid."""
    address, port = host
    return _pack(address) + (port & 0xFFFFFFFF).to_bytes(4, "big")


# Of the address alone: a client that connects again has another port.
@lru_cache(maxsize=8192)  # limit: the clients of one broker, about a hundred bytes each
def _pack(address: str) -> bytes:
    # A link-local address has its interface after a percent sign, which means nothing on other machines.
    return ipaddress.ip_address(address.partition("%")[0]).packed


@lru_cache(maxsize=8192)  # limit: the peers of one broker
def decode_host(data: bytes) -> Host:
    """Returns the host in 8 or 20 bytes."""
    port = int.from_bytes(data[-4:], "big", signed=True)
    if len(data) == V4_SIZE:
        return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}", port
    return str(ipaddress.IPv6Address(data[:-4])), port


def parse_host(text: str) -> Host:
    """Returns the host in `address:port`; an IPv6 address may be in brackets. Raises ValueError."""
    address, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"{text!r} is not a valid address:port")
    return address.removeprefix("[").removesuffix("]"), int(port)


def format_host(host: Host) -> str:
    """Returns `address:port`, with an IPv6 address in brackets."""
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
