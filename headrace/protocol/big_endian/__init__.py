"""Big-endian numbers and bytes in memory: the one place where compiled code reads numbers of frames and files.

Nothing here checks bounds. Whoever reads a number that came from a socket or a file keeps this rule:

1. A length, a count or a size that cannot be negative is read unsigned (`load_u16`, `load_u32`). Where the format says that it is
   signed (`load_i8`, `load_i16`, `load_i32`), its sign is tested before anything else is done with it.
2. A length is compared with what is left *before* it is used, as `length > end - at` with `at <= end` known: the difference cannot
   overflow, the sum `at + length` could.
3. Every load gives a C `long long`, in which sums and products of a few 32-bit numbers cannot overflow. A 64-bit number (`load_i64`)
   can be anything: it is compared with its bounds before it is added to, multiplied or negated.
4. An offset that was read is compared with the bounds of the memory before it addresses memory.

A compiled module takes the C functions of the `.pxd` beside this file: a load or a store is one machine word and a byte swap, so that
a field of a file which another process reads is never seen half-written. `address_of` is then the memory's address, and whoever
keeps it keeps the view too. A module that is not compiled takes the functions below: an address is the view itself, and a slice
assignment of eight aligned bytes is also one store.

This is a package because it must not be compiled itself: compiled and interpreted modules may then be mixed.
"""

Bytes = bytes | bytearray | memoryview


def address_of(view: memoryview) -> memoryview:
    """What the functions below take as `data`. `view` must be a contiguous memoryview of bytes."""
    return view


def load_i8(data: Bytes, at: int) -> int:
    """The signed 8-bit number at `at`."""
    return int.from_bytes(data[at : at + 1], "big", signed=True)


def load_u16(data: Bytes, at: int) -> int:
    """The unsigned 16-bit number at `at`."""
    return int.from_bytes(data[at : at + 2], "big")


def load_i16(data: Bytes, at: int) -> int:
    """The signed 16-bit number at `at`."""
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def load_u32(data: Bytes, at: int) -> int:
    """The unsigned 32-bit number at `at`."""
    return int.from_bytes(data[at : at + 4], "big")


def load_i32(data: Bytes, at: int) -> int:
    """The signed 32-bit number at `at`."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def load_i64(data: Bytes, at: int) -> int:
    """The signed 64-bit number at `at`."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def store_i16(data: memoryview, at: int, value: int) -> None:
    """Store a signed 16-bit number at `at`."""
    data[at : at + 2] = value.to_bytes(2, "big", signed=True)


def store_i32(data: memoryview, at: int, value: int) -> None:
    """Store a signed 32-bit number at `at`."""
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)


def store_i64(data: memoryview, at: int, value: int) -> None:
    """Store a signed 64-bit number at `at`."""
    data[at : at + 8] = value.to_bytes(8, "big", signed=True)


def store_bytes(data: memoryview, at: int, source: bytes | memoryview, start: int, length: int) -> None:
    """Copy `length` bytes of `source` from `start` on to `at`."""
    data[at : at + length] = source[start : start + length]


def find_byte(data: Bytes, byte: int, start: int, end: int) -> int:
    """The place of the first `byte` from `start` on, before `end`; -1 if there is none."""
    found = bytes(data[start:end]).find(byte)
    return found if found < 0 else start + found


def is_equal(data: Bytes, at: int, text: bytes | memoryview, text_at: int, length: int) -> bool:
    """Whether the `length` bytes of `text` from `text_at` on stand at `at`."""
    return data[at : at + length] == text[text_at : text_at + length]


def copy_bytes(data: Bytes, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, copied."""
    return bytes(data[start:end])
