"""Native numbers, bits and bytes in the memory of Arrow columns, for the compiled decoder. (headrace.protocol.big_endian reads the log.)

Compiled modules use the C functions of the `.pxd` beside this file, interpreted ones the functions below; `data` is the result of
`headrace.protocol.big_endian.address_of`. Bounds are not checked here: the caller has made room for everything in a range.

This is a package because it must not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import os
import sys


def put_int(data: memoryview, index: int, value: int) -> None:
    """Store a native 32-bit number at `index` of an array."""
    data[index * 4 : index * 4 + 4] = value.to_bytes(4, sys.byteorder, signed=True)


def put_long(data: memoryview, index: int, value: int) -> None:
    """Store a native 64-bit number at `index` of an array."""
    data[index * 8 : index * 8 + 8] = value.to_bytes(8, sys.byteorder, signed=True)


def put_bit(data: memoryview, index: int) -> None:
    """Set bit `index` of a bitmap, lowest first."""
    data[index >> 3] |= 1 << (index & 7)


def put_hex(data: memoryview, at: int, source: memoryview, start: int, length: int) -> None:
    """Put `length` bytes of `source` from `start` on as upper case hexadecimal digits at `at`."""
    data[at : at + 2 * length] = bytes(source[start : start + length]).hex().upper().encode()


def put_ipv4(data: memoryview, at: int, source: memoryview, start: int, port: int) -> int:
    """Put `a.b.c.d:port` with the address in the four bytes from `start` on. Returns its length, at most 26."""
    text = b"%d.%d.%d.%d:%d" % (*source[start : start + 4], port)
    data[at : at + len(text)] = text
    return len(text)


def is_ascii(data: memoryview, start: int, end: int) -> bool:
    """Whether all bytes from `start` to `end` are below 128."""
    return bytes(data[start:end]).isascii()


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
