"""Reads the units of extended ConsumeQueues by their addresses."""

from pathlib import Path
from typing import NamedTuple

from headrace.protocol.consume_queue_layout import EXT_ADDRESS_BASE, EXT_UNIT_HEAD, EXT_UNIT_HEAD_SIZE
from store.paths import file_name


class ExtUnit(NamedTuple):
    """An extended entry: the actual tags code, the message's store timestamp (ms), and the filter bitmap."""

    size: int
    tags_code: int
    store_timestamp: int
    bit_map: bytes


class ConsumeQueueExtReader:
    """The units of one queue: `directory` is `consumequeue_ext/<topic>/<queue id>`."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self._directory = directory
        self._file_size = file_size

    def read(self, address: int) -> ExtUnit | None:
        """The unit at an address; None if there is none."""
        position = address - EXT_ADDRESS_BASE
        start = position - position % self._file_size
        try:
            with open(self._directory / file_name(start), "rb") as file:
                file.seek(position - start)
                head = file.read(EXT_UNIT_HEAD_SIZE)
                if len(head) < EXT_UNIT_HEAD_SIZE:
                    return None
                size, tags_code, store_timestamp, bit_map_size = EXT_UNIT_HEAD.unpack(head)
                if size < EXT_UNIT_HEAD_SIZE or not 0 <= bit_map_size <= size - EXT_UNIT_HEAD_SIZE:
                    return None
                return ExtUnit(size, tags_code, store_timestamp, file.read(bit_map_size))
        except FileNotFoundError:
            return None
