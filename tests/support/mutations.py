"""Mutated copies of valid inputs for fuzzing, reproducible from the random numbers."""

import random
import struct
from collections.abc import Sequence

NUMBERS = [
    *(struct.pack(">B", number) for number in (0, 1, 0x7F, 0x80, 0xFF)),
    *(struct.pack(">H", number) for number in (0, 1, 0x7FFF, 0x8000, 0xFFFF)),
    *(
        struct.pack(">I", number & 0xFFFFFFFF)
        for number in (
            0,
            1,
            8,
            20,
            90,
            91,
            0x7FFFFFFF,
            0x80000000,
            0x90000000,
            0xFFFF0000,
            -1,
            -2,
            -5,
            -22,
            -42,
            1 << 24,
            1 << 16,
        )
    ),
    *(
        struct.pack(">Q", number & 0xFFFFFFFFFFFFFFFF)
        for number in (0, 1, -1, -(1 << 63), (1 << 63) - 1, 1 << 62, 1 << 58, (1 << 58) + 1, 1 << 32, 1 << 31)
    ),
]
"""Big-endian numbers at the edges of what fields hold, and of what code reckons with."""

TOKENS = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"false", b"-", b"+", b"0", b"9" * 18, b"9" * 19, b"9" * 40,
    b"-9223372036854775808", b"9223372036854775807", b"2147483648", b"-2147483649", b"1e309", b"1e-400", b"0x7f", b"NaN",
    b"\\u0000", b"\\u0002", b"\\ud800", b"\\u00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\x00", b"\x01", b"\x02",
    b"'", b" ", b"/*", b"*/", b"//", b"(", b")", b"%", b"#", b"$", b"@", b"../", b"%RETRY%", b"a" * 300, b"[" * 200, b"{\"a\":" * 100,
]  # fmt: skip
"""Pieces of text on which parsers of the protocol's texts decide something."""

LONGEST = 1 << 17
"""No mutated input is longer, whatever was inserted."""


class Mutator:
    """Makes inputs from `seeds`; with `texts`, pieces of text are inserted too."""

    def __init__(self, seeds: Sequence[bytes], texts: bool = False, extra: Sequence[bytes] = ()) -> None:
        self.seeds = list(seeds)
        self._pieces = [*NUMBERS, *(TOKENS if texts else ()), *extra]

    def mutate(self, chance: random.Random) -> bytes:
        """A seed with one to four changes."""
        return self.change(chance, chance.choice(self.seeds))

    def change(self, chance: random.Random, seed: bytes) -> bytes:
        """`seed` with one to four changes."""
        data = bytearray(seed)
        bits = chance.getrandbits
        for _ in range(1 + (bits(4) & bits(4) & 3)):
            length = len(data)
            if not length:
                data += chance.choice(self._pieces)
                continue
            at = int(chance.random() * length)
            kind = bits(4)
            if kind < 5:
                piece = chance.choice(self._pieces)
                data[at : at + len(piece)] = piece
            elif kind < 8:
                data[at] ^= 1 << bits(3)
            elif kind < 10:
                data[at] = bits(8)
            elif kind == 10:
                del data[at:]
            elif kind == 11:
                del data[at : at + 1 + bits(5)]
            elif kind == 12:
                data[at:at] = chance.choice(self._pieces)
            elif kind == 13:
                other = chance.choice(self.seeds)
                start = int(chance.random() * (len(other) + 1))
                data[at : at + bits(6)] = other[start : start + bits(6)]
            elif kind == 14:
                start = int(chance.random() * length)
                data[at:at] = data[start : start + bits(6)]
            else:
                data[at] = (data[at] + chance.choice((1, 255))) & 255
        return bytes(data[:LONGEST])
