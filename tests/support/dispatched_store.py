"""A store whose log is written by hand and dispatched in this process, or in a child that is killed at a kill point."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.model.option import from_mapping, keys_of
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import encode_blank, encode_record
from ipc.instance import Instance
from ipc.publish.housekeeper import HousekeeperPublisher
from ipc.publish.log import LogPublisher
from ipc.publish.recover import RecoverPublisher
from store import fault_point
from store.commit_log.scanner import find_end
from store.config import SLAVE, StoreConfig
from store.dispatch.dispatcher import COUNTERS, Dispatcher
from store.dispatch.unusual_entries import BitMap, no_bit_map
from store.mapped_file import reserve_file
from store.mapped_file_queue import MappedFileQueue
from store.paths import StorePaths, file_name

SMALL = StoreConfig(
    mapped_file_size_commit_log=65536,
    mapped_file_size_consume_queue=1000,
    max_hash_slot_num=13,
    max_index_num=40,
    max_message_size=1024,
)
FIRST_TIMESTAMP = 1_700_000_000_000


def config_of(head: dict[str, Any]) -> StoreConfig:
    """The configuration in a golden store's first line."""
    settings = {key: str(value) for key, value in head["settings"].items()}
    return from_mapping(StoreConfig, {key: value for key, value in settings.items() if key in keys_of(StoreConfig)})


@dataclass
class HandWrittenLog:
    """Appends records to CommitLog files, with blanks at file ends, and counts queue offsets like a broker."""

    paths: StorePaths
    config: StoreConfig
    end: int = 0
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def append(
        self, topic: str = "Topic", queue_id: int = 0, queue_offset: int | None = None, sys_flag: int = 0, **fields: Any
    ) -> int:
        """Appends a record and returns its physical offset. Further fields are those of `encode_record`."""
        if queue_offset is None:
            queue_offset = self.next_offsets.get((topic, queue_id), 0)
        if sys_flag & 0xC in (0, 8):
            self.next_offsets[topic, queue_id] = queue_offset + 1
        fields = {"body": b"body", "store_timestamp": FIRST_TIMESTAMP + self.end, **fields}
        given = {"topic": topic, "queue_id": queue_id, "queue_offset": queue_offset, "sys_flag": sys_flag, **fields}
        size = self.config.mapped_file_size_commit_log
        left = size - self.end % size
        if len(encode_record(**given)) + 8 > left:
            self.write(encode_blank(left))
            self.end += left - 8
        record = encode_record(**given, physical_offset=self.end)
        return self.write(record)

    def write(self, data: bytes) -> int:
        """Appends raw bytes and returns their offset."""
        size = self.config.mapped_file_size_commit_log
        start, at = self.end - self.end % size, self.end
        path = self.paths.commit_log / file_name(start)
        if not path.exists():
            reserve_file(path, size)  # whole at once: others may be reading the folder
        with path.open("r+b") as file:
            file.seek(at - start)
            file.write(data)
        self.end += len(data)
        return at


class DispatchedStore:
    """Shared memory over a store's files; dispatch can be run any number of times."""

    def __init__(self, paths: StorePaths, config: StoreConfig, bit_map: BitMap = no_bit_map) -> None:
        self.paths = paths
        self.config = config
        self.bit_map = bit_map
        self.instance = Instance.create(paths.root, queue_table_capacity=256)
        self.control = self.instance.control

    def recovered(self, wrote_offset: int, reput_offset: int = 0, min_offset: int = 0) -> None:
        """What `recover` would publish."""
        RecoverPublisher(self.control).first_values(
            min_offset=min_offset, wrote_offset=wrote_offset, allocated_offset=wrote_offset, reput_offset=reput_offset
        )

    def wrote(self, physical_offset: int) -> None:
        """What the log's writer would publish."""
        LogPublisher(self.control).wrote(physical_offset, FIRST_TIMESTAMP)

    def min_offset(self, physical_offset: int) -> None:
        """What the housekeeper would publish."""
        HousekeeperPublisher(self.control).min_offset(physical_offset)

    def open(self) -> Dispatcher:
        """A dispatcher in its state after a start."""
        reput = Dispatcher(
            self.instance,
            self.instance.counters("dispatch", COUNTERS),
            self.config,
            self.paths,
            self.bit_map,
            is_log_copied=self.config.broker_role == SLAVE,
        )
        reput.open()
        return reput

    def dispatch(self) -> None:
        """Starts dispatch, lets it catch up, and stops it."""
        reput = self.open()
        while reput.try_batch():
            pass
        assert reput.failure is None, reput.failure
        reput.close()

    def killed_at(self, place: str) -> bool:
        """Runs dispatch in a child that kills itself at a kill point (`name`, `name:n`); False if not reached."""
        child = os.fork()
        if child == 0:
            os.environ[fault_point.ENVIRONMENT] = place
            fault_point.arm(place)
            try:
                self.dispatch()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def counted(self, name: str) -> int:
        """One of dispatch's counters."""
        return self.instance.read_counters()["dispatch"][name]

    def close(self) -> None:
        """Removes the shared memory."""
        self.instance.unlink()
        self.instance.close()


@contextmanager
def dispatched_store(
    root: Path, config: StoreConfig = SMALL, bit_map: BitMap = no_bit_map
) -> Iterator[DispatchedStore]:
    """A store at `root` with its directories; its shared memory is removed at the end."""
    paths = StorePaths(root)
    paths.make_directories()
    store = DispatchedStore(paths, config, bit_map)
    try:
        yield store
    finally:
        store.close()


def built_files(root: Path) -> dict[str, bytes]:
    """The files that dispatch builds; index files by number, because their names are times."""
    built = {
        str(path.relative_to(root)): path.read_bytes()
        for kind in ("consumequeue", "consumequeue_ext")
        for path in sorted((root / kind).rglob("*"))
        if path.is_file()
    }
    index = enumerate(sorted((root / "index").iterdir()))
    return built | {f"index/{number}": path.read_bytes() for number, path in index}


def build(root: Path, config: StoreConfig, bit_map: BitMap = no_bit_map) -> dict[str, bytes]:
    """Dispatches the whole log at `root` and returns the files built."""
    with dispatched_store(root, config, bit_map) as store:
        files = MappedFileQueue(store.paths.commit_log, config.mapped_file_size_commit_log)
        files.refresh()
        store.recovered(find_end(files, files.first_offset, check_crc=True).offset, files.first_offset)
        store.dispatch()
    return built_files(root)


def entries_of(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The entries of a ConsumeQueue file up to the first empty one."""
    for at in range(0, len(data), ENTRY_SIZE):
        entry = ENTRY.unpack_from(data, at)
        if entry[1] <= 0:
            return
        yield entry
