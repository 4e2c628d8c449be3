"""A host as records and message ids carry it: address bytes (4 or 16), then the port in 4 bytes.

In objects a host is a pair of the address's text and the port. Names are not resolved: an address is needed.
"""

import ipaddress
from functools import lru_cache
from typing import Final

Host = tuple[str, int]

V4_SIZE: Final = 8
V6_SIZE: Final = 20


@lru_cache(maxsize=8192)  # limit: peers of one broker and a few others, a hundred bytes each
def encode_host(host: Host) -> bytes:
    """The 8 (IPv4) or 20 (IPv6) bytes of a host. Raises ValueError if it is no address."""
    address, port = host
    # A link-local address names its interface after a percent sign; that means nothing elsewhere.
    return ipaddress.ip_address(address.partition("%")[0]).packed + (port & 0xFFFFFFFF).to_bytes(4, "big")


@lru_cache(maxsize=8192)  # limit: as above
def decode_host(data: bytes) -> Host:
    """The host in 8 or 20 bytes."""
    port = int.from_bytes(data[-4:], "big", signed=True)
    if len(data) == V4_SIZE:
        return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}", port
    return str(ipaddress.IPv6Address(data[:-4])), port


def parse_host(text: str) -> Host:
    """The host in `address:port`; an IPv6 address may stand in brackets. Raises ValueError."""
    address, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"not address:port: {text!r}")
    return address.removeprefix("[").removesuffix("]"), int(port)


def format_host(host: Host) -> str:
    """`address:port`, an IPv6 address in brackets."""
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
