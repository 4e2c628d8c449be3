"""Decides what the housekeeper reserves, deletes and syncs. Pure functions of offsets, times and ratios.

Deletion and disk levels follow RocketMQ (store spec, section 8). Two deviations, both for safety: a file that is not
dispatched and durable is never deleted, and the disk-full flag looks at both paths at once, so that it cannot flap.
"""

from collections.abc import Iterable

from msgspec import Struct

PAGE_SIZE = 4096
DELETED_A_RUN = 10  # compat: RocketMQ deletes this many files in one run
DISK_WARNING_RATIO = 0.90  # compat: writes stop above it
DISK_CLEAN_FORCIBLY_RATIO = 0.85  # compat: files are deleted above it, whatever their age

_FILES_AHEAD_MIN = 2  # limit: one being rolled into, one in hand should the housekeeper be restarted just then
_FILES_AHEAD_MAX = 16  # limit: small files, as in tests, are used up quickly; that many are 64 MiB or less
_BYTES_AHEAD = 64 << 20


class LogFile(Struct, frozen=True):
    """A CommitLog file on disk: where it begins, and when it was last changed (ms)."""

    start_offset: int
    changed_ms: int


class DiskState(Struct, frozen=True):
    """Actions required by the used ratios: stop writes, delete expired files now, delete the oldest even if not expired."""

    is_full: bool
    delete_expired: bool
    delete_oldest: bool


def files_ahead(file_size: int) -> int:
    """How many whole files to keep reserved after the current one."""
    return max(_FILES_AHEAD_MIN, min(_FILES_AHEAD_MAX, _BYTES_AHEAD // file_size))


def files_to_reserve(wrote_offset: int, allocated_offset: int, file_size: int) -> range:
    """Start offsets of the CommitLog files to reserve now, in order."""
    written = wrote_offset - wrote_offset % file_size
    return range(max(allocated_offset, written), written + (1 + files_ahead(file_size)) * file_size, file_size)


def unused_files(starts: Iterable[int], wrote_offset: int) -> list[int]:
    """Reserved files that were never written, last first: RocketMQ leaves none when it stops."""
    return sorted((start for start in starts if start >= wrote_offset), reverse=True)


def disk_state(log_ratio: float, queue_ratio: float, max_used_ratio: float) -> DiskState:
    """The actions for the used ratios of the disks of CommitLog and ConsumeQueues; -1 is an unknown ratio."""
    ratios = (log_ratio, queue_ratio)
    return DiskState(
        is_full=max(ratios) > DISK_WARNING_RATIO,
        delete_expired=any(ratio < 0 or ratio > max_used_ratio for ratio in ratios),
        delete_oldest=max(ratios) > DISK_CLEAN_FORCIBLY_RATIO,
    )


def files_to_delete(
    files: Iterable[LogFile],
    now_ms: int,
    reserved_ms: int,
    safe_offset: int,
    file_size: int,
    delete_oldest: bool,
) -> list[int]:
    """Start offsets of the CommitLog files to delete in this run, the oldest first, without a gap.

    No file that ends beyond `safe_offset` is deleted. Without `delete_oldest`, only files that have not changed for `reserved_ms`.
    """
    doomed: list[int] = []
    for file in sorted(files, key=lambda file: file.start_offset):
        expired = now_ms >= file.changed_ms + reserved_ms
        if (
            file.start_offset + file_size > safe_offset
            or not (expired or delete_oldest)
            or len(doomed) == DELETED_A_RUN
        ):
            break
        doomed.append(file.start_offset)
    return doomed


def safe_to_delete_offset(wrote_offset: int, flushed_offset: int, reput_offset: int, file_size: int) -> int:
    """Below it files may be deleted: they are dispatched, durable, and not the last one."""
    last_file = max(0, wrote_offset - 1) // file_size * file_size
    return min(last_file, flushed_offset, reput_offset)


def worth_syncing_from(synced_bytes: int, least_pages: int) -> int:
    """How many bytes a ConsumeQueue must have for a sync between thorough rounds: enough unsynced pages."""
    return (synced_bytes // PAGE_SIZE + max(1, least_pages)) * PAGE_SIZE


def files_between(synced_bytes: int, written_bytes: int, file_size: int) -> range:
    """Start offsets of the ConsumeQueue files with the bytes written since."""
    return range(synced_bytes - synced_bytes % file_size, written_bytes, file_size)
