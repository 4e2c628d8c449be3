"""Stores for tests: small settings, logs of real records, matching ConsumeQueues, and the environment of a role."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.record import encode_blank, encode_record
from headrace.protocol.record_layout import END_FILE_MIN_BLANK_LENGTH
from ipc.instance import Instance
from ipc.publish.broker import BrokerPublisher
from ipc.publish.recover import RecoverPublisher
from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.mapped_file import path_of, reserve_file
from store.paths import StorePaths

LOG_FILE_SIZE = 1 << 17
QUEUE_FILE_SIZE = 50 * ENTRY_SIZE
FIRST_TIMESTAMP = 1_700_000_000_000


def small_config(root: Path, **changes: Any) -> StoreConfig:
    """Settings with files so small that a few hundred messages fill several."""
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE,
        max_message_size=4096,
        max_hash_slot_num=10,
        max_index_num=20,
    )
    return replace(config, **changes)


@dataclass(frozen=True)
class Written:
    """A record in the log."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size_bytes: int
    store_timestamp: int


class LogBuilder:
    """Writes a log and its queues as a broker would. Store timestamps are a second apart."""

    def __init__(self, config: StoreConfig, first_offset: int = 0) -> None:
        self.config = config
        self.paths = config.paths()
        self.paths.make_directories()
        self.offset = first_offset
        self.written: list[Written] = []
        self._next: dict[tuple[str, int], int] = defaultdict(int)
        if not first_offset % self._file_size:
            self._reserve(first_offset)

    @property
    def _file_size(self) -> int:
        return self.config.mapped_file_size_commit_log

    def append(
        self, topic: str = "T", queue_id: int = 0, body: bytes = b"body" * 100, sys_flag: int = 0, **fields: Any
    ) -> Written:
        """Appends one record, after a blank if it does not fit its file."""
        timestamp = FIRST_TIMESTAMP + 1000 * len(self.written)
        queue_offset = self._next[topic, queue_id]

        def encoded() -> bytes:
            return encode_record(
                topic=topic,
                body=body,
                queue_id=queue_id,
                queue_offset=queue_offset,
                physical_offset=self.offset,
                sys_flag=sys_flag,
                store_timestamp=timestamp,
                **fields,
            )

        room = self._file_size - self.offset % self._file_size
        if len(encoded()) + END_FILE_MIN_BLANK_LENGTH > room:
            self.write(encode_blank(room)[:END_FILE_MIN_BLANK_LENGTH])
            self.offset += room - END_FILE_MIN_BLANK_LENGTH
        record = Written(topic, queue_id, queue_offset, self.offset, len(encoded()), timestamp)
        self.write(encoded())
        self.written.append(record)
        if sys_flag & 12 in (0, 8):
            self._next[topic, queue_id] += 1
        return record

    def append_many(self, count: int, topics: tuple[str, ...] = ("T", "U"), queues: int = 2) -> None:
        """Appends records of several queues in turn."""
        for number in range(count):
            self.append(topics[number % len(topics)], number // len(topics) % queues)

    def write(self, data: bytes) -> None:
        """Writes raw bytes at the end of the log."""
        start = self.offset - self.offset % self._file_size
        if start == self.offset:
            self._reserve(start)
        with path_of(self.paths.commit_log, start).open("r+b") as file:
            file.seek(self.offset - start)
            file.write(data)
        self.offset += len(data)

    def _reserve(self, start: int) -> None:
        reserve_file(path_of(self.paths.commit_log, start), self._file_size)

    def write_queues(self, keep: Callable[[Written], bool] = lambda _: True) -> None:
        """Writes the entries of those records that have one and for which `keep` is true."""
        for record in self.written:
            if keep(record):
                put_entry(self.paths, record)


def put_entry(paths: StorePaths, record: Written, tags_code: int = 0) -> None:
    """Writes one ConsumeQueue entry."""
    directory = paths.queue(record.topic, record.queue_id)
    directory.mkdir(parents=True, exist_ok=True)
    position = record.queue_offset * ENTRY_SIZE
    path = path_of(directory, position - position % QUEUE_FILE_SIZE)
    if not path.exists():
        path.write_bytes(bytes(QUEUE_FILE_SIZE))
    with path.open("r+b") as file:
        file.seek(position % QUEUE_FILE_SIZE)
        file.write(ENTRY.pack(record.physical_offset, record.size_bytes, tags_code))


def entries_of(paths: StorePaths, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    """The entries of a queue up to the first empty one."""
    data = b"".join(path.read_bytes() for path in sorted(paths.queue(topic, queue_id).glob("*")))
    entries = []
    for entry in ENTRY.iter_unpack(data):
        if entry[1] <= 0:
            break
        entries.append(entry)
    return entries


class RunningRole:
    """A role's function in a thread of this process, with a context like that of a supervised child."""

    def __init__(self, instance: Instance, name: str, work: Callable[[RoleContext], None]) -> None:
        self._stop_fd, self._write_fd = os.pipe()
        self.context = RoleContext(name, instance, instance.bells[name], self._stop_fd)
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops it as SIGTERM does, waits for the end, and raises what the role raised."""
        self.end()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """Stops it and keeps what it raised in `error`."""
        if self._thread.is_alive():
            os.write(self._write_fd, b"x")
            self._thread.join(30)
        assert not self._thread.is_alive(), "the role did not stop"

    def close(self) -> None:
        """Stops it if needed and closes the pipe."""
        self.end()
        os.close(self._stop_fd)
        os.close(self._write_fd)

    def _run(self) -> None:
        try:
            self._work(self.context)
        except BaseException as error:  # noqa: BLE001  (handed to the test's thread)
            self.error = error


@contextmanager
def running_instance(root: Path, **first_values: int) -> Iterator[Instance]:
    """The shared objects of a store, with each cell's initial value as published by recovery."""
    instance = Instance.create(root, queue_table_capacity=64)
    try:
        values = {"min_offset": 0, "wrote_offset": 0, "allocated_offset": 0, "reput_offset": 0, **first_values}
        RecoverPublisher(instance.control).first_values(**values)
        yield instance
    finally:
        instance.unlink()
        instance.close()


def change_options(instance: Instance, **texts: str) -> None:
    """Changes options by key, as the broker does on an operator's request."""
    instance.changed_options_writer().store(texts)
    BrokerPublisher(instance.control).config_version()
    for bell in instance.bells.values():
        bell.ring()


def eventually(condition: Callable[[], object], within_s: float = 60) -> None:
    """Waits for a condition that another thread or process fulfils."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.001)
