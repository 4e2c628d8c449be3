# cython: boundscheck=True
"""Reads records that lie apart in a segment into memory, one behind the other.

A hot module, compiled where there is a compiler: a range with files of each topic is read in this way, a record or some neighbours at a time.
"""

import os

import cython

from spark_exporter.errors import SourceError
from spark_exporter.reading.segments import Segment

if not cython.compiled:
    from headrace.protocol.big_endian import address_of
    from spark_exporter.reading.memory import read_at


def gather(
    descriptor: int, segment: Segment, memory: memoryview, places: memoryview, sizes: memoryview, number: int
) -> tuple[int, int]:
    """Read records `number`, `number + 1` …, as many as there is room for. `places`: physical offsets (native 64-bit numbers), `sizes` (32-bit).

    Returns the number of the first one that has not been read, and the length of what has. Raises SourceError.
    """
    data = address_of(memory)
    room = len(memory)
    count = len(places)
    base = segment.base
    at = 0
    while number < count:
        place = places[number]
        length = sizes[number]
        if at + length > room:
            break
        number += 1
        while number < count and places[number] == place + length:
            size = sizes[number]
            if at + length + size > room:
                break
            length += size
            number += 1
        done = read_at(descriptor, data, at, length, place - base)
        if done < 0:
            raise SourceError(f"{segment.path}: {os.strerror(-done)}")
        if done < length:
            raise SourceError(f"{segment.path} was truncated while it was read")
        at += length
    return number, at
