"""Verifies a whole store, for operators and for the crash tests.

Checked: records tile the log without gaps, each is where it says and its checksum holds; each queue's entries are consecutive and
point to matching records of that topic and queue; each index entry points to a record with that key, and every key exists; chains and
headers are consistent; the checkpoint covers nothing that is missing; the published offsets are in order.

Nothing is changed. A running store is checked up to what it had published when the check began.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from headrace.model.message import MessageExt
from ipc.errors import IpcError
from ipc.instance import Instance
from store.checkpoint import read_checkpoint
from store.config import StoreConfig
from store.inspect.agreement import Agreement
from store.inspect.finding import Finding, Progress
from store.inspect.index_check import IndexCheck
from store.inspect.log import InspectedLog
from store.inspect.queue_check import QueueCheck, check_batches

__all__ = ["Finding", "Progress", "verify"]


def verify(
    path: Path, slots: int = StoreConfig.max_hash_slot_num, entries: int = StoreConfig.max_index_num
) -> Iterator[Progress | Finding]:
    """All violations in the store at this root, with progress in between.

    `slots` and `entries` are maxHashSlotNum and maxIndexNum, which IndexFiles do not say. Whether an appliance runs on the store
    is found out.
    """
    instance = _open_instance(path)
    try:
        if instance is not None:
            yield from _check_offsets(instance)
        yield from _check_files(path, slots, entries, instance)
    finally:
        if instance is not None:
            instance.close()


def _check_files(path: Path, slots: int, entries: int, instance: Instance | None) -> Iterator[Progress | Finding]:
    control = instance.control if instance is not None else None
    # order: what is built is asked for before what it is built from, so that a running store is never found behind itself.
    reput_offset = control.reput_offset if control is not None else None
    table = instance.queue_table() if instance is not None else None
    log = InspectedLog(path)
    queues = QueueCheck(path, log, table, reput_offset)
    index = IndexCheck(path, log, slots, entries, control is not None)
    log.open(control.wrote_offset if control is not None else None)
    yield from log.check_files()
    yield from queues.check_files()
    yield from index.check_files()
    agreement = Agreement(queues.entries(), index.keys, index.first_offset, index.last_offset)
    for seen in log.read(agreement):
        if isinstance(seen, MessageExt):
            yield from queues.see(seen)
            yield from index.see(seen)
        else:
            yield seen
    yield from queues.finish()
    yield from check_batches(path, log)
    yield from index.finish()
    if control is None:
        yield from _check_checkpoint(path, log)


def _check_checkpoint(path: Path, log: InspectedLog) -> Iterator[Finding]:
    file = path / "checkpoint"
    if log.last_timestamp < 0:
        return
    if not file.exists():
        yield Finding("checkpoint", file.name, "it is missing; the next start reads the whole log")
        return
    checkpoint = read_checkpoint(file)
    for name, timestamp in (
        ("physicMsgTimestamp", checkpoint.physic_timestamp),
        ("logicsMsgTimestamp", checkpoint.logics_timestamp),
        ("indexMsgTimestamp", checkpoint.index_timestamp),
    ):
        if timestamp > log.last_timestamp:
            what = f"{name} is {timestamp}, later than the last record, stored at {log.last_timestamp}: recovery would begin too late"
            yield Finding("checkpoint", file.name, what)


def _check_offsets(instance: Instance) -> Iterator[Finding]:
    control = instance.control
    # order: from the lowest up, so that none of them can be overtaken between two loads.
    offsets = [
        ("min_offset", control.min_offset),
        ("reput_offset", control.reput_offset),
        ("wrote_offset", control.wrote_offset),
    ]
    flushed = [offsets[0], ("flushed_offset", control.flushed_offset), ("wrote_offset", control.wrote_offset)]
    for chain in (offsets, flushed):
        for (lower_name, lower), (higher_name, higher) in pairwise(chain):
            if lower > higher:
                yield Finding("offsets", "control block", f"{lower_name} {lower} is beyond {higher_name} {higher}")


def _open_instance(path: Path) -> Instance | None:
    try:
        return Instance.open(path)
    except IpcError:
        return None
