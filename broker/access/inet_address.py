"""Texts of IP addresses as RocketMQ's ACL validates and compares them.

RocketMQ uses the rules of commons-validator, which accept a few texts that are no addresses, such as `::+1`. They are kept: what one broker loads,
the other loads too. Only the ASCII digits count as digits.
"""

import ipaddress
import re
from typing import Final

V6_GROUPS: Final = 8
_V6_GROUP_DIGITS: Final = 4
_MAX_PREFIX_BITS: Final = 128
_MAX_BYTE: Final = 255
_MAX_GROUP: Final = 0xFFFF

_V4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_NUMBER: Final = {10: re.compile("[+-]?[0-9]{1,20}"), 16: re.compile("[+-]?[0-9a-fA-F]{1,20}")}
_PREFIX: Final = re.compile("[0-9]{1,3}")
_ZONE: Final = re.compile(r"[^\s/%]+", re.ASCII)


def is_v4(text: str) -> bool:
    """Whether the text is an IPv4 address: four numbers up to 255 without leading zeros."""
    match = _V4.fullmatch(text)
    return match is not None and all(
        int(part) <= _MAX_BYTE and (len(part) == 1 or part[0] != "0") for part in match.groups()
    )


def is_v6(text: str) -> bool:
    """Whether the text is an IPv6 address; a prefix length and a zone may follow it."""
    address, *prefixes = text.split("/")
    if len(prefixes) > 1 or (
        prefixes and not (_PREFIX.fullmatch(prefixes[0]) and int(prefixes[0]) <= _MAX_PREFIX_BITS)
    ):
        return False
    address, *zones = address.split("%")
    if len(zones) > 1 or (zones and not _ZONE.fullmatch(zones[0])):
        return False
    is_compressed = "::" in address
    if is_compressed and address.find("::") != address.rfind("::"):
        return False
    if (address.startswith(":") and not address.startswith("::")) or (
        address.endswith(":") and not address.endswith("::")
    ):
        return False
    groups = _split(address)
    if is_compressed:
        if address.endswith("::"):
            groups.append("")
        elif address.startswith("::") and groups:
            del groups[0]
    return len(groups) <= V6_GROUPS and _are_v6_groups(groups, is_compressed=is_compressed)


def _split(address: str) -> list[str]:
    # compat: Java's split drops empty pieces at the end, but not the only one.
    groups = address.split(":")
    while len(groups) > 1 and not groups[-1]:
        groups.pop()
    return [] if groups == [""] and address else groups


def _are_v6_groups(groups: list[str], *, is_compressed: bool) -> bool:
    count = 0
    for number, group in enumerate(groups):
        if not group:
            if number > 0 and not groups[number - 1]:
                return False
        elif number == len(groups) - 1 and "." in group:
            if not is_v4(group):
                return False
            count += 1
        elif len(group) > _V6_GROUP_DIGITS or not is_number_up_to(group, _MAX_GROUP, 16):
            return False
        count += 1
    return count == V6_GROUPS or (count < V6_GROUPS and is_compressed)


def java_int(text: str, base: int = 10) -> int:
    """The whole number in the text, as Java's Integer.parseInt reads it. Raises ValueError."""
    if not _NUMBER[base].fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    value = int(text, base)
    if not -0x80000000 <= value < 0x80000000:
        raise ValueError(f"{text!r} is too large")
    return value


def is_number_up_to(text: str, highest: int, base: int = 10) -> bool:
    """Whether the text is a number from 0 to `highest`."""
    try:
        return 0 <= java_int(text, base) <= highest
    except ValueError:
        return False


def expand(address: str, groups: int = V6_GROUPS) -> str:
    """The address in upper case with `groups` groups of at least four digits in place of `::`. An IPv4 address stays as it is."""
    address = address.upper()
    missing = groups - address.count(":")
    if missing > 0:
        address = address.replace("::", ":" * (missing + 1))
    return ":".join(group.rjust(_V6_GROUP_DIGITS, "0") for group in address.split(":")) if address else ""


def peer_address(host: str) -> str:
    """The address of a peer in the form in which patterns compare it.

    IPv4 as it is, also where the socket shows it mapped into IPv6; IPv6 expanded, without its zone. What is no address stays as it is.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address.exploded.upper())
