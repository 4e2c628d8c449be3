"""Big-endian numbers and bytes in memory: the one place where compiled code reads numbers of frames and files.

Nothing here checks bounds. Code that reads a number from a socket or a file must follow this rule:

1. A length, a count or a size that cannot be negative is read unsigned (`load_u16`, `load_u32`). If the format defines it as
   signed (`load_i8`, `load_i16`, `load_i32`), its sign is checked before any other use.
2. A length is compared with the remaining bytes *before* it is used, as `length > end - at` with `at <= end` known: the difference cannot
   overflow, the sum `at + length` could.
3. Every load returns a C `long long`, in which sums and products of a few 32-bit numbers cannot overflow. A 64-bit number (`load_i64`)
   can have any value: it is compared with its bounds before any arithmetic.
4. An offset that was read is compared with the bounds of the memory before it addresses memory.

Compiled modules use the C functions of the `.pxd` beside this file: a load or store is one machine word and a byte swap, so that
another process never reads a half-written field. `address_of` is then the memory's address; keep the view as long as the address
is used. Interpreted modules use the functions below: an address is the view itself, and a slice assignment of eight aligned bytes
is also a single store.

This is a package, because packages are not compiled: so compiled and interpreted modules can be mixed.
"""

Bytes = bytes | bytearray | memoryview


def address_of(view: memoryview) -> memoryview:
    """The type of `data` in the functions below. `view` must be a contiguous memoryview of bytes."""
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


def store_bytes(data: memoryview, at: int, source: Bytes, start: int, length: int) -> None:
    """Copy `length` bytes of `source`, beginning at `start`, to `at`."""
    data[at : at + length] = source[start : start + length]


def find_byte(data: Bytes, byte: int, start: int, end: int) -> int:
    """The position of the first `byte` between `start` and `end`; -1 if there is none."""
    found = bytes(data[start:end]).find(byte)
    return found if found < 0 else start + found


def is_equal(data: Bytes, at: int, text: bytes | memoryview, text_at: int, length: int) -> bool:
    """Whether the bytes at `at` equal `length` bytes of `text` from `text_at` on."""
    return data[at : at + length] == text[text_at : text_at + length]


def copy_until(to: memoryview, to_at: int, data: Bytes, start: int, end: int, byte: int) -> int:
    """Copies the bytes from `start` to the first `byte`, or to `end`, to `to_at`; returns how many. Compiled: up to 7 bytes behind them are overwritten."""
    found = find_byte(data, byte, start, end)
    length = (end if found < 0 else found) - start
    store_bytes(to, to_at, data, start, length)
    return length


def equal_length(data: Bytes, at: int, text: Bytes, text_at: int, length: int) -> int:
    """How many of the `length` bytes at `at` equal those of `text` from `text_at` on, up to the first that differs."""
    same = 0
    while length:
        part = (length + 1) // 2
        if data[at + same : at + same + part] == text[text_at + same : text_at + same + part]:
            same += part
            length -= part
        elif part == 1:
            break
        else:
            length = part
    return same


def prefetch(data: Bytes, start: int, end: int) -> None:
    """Compiled: asks the processor to load these bytes, which will be read soon. They are not read now, and need not be there."""


def copy_bytes(data: Bytes, start: int, end: int) -> bytes:
    """A copy of the bytes from `start` to `end`."""
    return bytes(data[start:end])
