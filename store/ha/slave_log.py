"""A slave's CommitLog: appends the master's bytes at the master's offsets.

    -----|== complete records ==|-- part of one --|
                          wrote_offset        copied_offset

A frame may end in the middle of a record. Only complete records are published, so that no reader on the slave sees a partial one;
bytes copied beyond are dropped at a restart or when the connection is lost, and requested again.

Bytes that are no record mean one of two things. Where a link begins, the master has another log than this one, and nothing of it is
taken. Behind records that fitted, the master's disk has damaged its log: what is damaged is copied as it is, and the log continues at the
next whole record.

With SYNC_MASTER the master's answers wait for what is done here, so this is a hot module (types in the `.pxd`).
"""

import logging

from ipc.control_block import ControlBlock
from ipc.publish.log import LogPublisher
from store.commit_log.next_record import find_next_record
from store.commit_log.record_check import BLANK, NO_ROOM, REASONS, check_record, store_timestamp_of, walk_records
from store.commit_log.tail import wipe
from store.config import RECORD_MARGIN, StoreConfig
from store.errors import HaError
from store.fault_point import fault_point
from store.mapped_file import MappedFile
from store.mapped_file_queue import MappedFileQueue
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_SIZE_FIELD = 4
_HEAD_SIZE = 8


class SlaveLog:
    """The log writer on a slave, in the ha role."""

    def __init__(self, control: ControlBlock, config: StoreConfig, paths: StorePaths) -> None:
        self._control = control
        self._config = config
        self._paths = paths
        self._publisher = LogPublisher(control)
        self._size = config.mapped_file_size_commit_log
        self._files = MappedFileQueue(
            paths.commit_log, self._size, writable=True, size_option="mappedFileSizeCommitLog"
        )
        self.wrote_offset = control.wrote_offset
        self.copied_offset = self.wrote_offset
        self._timestamp = control.wrote_timestamp
        self._has_fitted = False
        """Whether the master has sent a complete record since the connection began."""
        self._damaged_offset = -1
        self._searched_offset = 0

    def start_over(self) -> None:
        """Wipes bytes copied but never published: by a predecessor, or of an incomplete record."""
        self.copied_offset = self.wrote_offset
        self._has_fitted = False
        self._damaged_offset = -1
        wipe(self._paths, self._config, self.wrote_offset, self._control.append_limit)

    def request_file(self, offset: int) -> None:
        """An empty log begins at the master's first frame: requests that file from the housekeeper. Raises HaError."""
        if offset % self._size:
            raise HaError(
                f"the master starts in the middle of a file, at {offset}; set mappedFileSizeCommitLog to the same value on both"
            )
        self._publisher.requested(offset)

    def begin_at(self, offset: int) -> None:
        """Sets the beginning of the log, after `has_room` has returned true."""
        self.wrote_offset = self.copied_offset = offset
        self._publisher.append_limit(offset)
        self._publisher.wrote(offset, 0)
        self._publisher.requested(-1)

    def has_begun_at(self, offset: int) -> bool:
        """Whether the housekeeper has created the first file of an empty log."""
        return self._control.min_offset == offset and self._control.allocated_offset > offset

    def has_room(self, offset: int, size_bytes: int) -> bool:
        """Whether the files for these bytes are reserved."""
        return offset + size_bytes <= self._control.allocated_offset

    @property
    def is_last_file(self) -> bool:
        """Whether no file is reserved behind the one that is written."""
        return self._control.allocated_offset - self.wrote_offset < self._size

    def check_offset(self, offset: int) -> None:
        """Raises HaError if a frame does not begin at the end of the log; the connection must then be closed."""
        if offset != self.copied_offset:
            raise HaError(
                f"offset mismatch: master sent {offset}, local log ends at {self.copied_offset}; "
                "if this repeats, the slave's log has diverged: save its store, and replace it with a copy of the master's (see the runbook)"
            )

    def append(self, offset: int, data: bytes | memoryview) -> None:
        """Copies the bytes of one frame. Raises HaError as `check_offset`."""
        self.check_offset(offset)
        end = offset + len(data)
        # order: the limit is raised before the first byte beyond it is touched.
        self._publisher.append_limit(max(end, self._control.append_limit))
        rest = memoryview(data)
        while self.copied_offset < end:
            file = self._file_for(self.copied_offset)
            position = self.copied_offset - file.start_offset
            piece = rest[: file.size_bytes - position]
            file.view[position : position + len(piece)] = piece
            rest = rest[len(piece) :]
            self.copied_offset += len(piece)
        fault_point("ha.copied")

    def publish_complete(self) -> bool:
        """Publishes the records that are now complete. Returns whether anything was published.

        Raises HaError if the master sent invalid records; the connection must then be closed.
        """
        offset, timestamp = self.wrote_offset, self._timestamp
        while offset + _HEAD_SIZE <= self.copied_offset:
            file = self._file_for(offset)
            position = offset - file.start_offset
            copied = min(self.copied_offset - file.start_offset, file.size_bytes)
            end, last = walk_records(file.view, position, copied, file.start_offset)
            if last >= 0:
                timestamp = store_timestamp_of(file.view, last)
                offset = file.start_offset + end
                self._has_fitted = True
                continue
            reason = check_record(file.view, position, copied, offset, check_crc=False)
            if reason == BLANK and self.copied_offset >= file.end_offset:
                offset = file.end_offset
            elif reason in (BLANK, NO_ROOM) and self._may_be_whole_later(file, position):
                break
            elif not self._has_fitted:
                raise HaError(f"the master sent an invalid record at offset {offset}: {REASONS[reason]}")
            else:
                following = self._behind_damage(file, offset, copied, REASONS[reason])
                if following < 0:
                    break
                offset = following
        if offset <= self.wrote_offset:
            return False
        self.wrote_offset, self._timestamp = offset, timestamp
        self._publisher.wrote(offset, timestamp)
        return True

    def release_deleted(self) -> None:
        """Releases files that have been deleted."""
        self._files.forget_before(self._control.min_offset)

    def close(self) -> None:
        """Releases the mappings."""
        self._files.close()

    def _file_for(self, offset: int) -> MappedFile:
        file = self._files.file_for(offset)
        if file is None:
            raise HaError(f"the CommitLog file for offset {offset} is missing")
        return file

    def _behind_damage(self, file: MappedFile, offset: int, copied: int, reason: str) -> int:
        """Where the log continues behind the damage at `offset`; -1 while the master has not sent that much."""
        if self._damaged_offset != offset:
            self._damaged_offset = self._searched_offset = offset
            logger.error("corrupt record copied from the master physical_offset=%d error=%r", offset, reason)
        # A record that was incomplete at the last check may begin before the bytes copied then.
        longest = self._config.effective_max_message_size + RECORD_MARGIN
        start = max(offset + 1, self._searched_offset - longest) - file.start_offset
        position = find_next_record(file, start, copied, check_crc=True)
        self._searched_offset = file.start_offset + copied
        if position >= 0:
            return file.start_offset + position
        return file.end_offset if self.copied_offset >= file.end_offset else -1

    def _may_be_whole_later(self, file: MappedFile, position: int) -> bool:
        """Whether the size that a record begins with fits its file."""
        size = int.from_bytes(file.view[position : position + _SIZE_FIELD], "big", signed=True)
        return _HEAD_SIZE <= size <= file.size_bytes - position
