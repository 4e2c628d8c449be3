"""UnreadableRecords: counts records that an index points to but that cannot be read, and logs each once.

Such a record is in an existing file, within the published log, and fails the record check, so it is damaged. Readers that use
an index skip only that record and report it here.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

NO_QUEUE: Final = -1
"""Used as queue and queue offset of a record that was not read by its queue."""

_REMEMBERED_MAX = 65_536  # limit: a few MB; further records may be counted more than once
_LOGGED_MAX = 1000  # limit: lines of one process; a lost gigabyte would cause a million


class UnreadableRecords:
    """One for each process. `count`: distinct records so far."""

    def __init__(self) -> None:
        self.count = 0
        self._known: set[int] = set()

    def met(
        self, topic: str, queue_id: int, queue_offset: int, physical_offset: int, reason: str = "no valid record"
    ) -> None:
        """Reports a record that was skipped because it is unreadable."""
        if physical_offset in self._known:
            return
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
        self._known.add(physical_offset)
        self.count += 1
        if self.count <= _LOGGED_MAX:
            logger.error(
                "unreadable record skipped topic=%s queue_id=%d queue_offset=%d physical_offset=%d error=%r",
                topic, queue_id, queue_offset, physical_offset, reason,
            )  # fmt: skip
        if self.count == _LOGGED_MAX:
            logger.error("unreadable record logging suppressed logged=%d", _LOGGED_MAX)
