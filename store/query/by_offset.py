"""The record at a physical offset, for VIEW_MESSAGE_BY_ID: only if a record really begins there."""

from store.commit_log.reader import CommitLogReader
from store.errors import CorruptRecord


def view_by_offset(log: CommitLogReader, physical_offset: int) -> bytes | None:
    """The whole record, copied; None where none is published or kept, or none begins at this offset.

    Stricter than RocketMQ, which takes the four bytes at any offset for a size and sends what follows.
    """
    try:
        record = log.record_at(physical_offset)
    except CorruptRecord:
        return None
    return None if record is None else bytes(record)
