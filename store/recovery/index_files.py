"""Decides which IndexFiles to delete at the start, and from where the log must be indexed again.

    file n-1                    file n                         the log
    begin … end physical offset | begin … end physical offset |  … wrote_offset

Keys are put in the order of the log, so all that is indexed up to the end of the last kept file is in the kept files. After a crash
of the machine a file is kept only if the checkpoint says that it was synced when it was full (store spec, 4.4). If only processes were
killed, what they wrote is there, and the last file is repaired when it is opened (`store.index.cursor`). Beyond RocketMQ's
rule, whose index of a lost file is lost for good, dispatch is sent back to where the kept ones end.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from store.index.layout import HEADER, HEADER_SIZE, NAME_DIGITS


class IndexHead(Struct, frozen=True):
    """What recovery needs to know of an IndexFile."""

    path: Path
    end_timestamp: int
    end_physical_offset: int
    is_full: bool
    has_right_length: bool


class IndexDecision(Struct, frozen=True):
    """Files to drop; full files to sync; the offset from which to index again (None: nothing to do); end timestamp of the last kept full file."""

    dropped: tuple[IndexHead, ...]
    unsynced: tuple[IndexHead, ...]
    rebuild_from: int | None
    end_timestamp: int


def read_heads(directory: Path, file_size: int, max_index_num: int) -> list[IndexHead]:
    """The IndexFiles in the order of their names; other names are skipped, a file too short for a header counts as empty."""
    heads = []
    try:
        paths = sorted(path for path in directory.iterdir() if len(path.name) == NAME_DIGITS and path.name.isdecimal())
    except FileNotFoundError:
        return []
    for path in paths:
        with path.open("rb") as file:
            header = file.read(HEADER_SIZE).ljust(HEADER_SIZE, b"\0")
        begin_timestamp, end_timestamp, begin_offset, end_offset, _, count = HEADER.unpack(header)
        right = path.stat().st_size == file_size
        # A header that never reached the disk, or garbled, may say anything; a full file says exactly this.
        full = count == max_index_num and 0 < begin_timestamp <= end_timestamp and 0 <= begin_offset <= end_offset
        heads.append(IndexHead(path, end_timestamp, end_offset, full, right))
    return heads


def decide_index(
    heads: Sequence[IndexHead],
    *,
    is_clean: bool,
    is_same_boot: bool,
    is_dispatched: bool,
    checkpoint_timestamp: int,
    log_min_offset: int,
    log_end_offset: int,
) -> IndexDecision:
    """What to keep.

    After a clean stop, or a kill under the running kernel, everything that speaks of no record beyond the end of the log. After a crash of the
    machine, of those, only what was full and synced. The files after a dropped one are dropped too: their keys come later. `is_dispatched`: the kept ones
    have all keys of what recovery will not dispatch again (store.abort_file).
    """
    is_whole = is_clean or is_same_boot
    kept: list[IndexHead] = []
    for head in heads:
        if head.end_physical_offset >= max(log_end_offset, 1) or not head.has_right_length:
            break
        if not is_whole and (head.end_timestamp > checkpoint_timestamp or not head.is_full):
            break
        kept.append(head)
    dropped = tuple(heads[len(kept) :])
    full = [head for head in kept if head.is_full]
    rebuild_from: int | None = None
    if dropped or (
        not is_clean and not (is_dispatched and kept) and (checkpoint_timestamp > 0 or (is_same_boot and kept))
    ):
        rebuild_from = max(kept[-1].end_physical_offset, log_min_offset) if kept else log_min_offset
    unsynced = tuple(head for head in full if not is_clean and head.end_timestamp > checkpoint_timestamp)
    return IndexDecision(dropped, unsynced, rebuild_from, full[-1].end_timestamp if full else 0)
