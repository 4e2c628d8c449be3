"""UnreadableRecords: counts records that an index points to but that cannot be read, and logs each once.

Such a record is in a file that is there, within the published log, and fails the record check: the disk has damaged it. Whoever
reads by an index skips that one record and reports it here.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

NO_QUEUE: Final = -1
"""Stands for queue and queue offset where a record was not read by its queue."""

_REMEMBERED_MAX = 65_536  # limit: some MB; what is met beyond may be counted again
_LOGGED_MAX = 1000  # limit: lines for one process; a lost gigabyte would have a million


class UnreadableRecords:
    """One for each process. `count`: different records so far."""

    def __init__(self) -> None:
        self.count = 0
        self._known: set[int] = set()

    def met(
        self, topic: str, queue_id: int, queue_offset: int, physical_offset: int, reason: str = "no valid record"
    ) -> None:
        """A record was skipped because it cannot be read."""
        if physical_offset in self._known:
            return
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known.add(physical_offset)
        self.count += 1
        if self.count <= _LOGGED_MAX:
            logger.error(
                "unreadable record skipped topic=%s queue=%d queue_offset=%d physical_offset=%d reason=%s",
                topic, queue_id, queue_offset, physical_offset, reason,
            )  # fmt: skip
        if self.count == _LOGGED_MAX:
            logger.error("further unreadable records are only counted logged=%d", _LOGGED_MAX)
