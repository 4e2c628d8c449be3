"""Publishes the progress of ConsumeQueues and IndexFiles. For dispatch only.

Rows of the queue table are published before `reput`, so that readers of the offset find the entries.
"""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import (
    CLEAN_TOPICS_HANDLED,
    CLEANED_OFFSET,
    FLAG_INDEX_ERROR,
    FLAG_QUEUE_ERROR,
    INDEX_TIMESTAMP,
    REPUT_OFFSET,
    REPUT_TIMESTAMP,
)


class DispatchPublisher:
    """Stores `reput_offset`, its two timestamps, `flag_queue_error`, `flag_index_error`, `clean_topics_handled`,
    `cleaned_offset`.
    """

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def reput(self, physical_offset: int, reput_timestamp: int, index_timestamp: int) -> None:
        """Everything below `physical_offset` is in both indexes.

        `reput_timestamp` is that of the last record in the ConsumeQueues, `index_timestamp` the end of the last full IndexFile (ms).
        """
        store_cell(self._words, REPUT_OFFSET, physical_offset)
        # order: readers load the timestamps first (see publish.log)
        store_cell(self._words, REPUT_TIMESTAMP, reput_timestamp)
        store_cell(self._words, INDEX_TIMESTAMP, index_timestamp)

    def queue_error(self, raised: bool = True) -> None:
        """ConsumeQueues cannot be written, or the queue table is full."""
        store_cell(self._words, FLAG_QUEUE_ERROR, int(raised))

    def index_error(self, raised: bool = True) -> None:
        """IndexFiles cannot be created."""
        store_cell(self._words, FLAG_INDEX_ERROR, int(raised))

    def clean_topics_handled(self, count: int) -> None:
        """The first `count` requests to clean unused topics are done."""
        store_cell(self._words, CLEAN_TOPICS_HANDLED, count)

    def cleaned(self, physical_offset: int) -> None:
        """The files with entries only below `physical_offset` are deleted."""
        store_cell(self._words, CLEANED_OFFSET, physical_offset)
