"""The rows of the queue table that recovery fills, and what dispatch does with them at its start."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipc.instance import Instance
from store.checkpoint import Checkpoint, write_checkpoint
from store.consume_queue.writer import ConsumeQueueWriter
from store.mapped_file import path_of
from store.recovery import daemon
from support.store_files import (
    LOG_FILE_SIZE,
    QUEUE_FILE_SIZE,
    LogBuilder,
    RunningRole,
    small_config,
)

Rows = dict[tuple[bytes, int], tuple[int, int, int]]


@pytest.fixture
def builder(tmp_path: Path) -> LogBuilder:
    """Eight hundred records of four queues in four files, all dispatched, after a clean stop."""
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(800)
    builder.write_queues()
    last = builder.written[-1].store_timestamp
    write_checkpoint(builder.paths.checkpoint, Checkpoint(last, last, 0))
    return builder


@contextmanager
def recovered_instance(builder: LogBuilder, capacity: int = 64) -> Iterator[Instance]:
    """The shared memory of the store after its recovery."""
    instance = Instance.create(builder.paths.root, queue_table_capacity=capacity)
    instance.bells["recover"] = instance.bells["flush"]  # nobody rings it; a context wants one here
    try:
        role = RunningRole(instance, "recover", lambda context: daemon.run(context, builder.config, builder.paths))
        role.end()
        role.close()
        assert role.error is None
        yield instance
    finally:
        del instance.bells["recover"]
        instance.unlink()
        instance.close()


def rows_of(instance: Instance) -> Rows:
    return {(topic, queue_id): tuple(bounds) for _, topic, queue_id, *bounds in instance.queue_table().rows()}  # type: ignore[misc]


def opened(builder: LogBuilder, instance: Instance) -> ConsumeQueueWriter:
    """The queues, as dispatch opens them."""
    queues = ConsumeQueueWriter(builder.paths, builder.config, instance.queue_table_writer())
    queues.load(instance.control.reput_offset, instance.control.min_offset)
    return queues


def state(queues: ConsumeQueueWriter) -> dict[tuple[bytes, int], tuple[int, int, int, int]]:
    return {
        (one.topic, one.queue_id): (one.first_start, one.min_position, one.position, one.max_physical_offset)
        for one in queues.queues()
    }


def _clean(_: LogBuilder) -> None:
    pass


def _killed(builder: LogBuilder) -> None:
    builder.paths.abort.touch()
    write_checkpoint(builder.paths.checkpoint, Checkpoint(0, 0, 0))


def _killed_with_a_checkpoint(builder: LogBuilder) -> None:
    builder.paths.abort.touch()
    at = builder.written[500].store_timestamp
    write_checkpoint(builder.paths.checkpoint, Checkpoint(at, at, 0))


def _first_log_files_expired(builder: LogBuilder) -> None:
    for start in (0, LOG_FILE_SIZE):
        path_of(builder.paths.commit_log, start).unlink()


def _killed_without_first_log_files(builder: LogBuilder) -> None:
    _first_log_files_expired(builder)
    _killed(builder)


def _log_cut(builder: LogBuilder) -> None:
    """The last records are damaged: their entries are truncated."""
    record = builder.written[790]
    with path_of(builder.paths.commit_log, record.physical_offset - record.physical_offset % LOG_FILE_SIZE).open(
        "r+b"
    ) as file:
        file.seek(record.physical_offset % LOG_FILE_SIZE + 90)
        file.write(b"X")


def _entries_missing(builder: LogBuilder) -> None:
    for path in builder.paths.queue("U", 1).iterdir():
        path.unlink()


def _one_entry_beyond(builder: LogBuilder) -> None:
    """A queue whose only record is dispatched again."""
    builder.append("New", 3)
    builder.write_queues()
    _killed_with_a_checkpoint(builder)


@pytest.mark.parametrize(
    "happen",
    [
        _clean,
        _killed,
        _killed_with_a_checkpoint,
        _first_log_files_expired,
        _killed_without_first_log_files,
        _log_cut,
        _entries_missing,
        _one_entry_beyond,
    ],
)
def test_recovery_fills_the_rows_that_the_files_contain(
    builder: LogBuilder, happen: Callable[[LogBuilder], None]
) -> None:
    happen(builder)
    with recovered_instance(builder) as instance:
        assert instance.queue_table_writer().is_recovered
        with_rows = opened(builder, instance)
        found = state(with_rows), rows_of(instance)
        assert not instance.queue_table_writer().is_recovered
    assert found[0], "no queue is left to compare"
    with recovered_instance(builder) as instance:
        table = instance.queue_table_writer()
        for row in table.rows().values():
            table.free(row)
        assert (state(opened(builder, instance)), rows_of(instance)) == found


def test_rows_of_a_killed_recovery_are_replaced(builder: LogBuilder) -> None:
    with recovered_instance(builder) as instance:
        expected = rows_of(instance)
        table = instance.queue_table_writer()
        table.add(b"Gone", 0)
        table.update(table.find(b"T", 0), 5, 6, 7)
        instance.bells["recover"] = instance.bells["flush"]
        role = RunningRole(instance, "recover", lambda context: daemon.run(context, builder.config, builder.paths))
        role.end()
        role.close()
        assert rows_of(instance) == expected


def test_queues_beyond_the_capacity_of_the_table_are_opened_by_dispatch(builder: LogBuilder) -> None:
    with recovered_instance(builder, capacity=3) as instance:
        assert len(rows_of(instance)) == 3
        queues = opened(builder, instance)
        assert queues.is_table_full
        assert len(state(queues)) == 4


def test_restarted_dispatch_looks_at_the_files_again(builder: LogBuilder) -> None:
    """A killed one may have created files for entries that were never visible."""
    with recovered_instance(builder) as instance:
        before = state(opened(builder, instance))
        beyond = path_of(builder.paths.queue("T", 0), -(-before[b"T", 0][2] // QUEUE_FILE_SIZE) * QUEUE_FILE_SIZE)
        beyond.write_bytes(bytes(QUEUE_FILE_SIZE))
        assert state(opened(builder, instance)) == before
        assert not beyond.exists()


def test_dispatch_killed_while_it_opens_queues_deletes_none(builder: LogBuilder) -> None:
    """It had added a row, and not yet published the queue's bounds."""
    with recovered_instance(builder) as instance:
        expected = rows_of(instance)
        table = instance.queue_table_writer()
        table.free(table.find(b"T", 1))
        table.add(b"T", 1)
        opened(builder, instance)
        assert rows_of(instance) == expected


