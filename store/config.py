"""The store's options: RocketMQ's keys, types and defaults (store spec, appendix B).

Options of RocketMQ's store without effect here are in `ACCEPTED_UNUSED` with the reason, which is printed as a warning if
`broker.conf` sets them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.model.option import option
from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from headrace.protocol.ha_frame import MAX_FRAME_SIZE
from store.errors import BadStoreConfig
from store.paths import StorePaths

ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"
ASYNC_FLUSH, SYNC_FLUSH = "ASYNC_FLUSH", "SYNC_FLUSH"
DELETE_OLDEST, REJECT = "delete-oldest", "reject"

RECORD_MARGIN = 65536  # what a record may have beyond its body (store spec, 2.4)
BLANK_MIN_SIZE = 8
SMALLEST_MESSAGE_LIMIT = 10
PATH_SPLITTER = ","


@dataclass(frozen=True)
class StoreConfig:
    """Options of layout, retention and reading."""

    # -- places and sizes
    store_path_root_dir: str = option("~/store", help="Root directory of the store.")
    store_path_commit_log: str = option("", help="Directory of the CommitLog; empty: commitlog under the root.")
    mapped_file_size_commit_log: int = option(
        1073741824, help="Length of a CommitLog file in bytes; the same for all files of a store."
    )
    mapped_file_size_consume_queue: int = option(
        6000000, help="Length of a ConsumeQueue file in bytes, rounded up to whole 20-byte entries."
    )
    max_hash_slot_num: int = option(
        5000000, help="Hash slots of an IndexFile. Not stored in the files: do not change it for an existing store."
    )
    max_index_num: int = option(
        20000000, help="Entries of an IndexFile. Not stored in the files: do not change it for an existing store."
    )

    # -- messages
    max_message_size: int = option(
        4194304, help="Maximum size of the body of a message or a batch, in bytes.", changeable=True
    )
    message_index_enable: bool = option(True, help="Whether to build IndexFiles, which queries by key need.")
    message_delay_level: str = option(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", help="Delays of levels 1, 2, 3 and so on."
    )
    flush_delay_offset_interval: int = option(10000, help="Interval at which delayOffset.json is written, in ms.")
    enable_consume_queue_ext: bool = option(False, help="Whether to keep extended ConsumeQueues with filter bitmaps.")
    mapped_file_size_consume_queue_ext: int = option(50331648, help="Length of an extended ConsumeQueue file in bytes.")
    bit_map_length_consume_queue_ext: int = option(
        112, help="Bits of a filter bitmap; the broker computes the number from maxErrorRateOfBloomFilter."
    )
    enable_lmq: bool = option(False, help="Whether to support light message queues: topics that begin with %LMQ%.")
    enable_multi_dispatch: bool = option(
        False, help="Whether to also dispatch a message to the additional queues that it names."
    )

    # -- reading
    max_transfer_bytes_on_message_in_memory: int = option(
        262144, help="Maximum bytes of a pull from recent messages.", changeable=True
    )
    max_transfer_count_on_message_in_memory: int = option(
        32, help="Maximum messages of a pull from recent messages.", changeable=True
    )
    max_transfer_bytes_on_message_in_disk: int = option(
        65536, help="Maximum bytes of a pull from older messages.", changeable=True
    )
    max_transfer_count_on_message_in_disk: int = option(
        8, help="Maximum messages of a pull from older messages.", changeable=True
    )
    access_message_in_memory_max_ratio: int = option(
        40,
        help="Messages are recent if they are within this percentage of the machine's memory from the end of the log.",
        changeable=True,
    )
    max_msgs_num_batch: int = option(64, help="Maximum messages that a query by key returns.", changeable=True)
    default_query_max_num: int = option(
        32, help="Maximum messages that a query by unique key returns.", changeable=True
    )

    # -- flush
    flush_disk_type: str = option(
        ASYNC_FLUSH, help="ASYNC_FLUSH, or SYNC_FLUSH to acknowledge messages only when they are on disk."
    )
    flush_interval_commit_log: int = option(500, help="ASYNC_FLUSH: interval between checks, in ms.", changeable=True)
    flush_commit_log_timed: bool = option(
        True,
        help="ASYNC_FLUSH: check only every flushIntervalCommitLog ms (true), or also when messages arrive (false).",
        changeable=True,
    )
    flush_commit_log_least_pages: int = option(
        4, help="ASYNC_FLUSH: number of unsynced pages that triggers a sync.", changeable=True
    )
    flush_commit_log_thorough_interval: int = option(
        10000, help="ASYNC_FLUSH: interval at which any unsynced data is synced, in ms.", changeable=True
    )
    sync_flush_timeout: int = option(5000, help="SYNC_FLUSH: maximum wait for the disk, in ms.", changeable=True)
    flush_interval_consume_queue: int = option(
        1000, help="Interval between checks whether ConsumeQueues need a sync, in ms.", changeable=True
    )
    flush_consume_queue_least_pages: int = option(
        2, help="Number of unsynced pages that triggers a sync of a ConsumeQueue.", changeable=True
    )
    flush_consume_queue_thorough_interval: int = option(
        60000,
        help="Interval at which all ConsumeQueues are synced and the checkpoint is written, in ms.",
        changeable=True,
    )

    # -- cleaning
    clean_resource_interval: int = option(
        10000, help="Interval between searches for expired files, in ms.", changeable=True
    )
    delete_when: str = option(
        "04", help="Hours of the day at which expired files are deleted, separated by semicolons.", changeable=True
    )
    file_reserved_time: int = option(72, help="Retention time of CommitLog files, in hours.", changeable=True)
    delete_commit_log_files_interval: int = option(
        100, help="Pause between two deletions of CommitLog files, in ms.", changeable=True
    )
    disk_max_used_space_ratio: int = option(
        75,
        help="Disk usage in per cent above which expired files are deleted at any hour (10 to 95).",
        changeable=True,
    )
    clean_file_forcibly_enable: bool = option(
        True,
        help="Whether to delete the oldest files before their retention time expires when the disk is nearly full.",
        changeable=True,
    )

    when_disk_full: str = option(
        DELETE_OLDEST,
        help="What to do when the disk is nearly full: delete-oldest deletes the oldest files before their retention time expires, "
        "as RocketMQ does; reject keeps them, and refuses sends while more than 90 % of the disk is used.",
        changeable=True,
    )

    # -- recovery
    check_crc_on_recover: bool = option(
        True, key="checkCRCOnRecover", help="Whether recovery checks the CRC of bodies."
    )

    # -- replication
    broker_role: str = option(ASYNC_MASTER, help="ASYNC_MASTER, SYNC_MASTER or SLAVE.")
    ha_master_address: str = option(
        "", help="host:port of the master's HA listener; without it, a slave does not replicate."
    )
    ha_tls_enable: bool = option(
        False,
        help="Whether replication uses TLS: a slave connects with TLS, and a master refuses slaves without it. RocketMQ does not support this.",
    )
    ha_send_heartbeat_interval: int = option(5000, help="Interval of heartbeats on an idle HA connection, in ms.")
    ha_housekeeping_interval: int = option(20000, help="Time after which a silent HA connection is closed, in ms.")
    ha_transfer_batch_size: int = option(32768, help="Maximum size of an HA frame in bytes.")
    ha_slave_fallbehind_max: int = option(
        268435456,
        help="SYNC_MASTER: a slave further behind than this counts as unavailable, in bytes.",
        changeable=True,
    )
    slave_timeout: int = option(3000, help="SYNC_MASTER: maximum wait for a slave, in ms.", changeable=True)
    offset_check_in_slave: bool = option(
        False, help="Whether a slave corrects offsets out of range, as a master does.", changeable=True
    )

    @property
    def corrects_offsets(self) -> bool:
        """Whether a pull outside its queue gets a corrected offset. # compat: a slave, which may lag, leaves it as it is by default."""
        return self.broker_role != SLAVE or self.offset_check_in_slave

    @property
    def is_sync_flush(self) -> bool:
        """Whether acknowledgements wait for the disk."""
        return self.flush_disk_type == SYNC_FLUSH

    @property
    def consume_queue_file_size(self) -> int:
        """The actual length of ConsumeQueue files: whole entries (store spec, 1.2)."""
        return -(-self.mapped_file_size_consume_queue // ENTRY_SIZE) * ENTRY_SIZE

    @property
    def may_delete_unexpired(self) -> bool:
        """Whether files may be deleted before their retention time expires when the disk is nearly full."""
        return self.clean_file_forcibly_enable and self.when_disk_full == DELETE_OLDEST

    @property
    def effective_max_message_size(self) -> int:
        """`maxMessageSize`, which counts from 10 on (store spec, 2.4)."""
        return max(self.max_message_size, SMALLEST_MESSAGE_LIMIT)

    @property
    def disk_max_used_ratio(self) -> float:
        """`diskMaxUsedSpaceRatio` as a share, clamped as RocketMQ does."""
        return min(max(self.disk_max_used_space_ratio, 10), 95) / 100

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the local day in `deleteWhen`. Raises BadStoreConfig."""
        try:
            hours = frozenset(int(hour) for hour in self.delete_when.split(";") if hour.strip())
        except ValueError:
            hours = frozenset({-1})
        if not hours <= set(range(24)):
            raise BadStoreConfig(f"deleteWhen={self.delete_when}: expected hours from 00 to 23, separated by `;`")
        return hours

    def paths(self) -> StorePaths:
        """The paths of this store's files. Raises BadStoreConfig."""
        if PATH_SPLITTER in self.store_path_commit_log:
            raise BadStoreConfig(
                f"storePathCommitLog={self.store_path_commit_log}: a CommitLog spread over several directories is not supported"
            )
        log = Path(self.store_path_commit_log).expanduser() if self.store_path_commit_log else None
        return StorePaths(Path(self.store_path_root_dir).expanduser(), log)

    def check(self) -> None:
        """Raises BadStoreConfig, in one line, for invalid settings."""
        choices = {
            "flushDiskType": (self.flush_disk_type, (ASYNC_FLUSH, SYNC_FLUSH)),
            "brokerRole": (self.broker_role, (ASYNC_MASTER, SYNC_MASTER, SLAVE)),
            "whenDiskFull": (self.when_disk_full, (DELETE_OLDEST, REJECT)),
        }
        for key, (value, allowed) in choices.items():
            if value not in allowed:
                raise BadStoreConfig(f"{key}={value}: expected {', '.join(allowed[:-1])} or {allowed[-1]}")
        largest_record = self.effective_max_message_size + RECORD_MARGIN
        if self.mapped_file_size_commit_log < largest_record + BLANK_MIN_SIZE:
            # compat: RocketMQ would acknowledge a message that fits in no file, and drop it.
            raise BadStoreConfig(
                f"mappedFileSizeCommitLog={self.mapped_file_size_commit_log}: expected at least "
                f"{largest_record + BLANK_MIN_SIZE}, so that a record of maxMessageSize fits into one file"
            )
        for key, size in (
            ("mappedFileSizeConsumeQueue", self.mapped_file_size_consume_queue),
            ("maxHashSlotNum", self.max_hash_slot_num),
            ("maxIndexNum", self.max_index_num),
        ):
            if size <= 0:
                raise BadStoreConfig(f"{key}={size}: expected a number above 0")
        if not 0 < self.ha_transfer_batch_size <= MAX_FRAME_SIZE:
            raise BadStoreConfig(f"haTransferBatchSize={self.ha_transfer_batch_size}: expected 1 to {MAX_FRAME_SIZE}")
        _ = self.delete_hours


_NO_POOL: Final = "there is no Java heap to keep messages out of"
_NO_DLEDGER: Final = "DLedger is not supported"
_NO_LOCK_CHOICE: Final = "only one process appends, so no lock is needed"
_NO_PAUSE: Final = "files are deleted at once; processes that still read them keep their mapping"
_POPULATED: Final = "pages of the log are always prefaulted ahead of the writer"
_ONE_LOOP: Final = "delayed messages are delivered one after another by the broker's event loop"
_STATISTICS: Final = "statistics of single queues are not recorded"

ACCEPTED_UNUSED: Final[dict[str, str]] = {
    "messageIndexSafe": "after a crash, the log is always read from the last offset with complete indexes",
    "haListenPort": "the HA port is always listenPort + 1, as in RocketMQ",
    "duplicationEnable": "a log has one writer",
    "readOnlyCommitLogStorePaths": "a CommitLog must be in a single directory",
    "osPageCacheBusyTimeOutMills": "an append waits neither for a lock nor for pages",
    "deleteConsumeQueueFilesInterval": "ConsumeQueue files are deleted one at a time, when no record is waiting",
    "maxLmqConsumeQueueNum": "queueTableCapacity limits the number of all queues, including light ones",
    "diskFallRecorded": _STATISTICS,
    "enableScheduleMessageStats": _STATISTICS,
    **dict.fromkeys(
        (
            "transientStorePoolEnable", "transientStorePoolSize", "fastFailIfNoBufferInStorePool",
            "commitIntervalCommitLog", "commitCommitLogLeastPages", "commitCommitLogThoroughInterval",
        ),
        _NO_POOL,
    ),
    **dict.fromkeys(
        (
            "enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId", "preferredLeaderId",
            "isEnableBatchPush", "enableBatchPush", "storePathDLedgerCommitLog",
        ),
        _NO_DLEDGER,
    ),
    **dict.fromkeys(("destroyMapedFileIntervalForcibly", "redeleteHangedFileInterval"), _NO_PAUSE),
    **dict.fromkeys(("warmMapedFileEnable", "flushLeastPagesWhenWarmMapedFile"), _POPULATED),
    **dict.fromkeys(
        (
            "enableScheduleAsyncDeliver", "scheduleAsyncDeliverMaxPendingLimit",
            "scheduleAsyncDeliverMaxResendNum2Blocked",
        ),
        _ONE_LOOP,
    ),
    **dict.fromkeys(("useReentrantLockWhenPutMessage", "debugLockEnable", "putMsgIndexHightWater"), _NO_LOCK_CHOICE),
}  # fmt: skip
"""Keys of RocketMQ's store without effect here, with the reason. They cause warnings, not errors."""
