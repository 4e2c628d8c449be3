"""AddressPattern: one entry of `whiteRemoteAddress` or `globalWhiteRemoteAddresses` (remoting spec 6.7).

    empty                              matches nothing
    *   *.*.*.*   *:*:*:*:*:*:*:*      matches everything
    1.2.3.{4,5}   2001:db8::{1,2}      these addresses
    1.2.3.4,2001:db8::1                these addresses
    1.2.3.*   1.2.10-20.*              a range: the first group after the first one that is `*` or LOW-HIGH; later groups are not compared
    2001:db8:*   2001:db8:1-200:*      the same for IPv6, in hexadecimal; `*` only at the end, a range only in the last group or before `*`
    1.2.3.4   2001:db8::1              this address

Hosts are compared as `inet_address.peer_address` gives them. The errors have RocketMQ's texts where it has one.
"""

from typing import Final, Protocol

from msgspec import Struct

from broker.access.errors import BadAddressPattern
from broker.access.inet_address import V6_GROUPS, expand, is_number_up_to, is_v4, is_v6, java_int

EVERYTHING: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_V4_GROUPS: Final = 4
_MAX_BYTE: Final = 255
_MAX_GROUP: Final = 0xFFFF
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java's `trim` removes."""


class AddressPattern(Protocol):
    """Tells whether it matches a host."""

    def matches(self, host: str) -> bool:
        """Whether the host, a text from `peer_address`, is meant."""


class EveryAddress(Struct, frozen=True):
    """Matches everything."""

    def matches(self, host: str) -> bool:  # noqa: ARG002
        """Whether the host is meant."""
        return True


class AddressSet(Struct, frozen=True):
    """Matches the addresses that were listed, in the form of `peer_address`."""

    addresses: frozenset[str]

    def matches(self, host: str) -> bool:
        """Whether the host is meant."""
        return host in self.addresses


class AddressRange(Struct, frozen=True):
    """Matches addresses that begin with `head` and whose group number `group` (from 0) is between `low` and `high`."""

    is_v6: bool
    head: str
    group: int
    low: int
    high: int

    def matches(self, host: str) -> bool:
        """Whether the host is meant."""
        if (":" in host) is not self.is_v6 or not host.startswith(self.head):
            return False
        separator, base = (":", 16) if self.is_v6 else (".", 10)
        value = int(host.split(separator)[self.group], base)
        return self.low <= value <= self.high


NOTHING: Final = AddressSet(frozenset())


def parse_pattern(text: str | None) -> AddressPattern:
    """The pattern in the text; None or blank: nothing. Raises BadAddressPattern."""
    if text is None or _is_blank(text):
        return NOTHING
    if text in EVERYTHING:
        return EveryAddress()
    if text.endswith("}"):
        return _listed(_in_braces(text))
    if "," in text:
        return _listed(_pieces(text, ","))
    if "*" in text or "-" in text:
        return _v6_range(text) if ":" in text else _v4_range(text)
    return _listed([text])


def _is_blank(text: str) -> bool:
    # compat: Java's isWhitespace does not hold for these, Python's isspace does.
    return all(character.isspace() and character not in "\x85\xa0\u2007\u202f" for character in text)


def _pieces(text: str, separator: str) -> list[str]:
    """The pieces between the separators without empty ones, as RocketMQ splits."""
    return [piece for piece in text.split(separator) if piece]


def _listed(texts: list[str]) -> AddressPattern:
    for text in texts:
        if not is_v4(text) and not is_v6(text):
            raise BadAddressPattern(f"Netaddress examine Exception netaddress is {text}")
    return AddressSet(frozenset(map(expand, texts)))


def _in_braces(text: str) -> list[str]:
    is_v6 = ":" in text
    groups = _pieces(text, ":" if is_v6 else ".")
    if not is_v6 and len(groups) < _V4_GROUPS:
        raise BadAddressPattern(f"MultipleRemoteAddressStrategy has got a/some wrong format IP(s) {text}")
    last = groups[-1]
    if not last.startswith("{"):
        raise BadAddressPattern(f"MultipleRemoteAddressStrategy netaddress examine scope Exception netaddress {text}")
    head = text[: text.index("{")]
    return [head + piece for piece in _pieces(last[1:-1], ",")]


