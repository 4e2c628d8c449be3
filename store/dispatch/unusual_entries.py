"""The plain path of ConsumeQueue entries: everything unusual that the compiled walk does not handle. Layout: `headrace/protocol/consume_queue_layout`.

These are the first record of a queue, the end of a file, delayed messages (their tags code is the delivery time),
messages that name further queues (multi-dispatch, light queues), and all messages if queues are extended.
"""

import logging
import os
import struct
from collections.abc import Callable

from headrace.model import properties as names
from headrace.model.delay_level import parse_delay_levels
from headrace.model.java_hash import tags_code
from headrace.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from headrace.model.properties import decode_properties
from headrace.protocol.consume_queue_layout import ENTRY_SIZE, ENTRY_TAGS_CODE_AT, is_ext_address
from store.config import StoreConfig
from store.consume_queue.cursor import QueueCursor
from store.consume_queue.ext_writer import ConsumeQueueExtWriter
from store.consume_queue.writer import ConsumeQueueWriter, QueueNameRefused
from store.paths import StorePaths, file_name

logger = logging.getLogger(__name__)

_SCHEDULE_TOPIC = SCHEDULE_TOPIC.encode()
_UNKNOWN_LEVEL_MS = 1000
_UNITS_OPEN_MAX = 1024  # limit: mappings of extended queues kept

BitMap = Callable[[bytes, int, bytes], bytes]
"""(topic, physical offset, properties as stored): the filter bitmap of a message, empty without one."""


def no_bit_map(_topic: bytes, _physical_offset: int, _properties: bytes) -> bytes:
    """Used if no filters are evaluated by dispatch."""
    return b""


class QueueEntries:
    """Puts the entries of one record in the queues that it belongs to."""

    def __init__(
        self, paths: StorePaths, config: StoreConfig, writer: ConsumeQueueWriter, bit_map: BitMap = no_bit_map
    ) -> None:
        self._writer = writer
        self._delays_ms = parse_delay_levels(config.message_delay_level)
        self._multi_dispatch = config.enable_multi_dispatch
        self._lmq = config.enable_lmq
        self._bit_map = bit_map
        self._ext_directory = paths.root / "consumequeue_ext" if config.enable_consume_queue_ext else None
        self._ext_file_size = config.mapped_file_size_consume_queue_ext
        self._queue_directory = paths.consume_queue
        self._queue_file_size = config.consume_queue_file_size
        self._units: dict[tuple[bytes, int], ConsumeQueueExtWriter] = {}
        self.deleted: dict[bytes, int] = {}
        """Topics with the physical offset below which their records belong to no queue."""
        self.refused = 0
        """Records whose topic or queue id cannot name a directory."""

    def put(
        self,
        topic: bytes,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        size: int,
        store_timestamp: int,
        sys_flag: int,  # noqa: ARG002  (one signature for all that may be behind the walk)
        properties: bytes,
    ) -> None:
        """Writes the entries of a record, the main queue's first. Raises StoreFull, OSError; it may then be called again."""
        decoded = decode_properties(properties.decode(errors="replace"))
        code = self._tags_code(topic, decoded, store_timestamp)
        cursor = self._open(topic, queue_id, physical_offset) if physical_offset >= self.deleted.get(topic, 0) else None
        if cursor is not None:
            main_code = code
            if self._ext_directory is not None and physical_offset + size > cursor.max_physical_offset:
                bit_map = self._bit_map(topic, physical_offset, properties)
                address = self._units_of(cursor).put(code, store_timestamp, bit_map)
                main_code = code if address is None else address
            self._writer.put(cursor, physical_offset, size, main_code, queue_offset)
        if self._multi_dispatch:
            for further_topic, further_id, offset in self._further_queues(queue_id, decoded):
                if physical_offset >= self.deleted.get(further_topic, 0):
                    further = self._open(further_topic, further_id, physical_offset)
                    if further is not None:
                        self._writer.put(further, physical_offset, size, code, offset)

    def _open(self, topic: bytes, queue_id: int, physical_offset: int) -> QueueCursor | None:
        try:
            return self._writer.open(topic, queue_id)
        except QueueNameRefused as error:
            self.refused += 1
            logger.error("queue entry skipped physical_offset=%d error=%r", physical_offset, str(error))
            return None

    def clean_expired(self) -> None:
        """Deletes the files of units without entries."""
        for (topic, queue_id), units in list(self._units.items()):
            cursor = self._writer.find(topic, queue_id)
            address = self._address_at(cursor, cursor.min_position) if cursor is not None else None
            if address is not None:
                units.clean_expired(address)

    def forget(self, topic: bytes, queue_id: int) -> None:
        """Removes the units of a deleted queue."""
        units = self._units.pop((topic, queue_id), None)
        if units is not None:
            units.close()
        if self._ext_directory is not None:
            directory = self._ext_directory / os.fsdecode(topic) / str(queue_id)
            if directory.is_dir():
                for name in os.listdir(directory):
                    os.unlink(directory / name)
                directory.rmdir()

    def close(self) -> None:
        """Releases all mappings."""
        for units in self._units.values():
            units.close()
        self._units.clear()

    def _tags_code(self, topic: bytes, properties: dict[str, str], store_timestamp: int) -> int:
        if topic == _SCHEDULE_TOPIC:
            level = _read_int(properties.get(names.DELAY, ""))
            if level is not None and level > 0 and self._delays_ms:
                return store_timestamp + self._delays_ms[min(level, len(self._delays_ms)) - 1]
            if level is not None and level > 0:
                return store_timestamp + _UNKNOWN_LEVEL_MS
        return tags_code(properties.get(names.TAGS))

    def _further_queues(self, queue_id: int, properties: dict[str, str]) -> list[tuple[bytes, int, int]]:
        queues = properties.get(names.INNER_MULTI_DISPATCH, "").split(",")
        offsets = [_read_int(text) for text in properties.get(names.INNER_MULTI_QUEUE_OFFSET, "").split(",")]
        if queues == [""] or None in offsets or len(queues) != len(offsets):
            return []
        return [
            (name.encode(), 0 if self._lmq and name.startswith(LMQ_PREFIX) else queue_id, offset)
            for name, offset in zip(queues, offsets, strict=True)
            if offset is not None
        ]

    def _units_of(self, cursor: QueueCursor) -> ConsumeQueueExtWriter:
        assert self._ext_directory is not None
        key = cursor.topic, cursor.queue_id
        units = self._units.pop(key, None)
        if units is None:
            directory = self._ext_directory / os.fsdecode(cursor.topic) / str(cursor.queue_id)
            last = self._address_at(cursor, cursor.position - ENTRY_SIZE) if cursor.first_start >= 0 else None
            units = ConsumeQueueExtWriter(directory, self._ext_file_size, last)
            if len(self._units) >= _UNITS_OPEN_MAX:
                self._units.pop(next(iter(self._units))).close()
        self._units[key] = units  # the dictionary's order is that of use
        return units

    def _address_at(self, cursor: QueueCursor, position: int) -> int | None:
        """The address in the entry at a position of a queue; None if there is none."""
        start = position - position % self._queue_file_size
        path = self._queue_directory / os.fsdecode(cursor.topic) / str(cursor.queue_id) / file_name(start)
        try:
            with open(path, "rb") as file:
                file.seek(position - start + ENTRY_TAGS_CODE_AT)
                (code,) = struct.unpack(">q", file.read(8))
        except FileNotFoundError:
            return None
        return code if is_ext_address(code) else None


def _read_int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
