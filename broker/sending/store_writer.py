"""StoreWriter: creates the appender, the ack gate and the hot path of sends.

On a master (`may_append`) this process is the log writer. Bytes that its predecessor copied but did not publish are wiped before anything is appended. The
next queue offsets are read from the queue table, so dispatch must have caught up.
"""

from collections.abc import Callable
from typing import Final

from broker.appending.ack_gate import AckGate
from broker.appending.appender import Appender
from broker.sending.hot_send import SendPath
from broker.settings import Settings
from broker.statistics.store_stats import StoreStats
from headrace.model.host import encode_host
from headrace.protocol.version import CURRENT_VERSION
from ipc.control_block import DISK_FULL, INDEX_ERROR, NOT_WRITEABLE, QUEUE_ERROR
from ipc.control_layout import ALLOCATED_OFFSET
from ipc.publish.log import LogPublisher
from ipc.queue_table import QueueTable
from ipc.role_context import RoleContext
from store.commit_log.append import CommitLogAppender
from store.commit_log.appended_files import AppendedFiles
from store.commit_log.staged_files import StagedFiles
from store.commit_log.tail import wipe

_REASONS: Final = {
    DISK_FULL: "the disk is too full",
    NOT_WRITEABLE: "the CommitLog could not be synced",
    QUEUE_ERROR: "dispatch cannot write a ConsumeQueue",
    INDEX_ERROR: "dispatch cannot write an IndexFile",
}
"""Why the store is closed, by running flag."""


class StoreWriter:
    """`deleted_below(topic)`: records below it belong to no queue. `appended()` is called after a batch, `ask()` when somebody begins to wait; `clock()` gives seconds."""

    def __init__(
        self,
        context: RoleContext,
        settings: Settings,
        queue_table: QueueTable,
        deleted_below: Callable[[bytes], int],
        appended: Callable[[], None],
        ask: Callable[[], None],
        clock: Callable[[], float],
        stats: StoreStats,
    ) -> None:
        config, store_config = settings.broker, settings.store
        self._control = context.control
        self._closed = "" if settings.may_append else "the broker is a slave"
        self.gate = AckGate(self._control, clock, store_config, on_wait=ask)
        self._files = (
            StagedFiles(settings.paths, store_config)
            if store_config.is_sync_flush
            else AppendedFiles(settings.paths, store_config)
        )
        log = _log_end(context, settings, queue_table, self._files, deleted_below)
        self.appender = Appender(log, self.gate, store_config, self._why_closed, appended, ask, stats)
        self.path = SendPath(
            log,
            encode_host(settings.store_host),
            config.broker_cluster_name,
            config.region_id,
            config.trace_on,
            CURRENT_VERSION,
            store_config.effective_max_message_size,
            not self.gate.is_open,
        )
        self.path.limit(config.max_header_size, config.max_message_properties, config.max_message_properties_size)
        self.path.writeable = settings.may_append

    def _why_closed(self) -> str:
        flags = self._control.running_flags()
        return (
            self._closed
            or self._files.failure
            or next((reason for flag, reason in _REASONS.items() if flags & flag), "")
        )

    def look(self) -> None:
        """Updates whether the hot path may write; releases deleted files of the log."""
        self.path.writeable = not self._why_closed()
        self._files.release_deleted(self._control.min_offset)

    def refuse(self) -> None:
        """Accepts no more messages."""
        self._closed = "the broker is stopping"
        self.path.writeable = False


def _log_end(
    context: RoleContext,
    settings: Settings,
    queue_table: QueueTable,
    files: AppendedFiles,
    deleted_below: Callable[[bytes], int],
) -> CommitLogAppender:
    """The log writer, starting at the published end of the log."""
    control, config, paths = context.control, settings.store, settings.paths
    wrote_offset, append_limit = control.wrote_offset, control.append_limit
    if append_limit > wrote_offset and settings.may_append:
        # Bytes that a killed predecessor copied but did not publish must never become visible.
        with context.long_call("clearing unpublished log bytes", 60_000):
            wipe(paths, config, wrote_offset, append_limit)
    log = CommitLogAppender(
        LogPublisher(control),
        files.open,
        control.words,
        ALLOCATED_OFFSET,
        config.mapped_file_size_commit_log,
        wrote_offset,
        append_limit,
        files.populate,
        control.wrote_timestamp,
        files.stage,
    )
    for _, topic, queue_id, _, max_queue_offset, max_physical_offset in queue_table.rows():
        if max_physical_offset > deleted_below(topic):  # otherwise dispatch is about to remove the queue
            log.queues_of(topic).advance(queue_id, max_queue_offset)
    return log
