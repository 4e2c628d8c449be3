"""Decides where recovery starts to read the log, and where dispatch continues. Pure functions.

clean stop      the last three files are read
unclean stop    from the newest file whose first record is older than the checkpoint: all before it was synced, log and queues
"""

from collections.abc import Sequence

_FILES_AFTER_CLEAN_STOP = 3  # compat: RocketMQ's choice (store spec, 7.3)


def first_file_after_clean_stop(starts: Sequence[int]) -> int:
    """Start of the file at which reading begins; 0 without files."""
    return starts[max(0, len(starts) - _FILES_AFTER_CLEAN_STOP)] if starts else 0


def first_file_after_crash(first_timestamps: Sequence[tuple[int, int | None]], min_timestamp: int) -> int:
    """Start of the file at which reading begins (store spec, 7.6); 0 without files.

    `first_timestamps` has each file's start, in order, with the store timestamp of its first record, None if it begins with none.
    """
    for start, timestamp in reversed(first_timestamps):
        if timestamp is not None and 0 < timestamp <= min_timestamp:
            return start
    return first_timestamps[0][0] if first_timestamps else 0


def reput_offset(
    *,
    is_clean: bool,
    log_min_offset: int,
    survey_start: int,
    end_offset: int,
    first_missing: int,
    older_missing: int,
    index_rebuild_from: int | None,
    has_queue_entries: bool,
) -> int:
    """The offset from which dispatch must build the indexes. Building a range twice is harmless; omitting one is not.

    `first_missing` and `older_missing` are -1 where nothing is missing. Without any entry in any queue all of the log is
    dispatched: that is how an operator has the queues rebuilt.
    """
    if not has_queue_entries:
        return log_min_offset
    candidates = [end_offset if is_clean else min(survey_start, end_offset)]
    candidates += [offset for offset in (first_missing, older_missing) if offset >= 0]
    if index_rebuild_from is not None:
        candidates.append(index_rebuild_from)
    return max(log_min_offset, min(candidates))
