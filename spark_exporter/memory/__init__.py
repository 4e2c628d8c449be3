"""Numbers and bytes in memory, for the compiled decoder: big-endian ones of the log in, native ones of Arrow out.

A compiled module takes the C functions of the `.pxd` beside this file; `address_of` is then the memory's address, and whoever keeps
it keeps the view too. A module that is not compiled takes the functions below: an address is the view itself.

This is a package because it must not be compiled itself: what is compiled and what is not may then be mixed. Nothing checks bounds.
"""

import os
import sys
from zlib import crc32


def address_of(view: memoryview) -> memoryview:
    """What the functions below take as `data`. `view` must be a contiguous memoryview of bytes."""
    return view


def load_short(data: memoryview, at: int) -> int:
    """The signed big-endian 16-bit number at `at`."""
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def load_int(data: memoryview, at: int) -> int:
    """The signed big-endian 32-bit number at `at`."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def load_long(data: memoryview, at: int) -> int:
    """The signed big-endian 64-bit number at `at`."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put_int(data: memoryview, index: int, value: int) -> None:
    """Put the machine's own 32-bit number at place `index` of an array of them."""
    data[index * 4 : index * 4 + 4] = value.to_bytes(4, sys.byteorder, signed=True)


def put_long(data: memoryview, index: int, value: int) -> None:
    """Put the machine's own 64-bit number at place `index` of an array of them."""
    data[index * 8 : index * 8 + 8] = value.to_bytes(8, sys.byteorder, signed=True)


def put_bit(data: memoryview, index: int) -> None:
    """Set bit `index` of a bitmap, lowest first."""
    data[index >> 3] |= 1 << (index & 7)


def put_bytes(data: memoryview, at: int, source: memoryview | bytes, start: int, length: int) -> None:
    """Put `length` bytes of `source` from `start` on at `at`."""
    data[at : at + length] = source[start : start + length]


def put_hex(data: memoryview, at: int, source: memoryview, start: int, length: int) -> None:
    """Put `length` bytes of `source` from `start` on as upper case hexadecimal digits at `at`."""
    data[at : at + 2 * length] = bytes(source[start : start + length]).hex().upper().encode()


def put_ipv4(data: memoryview, at: int, source: memoryview, start: int) -> int:
    """Put `a.b.c.d:port` of the eight bytes from `start` on. Returns its length; 0, with nothing put, for a port that is negative."""
    port = load_int(source, start + 4)
    if port < 0:
        return 0
    text = b"%d.%d.%d.%d:%d" % (*source[start : start + 4], port)
    data[at : at + len(text)] = text
    return len(text)


def find_byte(data: memoryview, byte: int, start: int, end: int) -> int:
    """Where `byte` first stands from `start` on, before `end`; -1 if it does not."""
    found = bytes(data[start:end]).find(byte)
    return found if found < 0 else start + found


def is_equal(data: memoryview, at: int, text: memoryview | bytes, text_at: int, length: int) -> bool:
    """Whether the `length` bytes of `text` from `text_at` on stand at `at`."""
    return data[at : at + length] == text[text_at : text_at + length]


def is_ascii(data: memoryview, start: int, end: int) -> bool:
    """Whether all bytes from `start` to `end` are below 128."""
    return bytes(data[start:end]).isascii()


def copy_bytes(data: memoryview, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, copied."""
    return bytes(data[start:end])


def take_crc_function(address: int) -> None:
    """Have `crc_of` call the C function at that address; 0: its own."""


def crc_of(data: memoryview, at: int, length: int) -> int:
    """The CRC-32 of `length` bytes. Compiled, of these 32 bits the first is a sign."""
    return crc32(data[at : at + length])


def read_at(descriptor: int, data: memoryview, at: int, length: int, place: int) -> int:
    """Read `length` bytes of a file from `place` on to `at`. How many there were; an error is its number, negative."""
    done = 0
    while done < length:
        try:
            count = os.preadv(descriptor, [data[at + done : at + length]], place + done)
        except OSError as error:
            return -(error.errno or 0)
        if count == 0:
            break
        done += count
    return done
