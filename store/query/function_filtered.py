"""Reads candidate messages of a queue for a filter function, and builds the response from the selected ones.

For filters in another process, which evaluates all candidates of a pull at once. So there are two steps with a wait
between them, `candidates` and `choose`, which share nothing but bytes. The limits of a pull (store spec, 3.5) apply to
selected messages; candidates have their own limits.
"""

from msgspec import Struct
from msgspec.structs import replace

from headrace.protocol.record_layout import OFFSETS, PREFIX, QUEUE_OFFSET_AT
from store.query.get import GetResult, MessageGetter
from store.query.sources import PullSources
from store.status import GetMessageStatus

# limit: copying more would block the event loop for milliseconds; 800 messages of 1.3 KiB
_SHOWN_BYTES = 1 << 20
_SHOWN_COUNT = 800


class _ShownLimits(Struct, frozen=True):
    """Maximum bytes for one evaluation."""

    max_transfer_bytes_on_message_in_memory: int = _SHOWN_BYTES
    max_transfer_count_on_message_in_memory: int = _SHOWN_COUNT
    max_transfer_bytes_on_message_in_disk: int = _SHOWN_BYTES
    max_transfer_count_on_message_in_disk: int = _SHOWN_COUNT


class FunctionFilteredGetter:
    """Reads candidate messages. Not thread-safe."""

    def __init__(self, sources: PullSources) -> None:
        self._sources = sources
        self._config = sources.config
        self._control = sources.control
        self._getter = MessageGetter(sources, _ShownLimits())

    def candidates(self, topic: str, queue_id: int, offset: int, most: int) -> GetResult:
        """Up to `most` messages from a queue offset on; if there are none, the result of the pull."""
        return self._getter.get(topic, queue_id, offset, most, None)

    def is_cold(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether they may have to be read from disk: `warm` them first."""
        return self._getter.is_cold(topic, queue_id, offset)

    def plan_warming(self, topic: str, queue_id: int, offset: int, most: int) -> list[tuple[int, int, int]]:
        """What `warm` is to read."""
        return self._getter.plan_warming(topic, queue_id, offset, most)

    def release_deleted(self) -> None:
        """Releases the file that was read last."""
        self._getter.release_deleted()

    def choose(self, shown: GetResult, verdicts: list[bool], max_count: int) -> GetResult:
        """The result of a pull: the selected candidates, up to `max_count`. The next pull begins after the last examined one."""
        config = self._config
        in_memory_from = self._control.wrote_offset - self._sources.in_memory_bytes
        taken: list[bytes] = []
        taken_bytes = 0
        next_begin = shown.next_begin_offset
        for record, is_wanted in zip(split_records(shown.body), verdicts, strict=True):
            if not is_wanted:
                continue
            queue_offset, physical_offset = OFFSETS.unpack_from(record, QUEUE_OFFSET_AT)
            if physical_offset >= in_memory_from:
                most_bytes, most_count = (
                    config.max_transfer_bytes_on_message_in_memory,
                    config.max_transfer_count_on_message_in_memory,
                )
            else:
                most_bytes, most_count = (
                    config.max_transfer_bytes_on_message_in_disk,
                    config.max_transfer_count_on_message_in_disk,
                )
            if taken and (len(taken) >= min(max_count, most_count) or taken_bytes + len(record) > most_bytes):
                next_begin = queue_offset
                break
            taken.append(record)
            taken_bytes += len(record)
        status = GetMessageStatus.FOUND if taken else GetMessageStatus.NO_MATCHED_MESSAGE
        return replace(shown, status=status, next_begin_offset=next_begin, body=b"".join(taken), count=len(taken))


def split_records(body: bytes) -> list[bytes]:
    """Iterates over consecutive complete records."""
    records: list[bytes] = []
    at = 0
    while at < len(body):
        size, _ = PREFIX.unpack_from(body, at)
        records.append(body[at : at + size])
        at += size
    return records
