"""How far dispatch had come, where recovery may start to read after a clean stop, or after a kill of processes only.

    log            … | record | record | record |  a few more, perhaps  | zeros
    ConsumeQueues         ▲        ▲        ▲ highest last entry: reading begins at the end of this record

**A kill.** What dispatch had written is there, except that of its last batch some entries may be missing and one in each queue may be torn
(store.abort_file). So all that lies before the batch of the highest last entry is in the indexes, and reading begins at a record before it.

**A clean stop.** The store had been dispatched to its end, so the end is at, or shortly after, the last record with a
ConsumeQueue entry. Bytes there may be misleading (RocketMQ leaves truncated entries and old records in its files), and files may have
been changed meanwhile; if anything is not as after a clean stop, recovery reads the last files completely.
"""

import logging
import os
from collections.abc import Mapping, Sequence

from store.abort_file import DISPATCH_BATCH_BYTES
from store.commit_log.record_check import check_record, store_timestamp_of
from store.commit_log.scanner import LogSource
from store.paths import StorePaths
from store.recovery.log_survey import NO_TAIL, QueueTail
from store.recovery.queue_files import QueueFiles
from store.recovery.shared_work import shared_work

logger = logging.getLogger(__name__)


def find_dispatched_end(
    paths: StorePaths,
    log: LogSource,
    queues: Sequence[QueueFiles],
    tails: Mapping[bytes, QueueTail],
    disagreeing: Sequence[QueueFiles],
    first_read: int,
    logics_timestamp: int,
) -> int | None:
    """The end of the last dispatched record, or None if the log must be read from `first_read` on.

    `disagreeing`: queues whose last entry points into the files from `first_read` on, and disagrees with its record.
    `logics_timestamp` is the checkpoint's: at a clean stop the store timestamp of exactly that record, in ms.
    """
    known = [queue for queue in queues if tails[queue.key] != NO_TAIL]
    if not known:
        return None
    last = max(known, key=lambda queue: tails[queue.key].max_physical_offset)
    physical_offset, size = last.record_of(tails[last.key].next_offset - 1)
    end = physical_offset + size
    last.close()
    flaw = ""
    if _are_changed_since_checkpoint(paths, queues):
        flaw = "ConsumeQueues were changed after the checkpoint was written"
    elif physical_offset < first_read:
        flaw = "no ConsumeQueue points into the last files"
    elif _timestamp_of(log, physical_offset, size) != logics_timestamp:
        flaw = "the last queue entry does not match the checkpoint"
    elif disagreeing:
        flaw = f"the last entry of {disagreeing[-1].directory} disagrees with the log"
    if flaw:
        logger.info("fast recovery not possible, scanning last files reason=%r", flaw)
        return None
    return end


def find_dispatched_before_kill(
    log: LogSource, queues: Sequence[QueueFiles], tails: Mapping[bytes, QueueTail], first_read: int
) -> int:
    """The end of a record before which everything was dispatched when processes were killed; `first_read` if no later one is found."""
    known = [queue for queue in queues if tails[queue.key] != NO_TAIL]
    if not known:
        return first_read
    last = max(known, key=lambda queue: tails[queue.key].max_physical_offset)
    limit = last.record_of(tails[last.key].next_offset - 1)[0] - DISPATCH_BATCH_BYTES
    earlier = [(tail, queue) for queue in known if (tail := tails[queue.key]).max_physical_offset <= limit]
    earlier.append((last.find_tail(limit), last))
    tail, queue = max(earlier, key=lambda one: one[0].max_physical_offset)
    is_true = tail.max_physical_offset > first_read and queue.is_bearing_out(tail.next_offset - 1, log, 0, limit)
    if is_true:
        physical_offset, size = queue.record_of(tail.next_offset - 1)
        is_true = _timestamp_of(log, physical_offset, size) >= 0
    last.close()
    queue.close()
    return tail.max_physical_offset if is_true else first_read


def _are_changed_since_checkpoint(paths: StorePaths, queues: Sequence[QueueFiles]) -> bool:
    """Whether a file of a queue, or a queue, was added or removed: the checkpoint is the last that a stop writes."""
    directories = {os.fspath(paths.consume_queue)}
    directories.update(os.path.dirname(queue.directory) for queue in queues)
    directories.update(queue.directory for queue in queues)
    try:
        written_ns = os.stat(paths.checkpoint).st_mtime_ns
        changed = shared_work(lambda part: [os.stat(one).st_mtime_ns > written_ns for one in part], list(directories))
    except FileNotFoundError:
        return True
    return any(changed)


def _timestamp_of(log: LogSource, physical_offset: int, size: int) -> int:
    """The store timestamp of the record at that place, in ms; -1 if there is no valid one of that size."""
    file = log.file_for(physical_offset) if size > 0 else None
    if file is None:
        return -1
    position = physical_offset - file.start_offset
    if check_record(file.view, position, file.size_bytes, physical_offset, check_crc=True) != size:
        return -1
    return store_timestamp_of(file.view, position)
