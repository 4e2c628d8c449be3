"""Which old records of timers have to be read from disk before they are delivered (a page fault would hold everybody up)."""

import os

from broker.timers.entry import ENTRY
from store.commit_log.reader import CommitLogReader

_WARM_WINDOW = 256 << 20  # limit: what lies nearer to the log's end is taken to be in memory
_MOST = 1024  # limit: descriptors; the rest is read when it comes

Plan = list[tuple[int, int, int]]
"""Descriptors of its own, positions, lengths: what `store.query.get.warm` takes."""


def plan_warming(entries: list[bytes], log: CommitLogReader, wrote_offset: int) -> Plan:
    """What to read; nothing if all is new."""
    plan: Plan = []
    for entry in entries:
        _, physical_offset, size = ENTRY.unpack(entry)
        if physical_offset < wrote_offset - _WARM_WINDOW and len(plan) < _MOST:
            file = log.file_for(physical_offset)
            if file is not None:
                plan.append((os.dup(file.fd), physical_offset - file.start_offset, abs(size)))
    return plan
