"""The control block's layout: one table, from which everything else is derived.

A header (`segment_header`), then the cells: signed 64-bit integers, each alone on its cache line of 64 bytes, so that two
writers never share one. A cell's `word` is its index in `memoryview.cast("q")`. The writer named here is the only one: its
publisher in `publish/` stores the cell, `recover` stores the first value, and nobody else may.

docs/storage/shared-memory.md holds this table (`python -m ipc.manual`). To add a cell: a line in `_TABLE`, a constant below,
a property in `control_block`, a method in its writer's publisher; raise `segment_header.LAYOUT_VERSION`.
"""

from msgspec import Struct

from ipc.segment_header import HEADER_WORDS, magic_of

MAGIC = magic_of(b"HRcontrl")
CELL_WORDS = 8  # limit: a cache line of 64 bytes

LOG_WRITER = "the log writer"
"""The broker on a master, ha on a slave."""


class Cell(Struct, frozen=True):
    """One cell with its writer and its readers."""

    name: str
    word: int
    writer: str
    readers: tuple[str, ...]
    meaning: str


_TABLE: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        "min_offset",
        "housekeeper",
        ("broker", "dispatch", "flush", "ha"),
        "first physical offset that is still stored; release mappings and descriptors of files below",
    ),
    (
        "forced_offset",
        "housekeeper",
        ("broker", "housekeeper"),
        "start of the log after a deletion before the retention time; `min_offset` follows once the lost messages are counted",
    ),
    (
        "losses_counted_offset",
        "broker",
        ("housekeeper",),
        "messages that consumer groups lost by such deletions are counted up to here",
    ),
    (
        "requested_offset",
        LOG_WRITER,
        ("housekeeper",),
        "start of a slave's log: the CommitLog file to reserve; -1 if none is requested",
    ),
    (
        "allocated_offset",
        "housekeeper",
        (LOG_WRITER, "flush"),
        "end of the last CommitLog file reserved on disk",
    ),
    (
        "append_limit",
        LOG_WRITER,
        (LOG_WRITER,),
        "nothing beyond it has been written; raised before a batch is copied, read by the log writer after a restart",
    ),
    (
        "wrote_offset",
        LOG_WRITER,
        ("all",),
        "end of the last complete record",
    ),
    (
        "wrote_timestamp",
        LOG_WRITER,
        ("flush",),
        "store timestamp of the last complete record, ms",
    ),
    (
        "flushed_offset",
        "flush",
        ("broker", "housekeeper"),
        "everything below is durable",
    ),
    (
        "flushed_timestamp",
        "flush",
        ("housekeeper",),
        "store timestamp of the last durable record, ms; may be older, never newer",
    ),
    (
        "reput_offset",
        "dispatch",
        ("broker", "supervisor", "housekeeper"),
        "everything below is in both indexes; nothing above is deleted",
    ),
    (
        "reput_timestamp",
        "dispatch",
        ("housekeeper",),
        "store timestamp of the last record in the ConsumeQueues, ms",
    ),
    (
        "cleaned_offset",
        "dispatch",
        ("broker",),
        "the files of ConsumeQueues and the index with entries only below it are deleted; release their mappings",
    ),
    (
        "index_timestamp",
        "dispatch",
        ("dispatch",),
        "end timestamp of the last full IndexFile, ms, as in the checkpoint; read by dispatch after a restart",
    ),
    (
        "push2slave_max_offset",
        "ha",
        ("broker",),
        "highest offset that a slave has acknowledged",
    ),
    (
        "slave_count",
        "ha",
        ("broker",),
        "number of connected slaves",
    ),
    (
        "flag_disk_full",
        "housekeeper",
        ("broker",),
        "writes are stopped: the disk is full",
    ),
    (
        "flag_log_error",
        "flush",
        ("broker",),
        "writes are stopped: a sync of the CommitLog failed",
    ),
    (
        "flag_queue_error",
        "dispatch",
        ("broker",),
        "writes are stopped: a ConsumeQueue cannot be written, or the queue table is full",
    ),
    (
        "flag_index_error",
        "dispatch",
        ("broker",),
        "writes are stopped: an IndexFile cannot be created",
    ),
    (
        "delete_expired_requests",
        "broker",
        ("housekeeper",),
        "number of operators' requests to delete expired files",
    ),
    (
        "delete_expired_handled",
        "housekeeper",
        ("broker",),
        "number of these requests that are complete",
    ),
    (
        "clean_topics_requests",
        "broker",
        ("dispatch",),
        "number of topic deletions and of requests to delete unused queues (the topics are in `config/deletedTopics.json`)",
    ),
    (
        "clean_topics_handled",
        "dispatch",
        ("broker",),
        "number of these requests that are complete",
    ),
    (
        "config_version",
        "broker",
        ("flush", "housekeeper"),
        "number of changes of options at run time; the options are in the page of changed options",
    ),
    (
        "asleep_broker",
        "broker",
        ("dispatch", "flush", "housekeeper", "ha"),
        "the broker is about to wait and must be rung",
    ),
    (
        "asleep_pulls",
        "broker",
        ("dispatch",),
        "pulls are held, and the broker must be rung when queues have changed; through the broker's eventfd",
    ),
    (
        "asleep_dispatch",
        "dispatch",
        (LOG_WRITER, "housekeeper"),
        "1: dispatch is about to wait and must be rung; 2: only while pulls are held",
    ),
    (
        "asleep_flush",
        "flush",
        (LOG_WRITER, "housekeeper"),
        "flush is about to wait and must be rung",
    ),
    (
        "asleep_housekeeper",
        "housekeeper",
        (LOG_WRITER, "broker", "dispatch"),
        "the housekeeper is about to wait and must be rung",
    ),
    (
        "asleep_ha",
        "ha",
        ("broker",),
        "ha is about to wait and must be rung",
    ),
)

