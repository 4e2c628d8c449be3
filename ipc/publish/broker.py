"""Publishes operators' requests. For the broker only. (The log's offsets are in `publish.log`.)"""

from ipc.cells import store_cell
from ipc.control_block import ControlBlock
from ipc.control_layout import (
    CLEAN_TOPICS_REQUESTS,
    CONFIG_VERSION,
    DELETE_EXPIRED_REQUESTS,
    LOSSES_COUNTED_OFFSET,
)


class BrokerPublisher:
    """Stores the counts of requests, `config_version` and `losses_counted_offset`."""

    __slots__ = ("_words",)

    def __init__(self, block: ControlBlock) -> None:
        self._words = block.words

    def delete_expired_requests(self) -> int:
        """Ask the housekeeper once more to delete expired files; ring it. Returns the number of this request."""
        return self._raise(DELETE_EXPIRED_REQUESTS)

    def clean_topics_requests(self) -> int:
        """Ask dispatch once more to clean unused topics; ring it. Returns the number of this request."""
        return self._raise(CLEAN_TOPICS_REQUESTS)

    def config_version(self) -> int:
        """Options have changed; the page of changed options already contains them. Returns the new version."""
        return self._raise(CONFIG_VERSION)

    def losses_counted(self, physical_offset: int) -> None:
        """Lost messages by forced deletions below `physical_offset` have been counted; ring the housekeeper."""
        store_cell(self._words, LOSSES_COUNTED_OFFSET, physical_offset)

    def _raise(self, word: int) -> int:
        count: int = self._words[word] + 1
        store_cell(self._words, word, count)
        return count
