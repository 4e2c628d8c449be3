"""The Bloom filter by which a bitmap says which consumer groups may want a message.

Each group and topic has a few bits, by the hash of `group#topic`; a bitmap has the bits of all groups whose expression is true. A
group whose bits are not all set does not want the message; one whose bits are set may want it, and looks again.
"""

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from msgspec import Struct

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_FIRST: Final = 0x87C37B91114253D5
_SECOND: Final = 0x4CF5AD432745937F


class BloomFilterData(Struct, frozen=True):
    """The bits of one group in maps of `bit_count` bits; as it is in consumerFilter.json."""

    NAMES: ClassVar[Mapping[str, str]] = {"bit_count": "bitNum", "positions": "bitPos"}

    positions: list[int]
    bit_count: int


class BloomFilter:
    """Filters for this many groups and such an error rate (store spec 13.6)."""

    def __init__(self, error_percent: int = 20, expected: int = 32) -> None:
        """Raises ValueError where RocketMQ does not make one either: the error from 1 to 99, at least one group."""
        if not 1 <= error_percent <= 99 or expected < 1:
            raise ValueError(f"invalid Bloom filter parameters: {error_percent} % errors with {expected} groups")
        error = error_percent / 100
        self.hashes = math.ceil(math.log(error) / math.log(0.5))
        bits = math.ceil(expected * (math.log(1 / error) / math.log(2)) * (math.log(math.e) / math.log(2)))
        self.bit_count = 8 * math.ceil(bits / 8)

    def data_of(self, group: str, topic: str) -> BloomFilterData:
        """The bits of a group in a topic."""
        return BloomFilterData(self.positions_of(f"{group}#{topic}"), self.bit_count)

    def positions_of(self, name: str) -> list[int]:
        """The bits of a name, in the order of their hashes."""
        first = murmur3_first(name.encode())
        low, high = _signed(first), _signed(first >> 32)
        combined = (_signed(low + i * high) for i in range(1, self.hashes + 1))
        return [(~hash_ if hash_ < 0 else hash_) % self.bit_count for hash_ in combined]

    def is_valid(self, data: BloomFilterData | None) -> bool:
        """Whether the bits were made by a filter of this shape."""
        return (
            data is not None
            and data.bit_count == self.bit_count
            and len(data.positions) == self.hashes
            and all(0 <= position < self.bit_count for position in data.positions)
        )

    def map_of(self, groups: Iterable[BloomFilterData]) -> bytes:
        """The bitmap in which these groups' bits are set."""
        bits = bytearray(self.bit_count // 8)
        for data in groups:
            for position in data.positions:
                bits[position >> 3] |= 1 << (position & 7)
        return bytes(bits)


def is_hit(data: BloomFilterData, bit_map: bytes) -> bool:
    """Whether all of a group's bits are set."""
    return all(bit_map[position >> 3] >> (position & 7) & 1 for position in data.positions)


def murmur3_first(data: bytes) -> int:
    """The first 64 bits of the 128-bit murmur3 hash (x64, seed 0), unsigned."""
    one = two = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        one ^= _scramble_first(int.from_bytes(data[at : at + 8], "little"))
        one = (_rotate(one, 27) + two) * 5 + 0x52DCE729 & _MASK
        two ^= _scramble_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        two = (_rotate(two, 31) + one) * 5 + 0x38495AB5 & _MASK
    one ^= _scramble_first(int.from_bytes(data[whole : whole + 8], "little"))
    two ^= _scramble_second(int.from_bytes(data[whole + 8 :], "little"))
    one ^= len(data)
    two ^= len(data)
    one = one + two & _MASK
    two = two + one & _MASK
    return _mix(one) + _mix(two) & _MASK


def _scramble_first(word: int) -> int:
    return _rotate(word * _FIRST & _MASK, 31) * _SECOND & _MASK


def _scramble_second(word: int) -> int:
    return _rotate(word * _SECOND & _MASK, 33) * _FIRST & _MASK


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


def _mix(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33


def _signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - 0x100000000 if word & 0x80000000 else word
