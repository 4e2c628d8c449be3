"""Dispatch: a batch of records into both indexes, then the rows, then `reput_offset`, then the bells.

Killed at any instant and restarted, it continues from `reput_offset`. Entries beyond that are written again over
the same bytes, or skipped: the ConsumeQueues continue from their published rows, the IndexFile from its last linked entry.
No record is ever skipped for lack of space: the batch is retried until there is space.
"""

import logging
from pathlib import Path

from ipc.counter_page import CounterPage
from ipc.instance import Instance
from ipc.publish.dispatch import DispatchPublisher
from store.abort_file import DISPATCH_BATCH_BYTES
from store.commit_log.next_record import find_next_record
from store.config import StoreConfig
from store.consume_queue.writer import ConsumeQueueWriter
from store.dispatch.cleaning import Cleaning
from store.dispatch.unusual_entries import BitMap, QueueEntries, no_bit_map
from store.dispatch.walk import BAD, BLANK, IS_COMPILED, LogWalk
from store.errors import CorruptRecord, StoreError
from store.fault_point import fault_point
from store.index.writer import IndexWriter
from store.mapped_file import MappedFile
from store.mapped_file_queue import MappedFileQueue
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_BATCH_RECORDS = 8192 if IS_COMPILED else 256  # limit: a few milliseconds of small ones
_QUEUE_ATTEMPTS = 30  # compat: RocketMQ tries a ConsumeQueue 30 times, an IndexFile 3 times, a second apart
_INDEX_ATTEMPTS = 3

RECORDS = "records"
BAD_RECORDS = "bad_records"
REFUSED_RECORDS = "refused_records"
FAILED_BATCHES = "failed_batches"
COUNTERS = (RECORDS, BAD_RECORDS, REFUSED_RECORDS, FAILED_BATCHES)


