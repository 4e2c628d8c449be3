"""Decides what the flush role syncs, and when. Pure functions of offsets and times.

    flushed_offset          wrote_offset
         v                       v
    -----|=======================|--------     sync the files of this range

RocketMQ's rules (store spec, 6.1 and 6.2): with SYNC_FLUSH whatever is written is synced at once, so that one sync serves all
who wait. With ASYNC_FLUSH enough whole pages must have gathered, or a file must have been filled, or a thorough round be due.
"""

PAGE_SIZE = 4096  # compat: RocketMQ's OS_PAGE_SIZE, whatever the machine says


def has_gathered(flushed_offset: int, wrote_offset: int, least_pages: int, file_size: int) -> bool:
    """ASYNC_FLUSH between thorough rounds: whether enough has been written to be worth a sync.

    `least_pages` 0: anything is. A full file always is.
    """
    if wrote_offset <= flushed_offset:
        return False
    if least_pages <= 0 or wrote_offset // file_size > flushed_offset // file_size:
        return True
    return wrote_offset // PAGE_SIZE - flushed_offset // PAGE_SIZE >= least_pages


def is_due(now_ms: int, last_ms: int, interval_ms: int) -> bool:
    """Whether an interval has passed; a clock that went back counts as passed."""
    return not last_ms <= now_ms < last_ms + interval_ms
