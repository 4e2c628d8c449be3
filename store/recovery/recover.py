"""Makes a store consistent from its files alone, and computes its offsets.

    1 check     every file's name and length; on an error nothing is changed
    2 survey    read the log from a safe offset on: its end, missing queue entries
    3 wipe      the bytes beyond the end, in place
    4 truncate  ConsumeQueues to the entries confirmed by the log; drop IndexFiles that may be torn
    5 sync      everything that was read and kept, because it may be only in the page cache
    6 report    above all where dispatch must continue

Each step can be repeated: after a kill anywhere, the next run repeats everything with the same result. The reasoning is in
docs/storage/crash-safety.md.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from headrace.protocol.big_endian import load_i32
from headrace.protocol.record_layout import MAGIC_AT, MESSAGE_MAGIC, MESSAGE_MAGIC_V2
from store.abort_file import is_same_boot, was_dispatched
from store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from store.commit_log.record_check import store_timestamp_of
from store.commit_log.tail import wipe
from store.config import StoreConfig
from store.deleted_topics import read_deleted_topics
from store.fault_point import fault_point
from store.index.layout import file_size
from store.mapped_file import sync_directory, sync_file
from store.mapped_file_queue import MappedFileQueue
from store.paths import StorePaths
from store.recovery.decide import first_file_after_clean_stop, first_file_after_crash, reput_offset
from store.recovery.discarded_records import Discarded, find_discarded
from store.recovery.dispatched_end import find_dispatched_before_kill, find_dispatched_end
from store.recovery.index_files import IndexDecision, decide_index, read_heads
from store.recovery.log_survey import NO_TAIL, QueueTail, Survey, find_older, survey_log
from store.recovery.queue_bounds import KeptQueue, QueueBounds
from store.recovery.queue_files import QueueFiles, list_queues
from store.recovery.shared_work import shared_work

logger = logging.getLogger(__name__)

_ALWAYS_THERE = frozenset({"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
_MAGICS = (MESSAGE_MAGIC, MESSAGE_MAGIC_V2)
_QUEUES_A_BEAT = 64  # limit: seconds on a disk that is busy and cold


class Recovered(Struct, frozen=True):
    """A store on disk, synced and wiped. Timestamps in ms, 0 if unknown."""

    is_clean: bool
    min_offset: int
    wrote_offset: int
    allocated_offset: int
    reput_offset: int
    wrote_timestamp: int
    reput_timestamp: int
    index_timestamp: int
    queues: tuple[QueueBounds, ...] = ()
    """The queues that dispatch continues without a look at their files. It opens all others itself."""


def recover(
    config: StoreConfig,
    paths: StorePaths,
    beat: Callable[[], None] = lambda: None,
    report: Callable[[Discarded], None] = lambda _: None,
) -> Recovered:
    """Recovers the store, which no other process may use meanwhile. `beat` is called between files, at most seconds apart.

    `report` is called before whole records are wiped because they are behind the first bytes that are none.
    Raises StoreError, with nothing changed, if the files are not what the settings say.
    """
    config.check()
    paths.make_directories()
    return _Recovery(config, paths, beat, report).run()


_Found = tuple[tuple[int, ...], bool, tuple[Any, ...] | None]
"""A queue's tail, whether its last entry agrees with the log, and the KeptQueue; all as tuples, because a process may pass them on."""


class _Examined(Struct):
    """The queues as they were found. `kept`: those that need no change unless the log ends before their last record."""

    tails: dict[bytes, QueueTail] = field(default_factory=dict)
    disagreeing: list[QueueFiles] = field(default_factory=list)
    kept: dict[bytes, KeptQueue] = field(default_factory=dict)


