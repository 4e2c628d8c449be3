# cython: boundscheck=True
"""Reads scattered records of a segment into consecutive memory.

A hot module, compiled if there is a compiler: ranges with a file per topic are read in this way, a record or several adjacent ones at a time.
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
    """Read records `number`, `number + 1` …, as many as fit. `places`: physical offsets (native 64-bit numbers), `sizes` (32-bit).

    Returns the number of the first record not read, and the length of those read. Raises SourceError.
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
            raise SourceError(
                f"{segment.path} was truncated while it was read; restore the file, then run the export again"
            )
        at += length
    return number, at
