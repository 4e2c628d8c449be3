"""Big-endian numbers in mapped memory, for the compiled modules of the store.

A compiled module takes the C functions of the `.pxd` beside this file: a load or a store of one machine word and a byte swap, so that
a field of a file which another process reads is never seen half-written. `address_of` is then the memory's address, and whoever
keeps it keeps the view too. A module that is not compiled takes the functions below: an address is the view itself, and a slice
assignment of eight aligned bytes is also one store.

This is a package because it must not be compiled itself: what is compiled and what is not may then be mixed.
Nothing checks bounds. `data` is what `address_of` gave.
"""


def address_of(view: memoryview) -> memoryview:
    """What the functions below take as `data`. `view` must be a contiguous memoryview of bytes."""
    return view


def load_short(data: memoryview, at: int) -> int:
    """The signed 16-bit number at `at`."""
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def load_int(data: memoryview, at: int) -> int:
    """The signed 32-bit number at `at`."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def load_long(data: memoryview, at: int) -> int:
    """The signed 64-bit number at `at`."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def store_int(data: memoryview, at: int, value: int) -> None:
    """Store a signed 32-bit number at `at`."""
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)


def store_long(data: memoryview, at: int, value: int) -> None:
    """Store a signed 64-bit number at `at`."""
    data[at : at + 8] = value.to_bytes(8, "big", signed=True)


def find_byte(data: bytes | memoryview, byte: int, start: int, end: int) -> int:
    """Where `byte` first stands from `start` on, before `end`; -1 if it does not."""
    found = bytes(data[start:end]).find(byte)
    return found if found < 0 else start + found


def is_equal(data: memoryview, at: int, text: bytes, length: int) -> bool:
    """Whether the `length` bytes of `text` stand at `at`."""
    return data[at : at + length] == text


def copy_bytes(data: memoryview, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, copied."""
    return bytes(data[start:end])
