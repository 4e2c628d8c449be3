"""The control block's read side: every offset and flag of the appliance, by name.

Any process may read. A read is one load, takes no lock and never waits. Writing is in `publish/`, a module for each writer.
Hot loops take `.words` and the constants of `control_layout`. Every role reads cells each time it wakes up, while its caches are cold, so this is a
hot module (types in the `.pxd`).
"""

from typing import Any

import cython

from ipc import control_layout as layout
from ipc.posix import Segment

if not cython.compiled:
    from ipc.cells import cells_of, keep_words, load_cell

NOT_WRITEABLE = 2
QUEUE_ERROR = 4
INDEX_ERROR = 8
DISK_FULL = 16

_FOLLOWED = (
    "forced_offset",
    "delete_expired_requests",
    "clean_topics_requests",
    "wrote_offset",
    "append_limit",
    "allocated_offset",
)


def _is_followed(cell: layout.Cell) -> int:
    """Sort key: cells on which others depend come last."""
    return _FOLLOWED.index(cell.name) if cell.name in _FOLLOWED else -1


class _CellReader:
    """A read-only property that loads one cell."""

    def __init__(self, word: int) -> None:
        self._word = word

    def __get__(self, block: "ControlBlock | None", owner: type) -> int:
        if block is None:
            return self  # type: ignore[return-value]  # of the class
        return self._load(block)

    def _load(self, block: "ControlBlock") -> int:
        return load_cell(block.cells, self._word)

    def __set__(self, block: "ControlBlock", value: Any) -> None:
        raise AttributeError("only the publisher of a cell may store it (ipc.publish)")


class ControlBlock:
    """The meaning and the writer of each cell are in `control_layout`."""

    min_offset = _CellReader(layout.MIN_OFFSET)
    forced_offset = _CellReader(layout.FORCED_OFFSET)
    losses_counted_offset = _CellReader(layout.LOSSES_COUNTED_OFFSET)
    requested_offset = _CellReader(layout.REQUESTED_OFFSET)
    allocated_offset = _CellReader(layout.ALLOCATED_OFFSET)
    append_limit = _CellReader(layout.APPEND_LIMIT)
    wrote_offset = _CellReader(layout.WROTE_OFFSET)
    wrote_timestamp = _CellReader(layout.WROTE_TIMESTAMP)
    flushed_offset = _CellReader(layout.FLUSHED_OFFSET)
    flushed_timestamp = _CellReader(layout.FLUSHED_TIMESTAMP)
    reput_offset = _CellReader(layout.REPUT_OFFSET)
    reput_timestamp = _CellReader(layout.REPUT_TIMESTAMP)
    cleaned_offset = _CellReader(layout.CLEANED_OFFSET)
    index_timestamp = _CellReader(layout.INDEX_TIMESTAMP)
    push2slave_max_offset = _CellReader(layout.PUSH2SLAVE_MAX_OFFSET)
    slave_count = _CellReader(layout.SLAVE_COUNT)
    flag_disk_full = _CellReader(layout.FLAG_DISK_FULL)
    flag_log_error = _CellReader(layout.FLAG_LOG_ERROR)
    flag_queue_error = _CellReader(layout.FLAG_QUEUE_ERROR)
    flag_index_error = _CellReader(layout.FLAG_INDEX_ERROR)
    delete_expired_requests = _CellReader(layout.DELETE_EXPIRED_REQUESTS)
    delete_expired_handled = _CellReader(layout.DELETE_EXPIRED_HANDLED)
    clean_topics_requests = _CellReader(layout.CLEAN_TOPICS_REQUESTS)
    clean_topics_handled = _CellReader(layout.CLEAN_TOPICS_HANDLED)
    config_version = _CellReader(layout.CONFIG_VERSION)
    asleep_broker = _CellReader(layout.ASLEEP["broker"])
    asleep_pulls = _CellReader(layout.ASLEEP["pulls"])
    asleep_dispatch = _CellReader(layout.ASLEEP["dispatch"])
    asleep_flush = _CellReader(layout.ASLEEP["flush"])
    asleep_housekeeper = _CellReader(layout.ASLEEP["housekeeper"])
    asleep_ha = _CellReader(layout.ASLEEP["ha"])

    def __init__(self, segment: Segment) -> None:
        self.words = keep_words(segment.words)
        self.cells = cells_of(self.words)

    def running_flags(self) -> int:
        """RocketMQ's running flags: the union of what each writer says (store spec, 8.4). 0: messages may be written.

        RocketMQ has no bit for a failed sync of the CommitLog; it is shown as NOT_WRITEABLE. NOT_READABLE is never set, there or here.
        """
        words = self.words
        flags = 0
        if words[layout.FLAG_LOG_ERROR]:
            flags |= NOT_WRITEABLE
        if words[layout.FLAG_QUEUE_ERROR]:
            flags |= QUEUE_ERROR
        if words[layout.FLAG_INDEX_ERROR]:
            flags |= INDEX_ERROR
        if words[layout.FLAG_DISK_FULL]:
            flags |= DISK_FULL
        return flags

    def confirm_offset(self) -> int:
        """The limit of dispatch. A stricter rule (a majority of slaves) would change this line."""
        return self.wrote_offset

    def read(self) -> dict[str, int]:
        """All cells by name, for status pages. Not a consistent snapshot: each is loaded separately.

        # order: a dependent offset is loaded first, so that it never seems to be ahead of the other.
        """
        loaded = {cell.name: self.words[cell.word] for cell in sorted(layout.CELLS, key=_is_followed)}
        return {cell.name: loaded[cell.name] for cell in layout.CELLS}