CELLS: tuple[Cell, ...] = tuple(
    Cell(name, HEADER_WORDS + index * CELL_WORDS, writer, readers, meaning)
    for index, (name, writer, readers, meaning) in enumerate(_TABLE)
)
SIZE_BYTES = (HEADER_WORDS + len(CELLS) * CELL_WORDS) * 8

_WORDS = {cell.name: cell.word for cell in CELLS}

MIN_OFFSET = _WORDS["min_offset"]
FORCED_OFFSET = _WORDS["forced_offset"]
LOSSES_COUNTED_OFFSET = _WORDS["losses_counted_offset"]
REQUESTED_OFFSET = _WORDS["requested_offset"]
ALLOCATED_OFFSET = _WORDS["allocated_offset"]
APPEND_LIMIT = _WORDS["append_limit"]
WROTE_OFFSET = _WORDS["wrote_offset"]
WROTE_TIMESTAMP = _WORDS["wrote_timestamp"]
FLUSHED_OFFSET = _WORDS["flushed_offset"]
FLUSHED_TIMESTAMP = _WORDS["flushed_timestamp"]
REPUT_OFFSET = _WORDS["reput_offset"]
REPUT_TIMESTAMP = _WORDS["reput_timestamp"]
CLEANED_OFFSET = _WORDS["cleaned_offset"]
INDEX_TIMESTAMP = _WORDS["index_timestamp"]
PUSH2SLAVE_MAX_OFFSET = _WORDS["push2slave_max_offset"]
SLAVE_COUNT = _WORDS["slave_count"]
FLAG_DISK_FULL = _WORDS["flag_disk_full"]
FLAG_LOG_ERROR = _WORDS["flag_log_error"]
FLAG_QUEUE_ERROR = _WORDS["flag_queue_error"]
FLAG_INDEX_ERROR = _WORDS["flag_index_error"]
DELETE_EXPIRED_REQUESTS = _WORDS["delete_expired_requests"]
DELETE_EXPIRED_HANDLED = _WORDS["delete_expired_handled"]
CLEAN_TOPICS_REQUESTS = _WORDS["clean_topics_requests"]
CLEAN_TOPICS_HANDLED = _WORDS["clean_topics_handled"]
CONFIG_VERSION = _WORDS["config_version"]
ASLEEP = {name.removeprefix("asleep_"): word for name, word in _WORDS.items() if name.startswith("asleep_")}
"""The cells of bells: one for each role that has an eventfd, and `pulls`."""
