"""Works out bitmaps ahead, while dispatching: which groups' filters are true of a message.

The filters come from `config/consumerFilter.json`. The file's one writer is the broker; it counts on a group's bits only in
messages stored after the group's `bornTime`, and sees to it that the file has the filter by then. So the file must be looked at
after a message has been read, not before: here it is looked at for every message, which costs a microsecond.
"""

import logging
import os
from pathlib import Path

from headrace.errors import RemoteProtocolError
from store.filter.bloom import BloomFilter, BloomFilterData
from store.filter.consumer_filter import FilterTable, decode_filters
from store.filter.program import TRUE, Program

logger = logging.getLogger(__name__)

_Seen = tuple[int, int, int]


class BitMapCalculator:
    """For dispatch: call it with each message. `path`: consumerFilter.json; `bloom`: the shape of the bitmaps."""

    def __init__(self, path: Path, bloom: BloomFilter) -> None:
        self._path = path
        self._bloom = bloom
        self._seen: _Seen | None = None
        self._filters: dict[bytes, list[tuple[Program, BloomFilterData]]] = {}

    def __call__(self, topic: bytes, _physical_offset: int, properties: bytes) -> bytes:
        """The bitmap of a message with these properties, as they are stored; empty if no group filters the topic, or the filters cannot be read."""
        self._follow_file()
        filters = self._filters.get(topic)
        if filters is None:
            return b""
        return self._bloom.map_of(bits for program, bits in filters if program.outcome_of_stored(properties) == TRUE)

    def _follow_file(self) -> None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._filters = None, {}
            return
        if (found.st_ino, found.st_mtime_ns, found.st_size) == self._seen:
            return
        with open(self._path, "rb") as file:
            # What is open is checked again: the file may have been replaced meanwhile.
            found = os.fstat(file.fileno())
            data = file.read()
        self._seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        try:
            self._filters = self._compile(decode_filters(data) if data.strip() else {})
        except RemoteProtocolError as error:
            # Without bitmaps each consumer's expression is evaluated when it pulls.
            logger.error("consumer filters unreadable, bitmaps disabled path=%s error=%r", self._path, str(error))
            self._filters = {}

    def _compile(self, table: FilterTable) -> dict[bytes, list[tuple[Program, BloomFilterData]]]:
        """# compat: dead filters count, and a file with bits of another shape is not used at all."""
        everyone = [data for groups in table.values() for data in groups.values()]
        if not all(self._bloom.is_valid(data.bloom_filter_data) for data in everyone):
            logger.warning(
                "bitmaps disabled, consumer filters were saved with different Bloom filter parameters path=%s",
                self._path,
            )
            return {}
        filters: dict[bytes, list[tuple[Program, BloomFilterData]]] = {}
        for topic, groups in table.items():
            listed = filters.setdefault(topic.encode(), []) if groups else []
            for data in groups.values():
                program = data.program()
                if program is None or data.bloom_filter_data is None:
                    logger.error("consumer filter does not compile group=%s topic=%s", data.consumer_group, topic)
                    continue
                listed.append((program, data.bloom_filter_data))
        return filters
