"""The sources of messages for pulls, and the limit for counting as in memory. Shared by all getters."""

from typing import Protocol

from msgspec import Struct, field

from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from store.commit_log.reader import CommitLogReader, PublishedOffsets
from store.config import StoreConfig
from store.consume_queue.published_file import PublishedFile
from store.query.unreadable_records import UnreadableRecords


class QueueEntries(Protocol):
    """The ConsumeQueues; a ConsumeQueueReader."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Lowest queue offset and the one after the highest; (0, 0) for a queue that is missing."""

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:
        """The published entries from this offset to the end of their file."""

    def published(self, topic: str, queue_id: int, queue_offset: int) -> PublishedFile | None:
        """Where the entries are, with the bounds; None without entries."""


class TransferLimits(Protocol):
    """The limits of a pull; a StoreConfig has them."""

    @property
    def max_transfer_bytes_on_message_in_memory(self) -> int:
        """Bytes of recent messages."""

    @property
    def max_transfer_count_on_message_in_memory(self) -> int:
        """Recent messages."""

    @property
    def max_transfer_bytes_on_message_in_disk(self) -> int:
        """Bytes of messages far back."""

    @property
    def max_transfer_count_on_message_in_disk(self) -> int:
        """Messages far back."""


class PullSources(Struct, frozen=True):
    """The queues, the log, its progress, the options, the machine's memory, and the report of damage.

    Options may change while the broker runs: read `in_memory_bytes` and the fields of `config` each time.
    """

    queues: QueueEntries
    log: CommitLogReader
    control: PublishedOffsets
    config: StoreConfig
    memory_bytes: int
    unreadable: UnreadableRecords = field(default_factory=UnreadableRecords)

    @property
    def in_memory_bytes(self) -> int:
        """Records nearer to the end of the log count as being in memory, by RocketMQ's rule (store spec, 3.5)."""
        return self.memory_bytes * self.config.access_message_in_memory_max_ratio // 100

    @property
    def entries_per_file(self) -> int:
        """The number of entries in a ConsumeQueue file."""
        return self.config.consume_queue_file_size // ENTRY_SIZE
