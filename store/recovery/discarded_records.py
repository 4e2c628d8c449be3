"""Complete records that recovery discards because they are beyond the first invalid bytes.

    … | record | damaged bytes | record | record | … zeros
               ^ the log ends   ^^^^^^^^^^^^^^^^^ discarded

A power cut leaves such records if their pages reached the disk and earlier ones did not; under SYNC_FLUSH they were then never
acknowledged. Disk damage also leaves them, and then they were. In both cases they are reported to the operator before they are wiped.
"""

import os
from collections.abc import Callable

from msgspec import Struct

from headrace.protocol.big_endian import load_i32
from headrace.protocol.record_layout import TOTAL_SIZE_AT
from store.commit_log.next_record import find_next_record
from store.mapped_file_queue import MappedFileQueue


class Discarded(Struct, frozen=True):
    """The number of complete records, and the offsets of the first and the last (-1 without one)."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1


def find_discarded(
    log: MappedFileQueue, end_offset: int, check_crc: bool, beat: Callable[[], None] = lambda: None
) -> Discarded:
    """Searches everything written after the end of the log; holes are not read. `beat` is called once per file."""
    records, first, last = 0, -1, -1
    for start in log.starts():
        file = log.file_for(start) if start + log.file_size > end_offset else None
        if file is None:
            continue
        beat()
        position = max(end_offset - start, 0)
        # Pages that somebody has read of the reserved part (a backup, say) would count as data: seconds for each file.
        os.posix_fadvise(file.fd, position, file.size_bytes - position, os.POSIX_FADV_DONTNEED)
        while (position := find_next_record(file, position, file.size_bytes, check_crc)) >= 0:
            records += 1
            last = start + position
            first = last if first < 0 else first
            position += load_i32(file.view, position + TOTAL_SIZE_AT)
    return Discarded(records, first, last)