def _v4_range(text: str) -> AddressPattern:
    groups = _pieces(text, ".")
    for number in range(1, _V4_GROUPS):
        if number >= len(groups):
            raise _out_of_scope(text)
        found = _range_of(groups[number].strip(_JAVA_BLANKS), _MAX_BYTE, 10)
        if found is not None:
            if len(groups) != _V4_GROUPS:
                raise _out_of_scope(text)
            trimmed = [group.strip(_JAVA_BLANKS) for group in groups[:number]]
            # compat: the group before the range is not checked; with a wrong one the pattern matches nothing.
            if not all(is_number_up_to(group, _MAX_BYTE) for group in trimmed[: number - 1]):
                raise _out_of_scope(text)
            return AddressRange(
                is_v6=False, head="".join(f"{group}." for group in trimmed), group=number, low=found[0], high=found[1]
            )
    raise _unusable(text)


def _v6_range(text: str) -> AddressPattern:
    _check_v6_places(text)
    groups = _pieces(text, ":")
    for number in range(1, len(groups)):
        found = _range_of(groups[number].strip(_JAVA_BLANKS), _MAX_GROUP, 16)
        if found is not None:
            before = expand(text).split(":")[: number - 1]
            if not all(is_number_up_to(group, _MAX_GROUP, 16) for group in before):
                raise _out_of_scope(text)
            head = _v6_head(text)
            group = len(_pieces(head, ":"))
            # compat: RocketMQ takes a head that no address can have, and fails for an address that begins like it.
            if group >= V6_GROUPS or "." in head:
                return NOTHING
            return AddressRange(is_v6=True, head=head, group=group, low=found[0], high=found[1])
    raise _unusable(text)


def _check_v6_places(text: str) -> None:
    """`*` has to be at the end, LOW-HIGH in the last group or in the one before `*`."""
    star, minus = text.find("*"), text.find("-")
    if star not in (-1, len(text) - 1):
        raise _out_of_scope(text)
    last_colon = text.rfind(":")
    if minus > -1 and minus <= (last_colon if star == -1 else text.rfind(":", 0, max(last_colon, 0))):
        raise _out_of_scope(text)


def _v6_head(text: str) -> str:
    """What stands before the groups with `-` and `*`, expanded so far that those groups would complete it."""
    last_colon = text.rfind(":")
    if "*" in text and "-" in text:
        second = text.rfind(":", 0, last_colon)
        if second < 0:
            raise _out_of_scope(text)
        return expand(text[:second], V6_GROUPS - 2)
    return expand(text[:last_colon], V6_GROUPS - 1)


def _range_of(group: str, highest: int, base: int) -> tuple[int, int] | None:
    """The range in a group; None if it is none, or only 0, which RocketMQ takes for none."""
    if group == "*":
        return 0, highest
    if "-" not in group:
        return None
    if group.startswith("-"):
        raise BadAddressPattern(f"RangeRemoteAddressStrategy netaddress examine scope Exception value {group} ")
    bounds = _pieces(group, "-")
    try:
        low, high = java_int(bounds[0], base), java_int(bounds[1], base)
    except (IndexError, ValueError):
        raise BadAddressPattern(f"the range {group} is not LOW-HIGH") from None
    if not 0 <= low <= high <= highest:
        raise BadAddressPattern(
            f"RangeRemoteAddressStrategy netaddress examine scope Exception start is {low} , end is {high}"
        )
    return (low, high) if high > 0 else None


def _out_of_scope(text: str) -> BadAddressPattern:
    return BadAddressPattern(f"Netaddress examine scope Exception netaddress is {text}")


def _unusable(text: str) -> BadAddressPattern:
    return BadAddressPattern(
        f"the address pattern {text} has no range that can be compared; use one such as 10.1.2.* or 10.1.2.1-9"
    )
