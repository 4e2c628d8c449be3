"""The bounds of a recovered queue, with which dispatch continues: the rows of the queue table after a start.

| entry | entry | … | previous | last |  zeros
▲ min_offset                         ▲ next_offset
"""

from typing import NamedTuple

from headrace.protocol.consume_queue_layout import FILLER_SIZE

Entry = tuple[int, int]
"""(physical offset, size) of a record."""


class QueueBounds(NamedTuple):
    """A row of the queue table."""

    topic: bytes
    queue_id: int
    min_offset: int
    next_offset: int
    max_physical_offset: int


class KeptQueue(NamedTuple):
    """A queue with at least one entry. `previous` is None if it has only one."""

    topic: bytes
    queue_id: int
    min_offset: int
    next_offset: int
    last: Entry
    previous: Entry | None

    @property
    def last_end(self) -> int:
        """The end of the last entry's record."""
        return sum(self.last)

    def bounds(self, reput_offset: int) -> QueueBounds | None:
        """Where dispatch continues if it continues with the log at `reput_offset`; None if it must look at the files itself.

        The last entry of a killed dispatch may lack its tags code, and is written again if its record is dispatched again.
        A queue that has only fillers besides is emptied by dispatch.
        """
        last: Entry | None = self.last
        next_offset = self.next_offset
        if self.last_end > reput_offset:
            last = self.previous
            next_offset -= 1
        if last is None or last == (0, FILLER_SIZE) or self.min_offset >= next_offset:
            return None
        return QueueBounds(self.topic, self.queue_id, self.min_offset, next_offset, sum(last))