class _Recovery:
    def __init__(
        self,
        config: StoreConfig,
        paths: StorePaths,
        beat: Callable[[], None],
        report: Callable[[Discarded], None],
    ) -> None:
        self._config = config
        self._paths = paths
        self._beat = beat
        self._report = report
        self._is_clean = not paths.abort.exists()
        self._is_dispatched = was_dispatched(paths.abort)
        self._has_all_writes = self._is_clean or self._is_dispatched
        self._disagreed = False
        self._checkpoint = read_checkpoint(paths.checkpoint)
        self._log = MappedFileQueue(
            paths.commit_log, config.mapped_file_size_commit_log, size_option="mappedFileSizeCommitLog"
        )

    def run(self) -> Recovered:
        begun = time.monotonic()
        self._log.refresh()
        self._deleted = read_deleted_topics(self._paths)
        queues = list_queues(self._paths, config_size := self._config.consume_queue_file_size, self._beat)
        logger.info(
            "store inspected clean=%s dispatched=%s commit_log_files=%d queues=%d queue_file_size=%d %s",
            self._is_clean,
            self._has_all_writes,
            len(self._log.starts()),
            len(queues),
            config_size,
            _fields(self._checkpoint),
        )
        queues, leftovers, rebuild_from = self._part_leftovers(queues)
        first_read = self._first_read()
        examined = self._examine(queues, first_read)
        tails = examined.tails
        start = self._survey_start(queues, examined, first_read)
        survey = survey_log(
            self._log,
            start,
            tails,
            _read_known_topics(self._paths),
            self._config.check_crc_on_recover,
            self._beat,
            self._deleted,
        )
        older = self._find_older_missing(start, survey)
        if rebuild_from >= 0:
            older = min(older, rebuild_from) if older >= 0 else rebuild_from
        fault_point("recovery.surveyed")

        self._sync_log(first_read, survey.end_offset)
        self._wipe(survey)
        fault_point("recovery.wiped")
        for queue in leftovers:
            self._beat()
            queue.remove()
            fault_point("recovery.leftover_removed")
            logger.info("queue of a deleted topic removed directory=%s", queue.directory)
        kept = self._cut_queues(queues, examined, start, survey.end_offset)
        fault_point("recovery.cut")
        index = self._drop_index_files(survey.end_offset)
        reput = reput_offset(
            is_clean=self._is_clean and not self._disagreed,
            log_min_offset=self._log.first_offset,
            survey_start=start,
            end_offset=survey.end_offset,
            first_missing=survey.first_missing,
            older_missing=older,
            index_rebuild_from=index.rebuild_from if self._config.message_index_enable else None,
            has_queue_entries=bool(kept),
        )
        self._repair_checkpoint(survey, reput)
        recovered = Recovered(
            is_clean=self._is_clean,
            min_offset=self._log.first_offset,
            wrote_offset=survey.end_offset,
            allocated_offset=self._log.end_offset,
            reput_offset=reput,
            # compat: RocketMQ's shutdown leaves the log's own timestamp up to ten seconds behind the queues' (store spec, 1.5).
            wrote_timestamp=max(survey.last_timestamp, 0)
            or max(self._checkpoint.physic_timestamp, self._checkpoint.logics_timestamp),
            reput_timestamp=self._checkpoint.logics_timestamp,
            index_timestamp=index.end_timestamp,
            queues=tuple(bounds for queue in kept if (bounds := queue.bounds(reput)) is not None),
        )
        self._log.close()
        logger.info(
            "store recovered end_reason=%r records_read=%d duration_s=%.1f %s",
            survey.reason,
            survey.records,
            time.monotonic() - begun,
            _fields(recovered),
        )
        return recovered

    # ---- the log

    def _survey_start(self, queues: list[QueueFiles], examined: "_Examined", first_read: int) -> int:
        """Where the log is read from: the end of a record up to which all were dispatched, or a file's begin."""
        if self._is_dispatched and not examined.disagreeing:
            return find_dispatched_before_kill(self._log, queues, examined.tails, first_read)
        if not self._is_clean:
            return first_read
        end = find_dispatched_end(
            self._paths,
            self._log,
            queues,
            examined.tails,
            examined.disagreeing,
            first_read,
            self._checkpoint.logics_timestamp,
        )
        return first_read if end is None else end

    def _first_read(self) -> int:
        """Start of the first of the files that must be held against the ConsumeQueues."""
        starts = self._log.starts()
        if self._is_clean:
            return first_file_after_clean_stop(starts)
        timestamps = [(start, self._first_timestamp(start)) for start in starts]
        return first_file_after_crash(timestamps, self._checkpoint.min_timestamp)

    def _first_timestamp(self, start: int) -> int | None:
        """The store timestamp of a file's first record, if it begins with one."""
        file = self._log.file_for(start)
        if file is None or load_i32(file.view, MAGIC_AT) not in _MAGICS:
            return None
        return store_timestamp_of(file.view, 0)

    def _find_older_missing(self, start: int, survey: Survey) -> int:
        if not survey.gaps:
            return -1
        logger.warning("queue entries missing, rebuilding from the CommitLog queues=%d", len(survey.gaps))
        starts = [one for one in self._log.starts() if one < start]
        return find_older(self._log, starts, survey.gaps, self._beat, self._deleted)

    def _sync_log(self, start: int, end: int) -> None:
        """What was found may be in the page cache only; from here on it counts as flushed."""
        for file_start in range(start, end, self._log.file_size):
            self._beat()
            file = self._log.file_for(file_start)
            if file is not None:
                sync_file(file.fd, file.path)
        sync_directory(self._paths.commit_log)

    def _wipe(self, survey: Survey) -> None:
        end = survey.end_offset
        found = find_discarded(self._log, end, self._config.check_crc_on_recover, self._beat)
        if found.records:
            logger.warning(
                "records discarded records=%d first_offset=%d last_offset=%d log_end=%d cause=%r",
                found.records,
                found.first_offset,
                found.last_offset,
                end,
                f"no valid record at {end}: {survey.reason}",
            )
            self._report(found)
        self._log.close()
        wipe(self._paths, self._config, end, self._log.end_offset)

    # ---- ConsumeQueues

    def _part_leftovers(self, queues: list[QueueFiles]) -> tuple[list[QueueFiles], list[QueueFiles], int]:
        """Queues to keep, queues that have entries from before their topic was deleted, and from where to rebuild the latter.

        The last is -1 if they have no newer entries. Ours never have: only RocketMQ dispatches such records again.
        """
        kept, leftovers, rebuild_from = [], [], -1
        for queue in queues:
            below = self._deleted.get(queue.topic)
            tail = queue.find_tail(None) if below is not None else NO_TAIL
            if below is None or tail == NO_TAIL:
                kept.append(queue)
                continue
            bounds = (queue.first_physical_offset(tail.next_offset), queue.record_of(tail.next_offset - 1)[0])
            if min(bounds) >= below:
                kept.append(queue)
            else:
                leftovers.append(queue)
                if max(bounds) >= below:
                    rebuild_from = below if rebuild_from < 0 else min(rebuild_from, below)
            queue.close()
        return kept, leftovers, rebuild_from

    def _examine(self, queues: list[QueueFiles], first_read: int) -> "_Examined":
        """Reads the end of every queue, once: a store may have 50,000 of them.

        After a crash of the machine only entries of records before the survey count: those were synced before the checkpoint was written.
        """

        def examine(part: Sequence[QueueFiles]) -> list[_Found]:
            return [self._examine_one(queue, first_read) for queue in part]

        examined = _Examined()
        for queue, (tail, is_agreeing, kept) in zip(queues, shared_work(examine, queues, self._beat), strict=True):
            examined.tails[queue.key] = QueueTail(*tail)
            if not is_agreeing:
                examined.disagreeing.append(queue)
            if kept is not None:
                examined.kept[queue.key] = KeptQueue(*kept)
        return examined

    def _examine_one(self, queue: QueueFiles, first_read: int) -> _Found:
        tail = queue.find_tail(None if self._has_all_writes else first_read)
        is_agreeing, kept = True, None
        if self._has_all_writes and tail != NO_TAIL:
            is_agreeing = queue.is_bearing_out(tail.next_offset - 1, self._log, first_read, self._log.end_offset)
            if is_agreeing and queue.has_nothing_from(tail.next_offset):
                kept = self._kept(queue, tail.next_offset)
        queue.close()
        return tuple(tail), is_agreeing, None if kept is None else tuple(kept)

    def _cut_queues(self, queues: list[QueueFiles], examined: "_Examined", start: int, end: int) -> list[KeptQueue]:
        """Those that have entries left."""
        left = []
        for number, queue in enumerate(queues):
            if number % _QUEUES_A_BEAT == 0:
                self._beat()
            whole = examined.kept.get(queue.key)
            if whole is not None and whole.last_end <= end:
                left.append(whole)
                continue
            before = examined.tails[queue.key]
            if self._has_all_writes:
                kept = queue.find_tail(end).next_offset
                if kept > queue.first_offset and not queue.is_bearing_out(kept - 1, self._log, start, end):
                    # compat: RocketMQ leaves cut entries in its files; behind the last one written since they look valid.
                    self._disagreed = True
                    kept = queue.find_agreeing(queue.find_tail(start).next_offset, self._log, end)
            elif before == NO_TAIL and queue.first_offset > 0:
                # Its first file may be one whose name was not synced: only the log knows where the queue begins.
                kept = queue.first_offset
            else:
                kept = queue.find_agreeing(before.next_offset, self._log, end)
            if kept > queue.first_offset:
                left.append(self._kept(queue, kept))
            if queue.cut(kept):
                logger.debug(
                    "queue truncated directory=%s next_offset=%d surveyed_next_offset=%d",
                    queue.directory,
                    kept,
                    before.next_offset,
                )
            queue.close()
        return left

    def _kept(self, queue: QueueFiles, next_offset: int) -> KeptQueue:
        return queue.kept(next_offset, self._log.first_offset)

    # ---- IndexFiles, checkpoint

    def _drop_index_files(self, end: int) -> IndexDecision:
        config = self._config
        decision = decide_index(
            read_heads(
                self._paths.index, file_size(config.max_hash_slot_num, config.max_index_num), config.max_index_num
            ),
            is_clean=self._is_clean,
            is_same_boot=is_same_boot(self._paths.abort),
            is_dispatched=self._is_dispatched,
            checkpoint_timestamp=self._checkpoint.index_timestamp,
            log_min_offset=self._log.first_offset,
            log_end_offset=end,
        )
        for head in reversed(decision.dropped):
            self._beat()
            head.path.unlink()
            fault_point("recovery.index_dropped")
            logger.info("IndexFile discarded, its keys will be rebuilt file=%s", head.path.name)
        for head in decision.unsynced:
            self._beat()
            with head.path.open("rb") as file:
                sync_file(file.fileno(), head.path)
        if decision.dropped:
            sync_directory(self._paths.index)
        return decision

    def _repair_checkpoint(self, survey: Survey, reput: int) -> None:
        """A checkpoint ahead of the last record is wrong; it would make the next recovery begin too late."""
        last = max(survey.last_timestamp, 0)
        if max(self._checkpoint.physic_timestamp, self._checkpoint.logics_timestamp) <= last or survey.records == 0:
            return
        file = self._log.file_for(max(reput, self._log.first_offset))
        safe = store_timestamp_of(file.view, 0) if file is not None and survey.records else 0
        corrected = Checkpoint(
            physic_timestamp=min(self._checkpoint.physic_timestamp, safe),
            logics_timestamp=min(self._checkpoint.logics_timestamp, safe),
            index_timestamp=min(self._checkpoint.index_timestamp, last),
        )
        logger.warning("checkpoint was ahead of the log, corrected %s", _fields(corrected))
        write_checkpoint(self._paths.checkpoint, corrected)
        self._checkpoint = corrected


def _fields(values: Checkpoint | Recovered) -> str:
    """For a log line: `key=value` of each field; of a tuple its length."""
    shown = {name: getattr(values, name) for name in values.__struct_fields__}
    return " ".join(f"{name}={len(value) if isinstance(value, tuple) else value}" for name, value in shown.items())


def _read_known_topics(paths: StorePaths) -> Callable[[bytes], bool]:
    """Whether `config/topics.json` has a topic: records of a deleted topic are no reason to dispatch the log again.

    If neither the file nor its backup can be read, every topic exists.
    """
    for name in ("topics.json", "topics.json.bak"):
        try:
            table = json.loads(paths.config_file(name).read_bytes())["topicConfigTable"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(table, dict):
            topics = frozenset(topic.encode() for topic in _ALWAYS_THERE.union(table))
            return topics.__contains__
    return lambda _topic: True