class Dispatcher:
    """Dispatch without its loop: call `open` once, then `try_batch` while there are records."""

    def __init__(
        self,
        instance: Instance,
        counters: CounterPage,
        config: StoreConfig,
        paths: StorePaths,
        bit_map: BitMap = no_bit_map,
        *,
        is_log_copied: bool,
    ) -> None:
        """`bit_map` evaluates filters ahead for extended queues. `is_log_copied`: a master sends the log, and the rest of a record may follow."""
        self._control = instance.control
        self._bells = instance.bells
        self._pull_bell = instance.pull_bell()
        self._publisher = DispatchPublisher(instance.control)
        self._changed_rows = instance.changed_rows_writer()
        self._counters = counters
        self._index_directory = paths.index
        self._is_log_copied = is_log_copied
        self._log_files = MappedFileQueue(
            paths.commit_log, config.mapped_file_size_commit_log, size_option="mappedFileSizeCommitLog"
        )
        self._log_file: MappedFile | None = None
        self._released_offset = 0
        self._queues = ConsumeQueueWriter(paths, config, instance.queue_table_writer())
        self._index = IndexWriter(paths, config) if config.message_index_enable else None
        self._entries = QueueEntries(paths, config, self._queues, bit_map)
        self._walk = LogWalk(
            self._queues,
            self._index,
            self._entries.put,
            all_unusual=config.enable_consume_queue_ext,
            multi_dispatch=config.enable_multi_dispatch,
        )
        self.cleaning = Cleaning(
            self._control, self._publisher, paths, self._queues, self._index, self._entries, self._walk
        )
        self._offset = self._control.reput_offset
        self._reput_timestamp = self._control.reput_timestamp
        self._index_timestamp = self._control.index_timestamp
        self._counted_records = 0
        self._counted_refused = 0
        self._failures = 0
        self._reported_offset = -1
        self.failure: Exception | None = None
        """Why the last batch stopped: the disk is full, or the log cannot be read. None if it did not."""

    def open(self) -> None:
        """Opens the files on disk. Raises WrongFileLength, UnexpectedFile, DeletedTopicsUnreadable, OSError."""
        self._queues.load(self._offset, self._control.min_offset)
        self.cleaning.open()
        self._queues.publish()
        if self._index is not None:
            self._index.open_last()
        self._note_full_table()

    @property
    def has_records(self) -> bool:
        """Whether there are records to dispatch."""
        return self._control.confirm_offset() > self._offset

    def try_batch(self) -> bool:
        """Dispatches some records and publishes them. False: there were none, or `failure` has the reason."""
        self.failure = None
        end = self._control.confirm_offset()
        if self._offset < self._control.min_offset:
            logger.warning(
                "deleted records skipped reput_offset=%d min_offset=%d", self._offset, self._control.min_offset
            )
            self._offset = self._control.min_offset
        if self._offset >= end:
            return False
        before = self._offset
        try:
            self.cleaning.notice_deletions()
            self._dispatch(end)
        except (StoreError, OSError) as error:
            self._fail(error)
        else:
            self._recover()
        if self._offset > before:
            self._publish()
        return self._offset > before

    def release_deleted(self) -> None:
        """Releases deleted CommitLog files; called once per round of the loop."""
        min_offset = self._control.min_offset
        if min_offset == self._released_offset:
            return
        self._released_offset = min_offset
        if self._log_file is not None and self._log_file.end_offset <= min_offset:
            self._log_file = None
        self._log_files.forget_before(min_offset)

    def close(self) -> None:
        """Releases all mappings."""
        self._walk.forget()
        self._entries.close()
        self._queues.close()
        self._log_files.close()
        if self._index is not None:
            self._index.close()

    def _dispatch(self, end: int) -> None:
        file = self._find_file()
        start = file.start_offset
        limit = min(end, file.end_offset) - start
        stop = min(self._offset - start + DISPATCH_BATCH_BYTES, limit)
        try:
            answer = self._walk.walk(file.view, start, self._offset - start, stop, limit, _BATCH_RECORDS)
        finally:
            self._offset = start + self._walk.position
        if answer == BLANK:
            self._offset = file.end_offset
        elif answer == BAD:
            self._pass_bad_record(file, start + limit)

    def _find_file(self) -> MappedFile:
        file = self._log_file
        if file is None or not file.start_offset <= self._offset < file.end_offset:
            self._log_files.forget_before(self._control.min_offset)
            file = self._log_file = self._log_files.file_for(self._offset)
        if file is None:
            raise CorruptRecord(self._offset, "its CommitLog file is missing")
        return file

    def _pass_bad_record(self, file: MappedFile, end: int) -> None:
        """Continues at the next intact record. Without one, skips everything readable; of a copied log, which may be behind its master's, only a whole file.

        RocketMQ skips the rest of the file even if records follow, which are then in no queue.
        """
        position = find_next_record(
            file, self._offset - file.start_offset + 1, end - file.start_offset, check_crc=False
        )
        to = self._offset if self._is_log_copied and end < file.end_offset else end
        if position >= 0:
            to = file.start_offset + position
        if self._reported_offset != self._offset:
            self._reported_offset = self._offset
            self._counters.add(BAD_RECORDS)
            logger.error(
                "corrupt record skipped physical_offset=%d error=%r next_offset=%d",
                self._offset, self._walk.bad_reason, to,
            )  # fmt: skip
        if to == self._offset:
            raise CorruptRecord(self._offset, self._walk.bad_reason)
        self._offset = to

    def _publish(self) -> None:
        fault_point("reput.walked")
        rows = self._queues.publish()
        if rows:
            fault_point("reput.rows_updated")
            self._changed_rows.add(rows)
        fault_point("reput.rows_published")
        self._reput_timestamp = self._walk.store_timestamp or self._reput_timestamp
        completed = self._index.completed_timestamp if self._index is not None else 0
        has_full_index = completed > self._index_timestamp
        self._index_timestamp = max(completed, self._index_timestamp)
        # order: rows first, so that readers of the offset find the entries.
        self._publisher.reput(self._offset, self._reput_timestamp, self._index_timestamp)
        fault_point("reput.published")
        self._pull_bell.ring()
        if has_full_index:
            self._bells["housekeeper"].ring()
        self._count()

    def _count(self) -> None:
        self._counters.add(RECORDS, self._walk.records - self._counted_records)
        self._counted_records = self._walk.records
        if self._entries.refused > self._counted_refused:
            self._counters.add(REFUSED_RECORDS, self._entries.refused - self._counted_refused)
            self._counted_refused = self._entries.refused
        self._note_full_table()

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._failures += 1
        self._counters.add(FAILED_BATCHES)
        path = getattr(error, "path", None) or getattr(error, "filename", None)
        is_index = path is not None and self._index_directory in (Path(path), Path(path).parent)
        if self._failures >= (_INDEX_ATTEMPTS if is_index else _QUEUE_ATTEMPTS):
            if is_index:
                self._publisher.index_error()
            else:
                self._publisher.queue_error()
            self._bells["broker"].ring()
        if self._failures == 1:
            logger.error("dispatch failed, will retry reput_offset=%d error=%r", self._offset, str(error))

    def _recover(self) -> None:
        """A batch succeeded. Nothing was skipped; RocketMQ skips a record after some attempts and then never clears the error."""
        if self._failures:
            logger.info("dispatch resumed reput_offset=%d failures=%d", self._offset, self._failures)
            self._failures = 0
            self._publisher.index_error(False)
            self._publisher.queue_error(self._queues.is_table_full)

    def _note_full_table(self) -> None:
        if self._queues.is_table_full and not self._control.flag_queue_error:
            self._publisher.queue_error()
            self._bells["broker"].ring()