def test_queue_under_another_name_is_not_continued(builder: LogBuilder) -> None:
    builder.paths.queue("T", 0).rename(builder.paths.consume_queue / "T" / "00")
    with recovered_instance(builder) as instance:
        assert (b"T", 0) not in state(opened(builder, instance))


def test_dispatch_opens_no_file_of_a_recovered_queue(builder: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, because a store may have 50,000 queues: one listing for each topic, and nothing for each queue."""
    with recovered_instance(builder) as instance:
        listed: list[str] = []
        scandir = os.scandir

        def listing(path: "str | os.PathLike[str]") -> "Iterator[os.DirEntry[str]]":
            listed.append(os.fspath(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", listing)
        for name in ("open", "stat", "listdir"):
            monkeypatch.setattr(os, name, lambda *_, **__: pytest.fail("a file was touched"))
        opened(builder, instance)
        monkeypatch.undo()
        root = os.fspath(builder.paths.consume_queue)
        assert listed == [root, f"{root}/T", f"{root}/U"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_recovery_opens_each_short_queue_at_most_once_for_each_pass(
    tmp_path: Path, is_clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean stop: one listing, one open, one read. After a crash each queue is read a second time, and truncated if necessary."""
    builder = LogBuilder(small_config(tmp_path))
    builder.append_many(40, queues=10)
    builder.write_queues()
    last = builder.written[-1].store_timestamp
    write_checkpoint(builder.paths.checkpoint, Checkpoint(last, last, 0))
    if not is_clean:
        builder.paths.abort.touch()
    counts = dict.fromkeys(("open", "pread", "scandir", "stat"), 0)

    def count(name: str) -> None:
        call = getattr(os, name)

        def counting(*args: object, **more: object) -> object:
            if "consumequeue/" in str(args[0]) or name == "pread":
                counts[name] += 1
            return call(*args, **more)

        monkeypatch.setattr(os, name, counting)

    with recovered_instance(builder):
        pass  # the first one may have to repair something
    if not is_clean:
        builder.paths.abort.touch()
    for name in counts:
        count(name)
    with recovered_instance(builder):
        monkeypatch.undo()
    queues, topics = 20, 2
    passes = 1 if is_clean else 2
    assert counts["open"] <= queues * (passes + (not is_clean)) + 1
    assert counts["pread"] <= queues * (passes + (not is_clean)) + 4
    assert counts["scandir"] == queues + topics
    assert counts["stat"] <= queues + topics
