"""RocketMQ's running flags: the bits, and what each combination still permits.

Each bit is a cell of its own in shared memory with a single writer; `ControlBlock.running_flags()` is their union. The
numbers are visible to administrators (runtime info), so they are RocketMQ's.
"""

from enum import IntFlag


class RunningFlag(IntFlag):
    """One reason not to read or write each."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    LOGICS_QUEUE_ERROR = 4
    INDEX_FILE_ERROR = 8
    DISK_FULL = 16


_STOPS_QUEUES = RunningFlag.NOT_WRITEABLE | RunningFlag.LOGICS_QUEUE_ERROR | RunningFlag.INDEX_FILE_ERROR
_STOPS_LOG = _STOPS_QUEUES | RunningFlag.DISK_FULL


def is_readable(flags: int) -> bool:
    """Whether messages may be pulled."""
    return not flags & RunningFlag.NOT_READABLE


def is_writeable(flags: int) -> bool:
    """Whether messages may be appended."""
    return not flags & _STOPS_LOG


def is_queue_writeable(flags: int) -> bool:
    """Whether dispatch may go on: a full disk does not stop it (store spec, 8.4)."""
    return not flags & _STOPS_QUEUES
