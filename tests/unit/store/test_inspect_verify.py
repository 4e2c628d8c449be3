"""Verify: RocketMQ's stores are whole, each damage to one is seen, and a running store is not found wanting."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from headrace.model.message import MessageExt
from headrace.protocol.consume_queue_layout import ENTRY, EXT_ADDRESS_BASE
from ipc.instance import Instance
from ipc.publish.flush import FlushPublisher
from store.index.layout import entry_position, slot_position
from store.inspect import files
from store.inspect.agreement import Agreement
from store.inspect.dump import dump_all
from store.inspect.key_entries import KeyEntries
from store.inspect.log import InspectedLog
from store.inspect.queue_check import QueueCheck
from store.inspect.verify import Finding, Progress, verify
from store.paths import file_name
from support import golden
from support.appliance import HEADRACE
from support.dispatched_store import SMALL, DispatchedStore, HandWrittenLog, dispatched_store

SLOTS, ENTRIES = SMALL.max_hash_slot_num, SMALL.max_index_num
NOT_VISIBLE = {
    "unclean-no-index": "a store may have no index",
    "unclean-old-checkpoint": "an old checkpoint only makes recovery longer",
}


def findings(root: Path, slots: int = SLOTS, entries: int = ENTRIES) -> list[Finding]:
    return [found for found in verify(root, slots, entries) if isinstance(found, Finding)]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.stores())
def test_stores_written_by_rocketmq_are_intact(name: str, tmp_path: Path) -> None:
    assert findings(golden.unpack(name, tmp_path), 100, 500) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.variants())
def test_damage_to_a_store_is_detected(name: str, tmp_path: Path) -> None:
    found = findings(golden.unpack(name, tmp_path), 100, 500)
    assert bool(found) == (name not in NOT_VISIBLE)
    assert all(str(finding) for finding in found)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A stopped store of ours."""
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for number in range(230):
            log.append(queue_id=number % 2, properties=f"KEYS\x01key-{number}\x02TAGS\x01TagA", body=bytes(700))
        store.recovered(log.end)
        store.dispatch()
        store.paths.checkpoint.write_bytes(bytes(4096))
    return tmp_path


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def queue_file(root: Path, number: int = 0) -> Path:
    return root / "consumequeue" / "Topic" / "0" / file_name(number * SMALL.consume_queue_file_size)


def index_file(root: Path, number: int = 0) -> Path:
    return sorted((root / "index").iterdir())[number]


def test_stores_written_by_us_are_intact_and_progress_is_reported(whole: Path) -> None:
    said = list(verify(whole, SLOTS, ENTRIES))
    assert [found for found in said if isinstance(found, Finding)] == []
    done = [step for step in said if isinstance(step, Progress)]
    assert {step.part for step in done} == {"commitlog", "consumequeue", "index"}
    assert all(step.done_bytes <= step.total_bytes for step in done)


@pytest.mark.parametrize(
    ("part", "what", "damage"),
    [
        ("commitlog", "CRC", lambda root: patch(root / "commitlog" / file_name(0), 100, b"x")),
        ("commitlog", "neither a record nor zeros", lambda root: patch(root / "commitlog" / file_name(2 * 65536), 65000, b"xx")),
        ("commitlog", "ends before it", lambda root: patch(root / "commitlog" / file_name(0), 4, b"xx")),
        ("commitlog", "missing", lambda root: (root / "commitlog" / file_name(65536)).unlink()),
        ("commitlog", "not a CommitLog file", lambda root: (root / "commitlog" / "notes.txt").write_text("mine")),
        ("consumequeue", "has size 9", lambda root: patch(queue_file(root), 8, (9).to_bytes(4, "big"))),
        ("consumequeue", "where no record", lambda root: patch(queue_file(root), 20, ENTRY.pack(1701, 842, 5))),
        ("consumequeue", "tags code", lambda root: patch(queue_file(root), 12, bytes(8))),
        ("consumequeue", "beyond the log's end", lambda root: patch(queue_file(root, 2), 15 * 20, ENTRY.pack(1 << 40, 9, 0))),
        ("consumequeue", "have no entry", lambda root: patch(queue_file(root, 1), 0, bytes(1000))),
        ("consumequeue", "is empty, but", lambda root: patch(queue_file(root), 100, bytes(20))),
        ("consumequeue", "points to", lambda root: patch(queue_file(root), 20, ENTRY.pack(0, 842, 2598919))),
        ("index", "does not have this key", lambda root: patch(index_file(root), entry_position(SLOTS, 3), (7).to_bytes(4, "big"))),
        ("index", "not indexed", lambda root: patch(index_file(root), entry_position(SLOTS, 3), (7).to_bytes(4, "big"))),
        ("index", "no record begins", lambda root: patch(index_file(root), entry_position(SLOTS, 3) + 4, bytes(7) + b"\1")),
        ("index", "a different timestamp", lambda root: patch(index_file(root), entry_position(SLOTS, 3) + 12, b"\1")),
        ("index", "slot", lambda root: patch(index_file(root), slot_position(3), (1).to_bytes(4, "big"))),
        ("index", "chain", lambda root: patch(index_file(root), entry_position(SLOTS, 30) + 16, bytes(4))),
        ("index", "used slots", lambda root: patch(index_file(root), 32, bytes(4))),
        ("index", "begins with", lambda root: patch(index_file(root), 16, b"\1")),
        ("index", "ends with", lambda root: patch(index_file(root), 24, b"\1")),
        ("index", "bytes long", lambda root: (root / "index" / "20200101000000000").write_bytes(b"short")),
        ("checkpoint", "too late", lambda root: patch(root / "checkpoint", 0, b"\1")),
        ("checkpoint", "missing", lambda root: (root / "checkpoint").unlink()),
    ],
)  # fmt: skip
def test_single_damaged_byte_is_detected(whole: Path, part: str, what: str, damage: object) -> None:
    damage(whole)  # type: ignore[operator]
    found = findings(whole)
    assert any(finding.part == part and what in finding.what for finding in found), [str(finding) for finding in found]


def test_missing_oldest_queue_file_is_found(whole: Path) -> None:
    queue_file(whole).unlink()
    [found] = findings(whole)
    assert found.part == "consumequeue"
    assert "50 dispatched records have no entry, the first is at 0" in found.what


def test_missing_oldest_files_of_queue_and_log_are_not_a_finding(whole: Path) -> None:
    """That is how expired files are deleted."""
    queue_file(whole).unlink()
    (whole / "consumequeue" / "Topic" / "1" / file_name(0)).unlink()
    for number in (0, 1):
        (whole / "commitlog" / file_name(number * SMALL.mapped_file_size_commit_log)).unlink()
    shutil.rmtree(whole / "index")
    assert [found for found in findings(whole) if found.part == "consumequeue"] == []


def test_log_of_a_killed_store_may_be_ahead_of_its_queues(whole: Path) -> None:
    (whole / "abort").touch()
    for queue in ("0", "1"):
        path = whole / "consumequeue" / "Topic" / queue / file_name(2 * SMALL.consume_queue_file_size)
        patch(path, 10 * 20, bytes(5 * 20))
    for index in sorted((whole / "index").iterdir())[5:]:
        index.unlink()
    assert findings(whole) == []
    (whole / "abort").unlink()
    assert len(findings(whole)) == 2


def test_running_store_is_checked_up_to_its_published_offsets(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for _ in range(10):
            log.append(properties="KEYS\x01key")
        store.recovered(log.end)
        store.dispatch()
        for _ in range(5):
            log.append(properties="KEYS\x01key")
        assert findings(tmp_path) == []
        store.wrote(log.end)  # published, and not yet dispatched
        assert findings(tmp_path) == []


def test_topic_deleted_during_the_check_is_not_a_finding(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for _ in range(30):
            log.append()
        store.paths.config_file("topics.json").write_text('{"topicConfigTable":{"Topic":{}}}')
        store.recovered(log.end)
        store.dispatch()
        shutil.rmtree(store.paths.queue("Topic", 0))
        check = verify(tmp_path, SLOTS, ENTRIES)
        said = [next(check)]
        store.paths.config_file("deletedTopics.json").write_text(f'{{"deletedTopics":{{"Topic":{log.end}}}}}')
        said += check
        assert [found for found in said if isinstance(found, Finding)] == []


def test_unreadable_deletions_are_a_finding(whole: Path) -> None:
    (whole / "config" / "deletedTopics.json").write_text("{")
    [found] = findings(whole)
    assert "cannot read the list of deleted topics" in found.what


def test_published_offsets_out_of_order_are_detected(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        store.recovered(wrote_offset=100, reput_offset=200)
        assert [found.part for found in findings(tmp_path)][:1] == ["offsets"]


def test_store_is_intact_while_it_is_dispatched(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for number in range(300):
            log.append(queue_id=number % 3, properties=f"KEYS\x01key-{number}", body=bytes(600))
        store.recovered(log.end)
        assert isinstance(store, DispatchedStore)
        assert store.killed_at("reput.rows_published:2")
        assert findings(tmp_path) == []


def test_topic_deleted_and_made_again_during_the_check_has_no_finding(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for _ in range(100):
            log.append(body=bytes(600))
        store.recovered(log.end)
        store.dispatch()
        said = verify(tmp_path, SLOTS, ENTRIES)
        before = [next(said)]  # the files are listed
        deletion = {"deletedTopics": {"Topic": log.end}, "beingDeleted": {}}
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "deletedTopics.json").write_text(json.dumps(deletion))
        new = ENTRY.pack(log.end, 700, 0) * 3 + bytes(SMALL.consume_queue_file_size - 3 * ENTRY.size)
        for path in (tmp_path / "consumequeue" / "Topic" / "0").iterdir():
            path.unlink()
        queue_file(tmp_path).write_bytes(new)
        assert [str(found) for found in [*before, *said] if isinstance(found, Finding)] == []


def test_entries_deleted_while_their_records_are_read_are_not_missing(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for _ in range(250):
            log.append(body=bytes(600))
        store.recovered(log.end)
        store.dispatch()
        for path in (store.paths.commit_log / file_name(0), queue_file(tmp_path)):
            path.unlink()
        instance, seen = Instance.open(tmp_path), InspectedLog(tmp_path)
        check = QueueCheck(tmp_path, seen, instance.queue_table(), log.end)
        seen.open(log.end)
        found: list[Finding | Progress] = []
        for record in seen.read(Agreement({}, KeyEntries([], 1), -1, -1)):
            if isinstance(record, MessageExt):
                for path in (store.paths.commit_log / file_name(65536), queue_file(tmp_path, 1)):
                    path.unlink(missing_ok=True)  # as cleaning does, of which the log's file is open already
                found += check.see(record)
        found += check.finish()
        instance.close()
        assert [str(one) for one in found if isinstance(one, Finding)] == []


def test_batch_entry_without_a_record_is_detected(tmp_path: Path) -> None:
    root = golden.unpack("v5", tmp_path)
    path = next((root / "batchconsumequeue" / "BatchQueue" / "0").iterdir())
    patch(path, 4, b"\1")
    assert [found.what for found in findings(root, 100, 500) if "batches" in found.where]


def write_dispatch_and_delete_for_ever(store: DispatchedStore) -> None:
    """What the appliance does, in one process."""
    log = HandWrittenLog(store.paths, store.config)
    reput = store.open()
    number = 0
    while True:
        for _ in range(20):
            keys = f"KEYS\x01key-{number} all\x02TAGS\x01TagA"
            log.append(f"Topic{number % 3}", number % 5, properties=keys, body=bytes(number % 400))
            number += 1
        store.wrote(log.end)
        FlushPublisher(store.control).flushed(log.end, 0)
        while reput.try_batch():
            pass
        if number % 1000 == 0:
            first = max(0, log.end // 65536 - 3) * 65536
            store.min_offset(first)
            for path in store.paths.commit_log.iterdir():
                if int(path.name) < first:
                    path.unlink()
        while reput.cleaning.is_due:
            reput.cleaning.step()


def test_files_deleted_while_they_are_listed_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("0", "10", "20", "30"):
        (tmp_path / name).write_bytes(bytes(10))
    find_file = files.find_file

    def delete_second_after_first_was_found(path: Path) -> files.StoredFile | None:
        found = find_file(path)
        (tmp_path / "0").unlink(missing_ok=True)
        (tmp_path / "10").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(files, "find_file", delete_second_after_first_was_found)
    assert [file.start for file in files.list_files(tmp_path)] == [20, 30]


def test_holes_of_a_file_are_not_read(tmp_path: Path) -> None:
    """Reading so many zeros takes minutes; files of a store are mostly holes until they are written."""
    path = tmp_path / file_name(0)
    with path.open("wb") as file:
        file.truncate(1 << 40)
    found = files.find_file(path)
    assert found is not None
    assert files.is_zero(found, 1)
    patch(path, (1 << 39) + 5, b"x")
    assert not files.is_zero(found, 0)
    assert not files.is_zero(found, (1 << 39) + 5)
    assert files.is_zero(found, (1 << 39) + 6)


@pytest.mark.parametrize("deleted_before_listing", [True, False])
def test_log_whose_files_are_all_deleted_meanwhile_still_ends_at_its_limit(
    deleted_before_listing: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    for start in (65536, 131072):
        (folder / file_name(start)).write_bytes(bytes(65536))
    log = InspectedLog(tmp_path)
    if not deleted_before_listing:
        log.open(140000)
    for path in folder.iterdir():
        path.unlink()
    if deleted_before_listing:
        log.open(140000)
    list(log.read(Agreement({}, KeyEntries([], 1), -1, -1)))
    assert log.end == 140000


def test_empty_file_of_extended_units_has_no_unit(whole: Path) -> None:
    patch(queue_file(whole), 12, EXT_ADDRESS_BASE.to_bytes(8, "big", signed=True))
    units = whole / "consumequeue_ext" / "Topic" / "0"
    units.mkdir(parents=True)
    (units / file_name(0)).write_bytes(b"")
    assert "its extended unit is missing" in findings(whole)[0].what
    assert any(line["kind"] == "queue" for line in dump_all(whole, SLOTS, ENTRIES))


def with_few_open_files(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`headrace store …` in a process that may have 64 files open."""
    command = ["sh", "-c", 'ulimit -n 64 && exec "$0" "$@"', HEADRACE, "store", *arguments]
    return subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, timeout=60)


def test_store_may_have_more_queues_than_a_process_may_open_files(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        for number in range(600):
            log.append(f"Topic{number % 200}", number % 2, properties="TAGS\x01TagA")
        store.recovered(log.end)
        store.dispatch()
        store.paths.checkpoint.write_bytes(bytes(4096))
    sizes = ("--slots", SLOTS, "--entries", ENTRIES)
    assert "OK" in with_few_open_files("verify", tmp_path, *sizes).stdout
    patch(tmp_path / "consumequeue" / "Topic7" / "1" / file_name(0), 12, bytes(8))
    said = with_few_open_files("verify", tmp_path, *sizes)
    assert "Topic7 queue 1" in said.stdout
    assert "1 problem" in said.stdout
    lines = with_few_open_files("dump", "--all", "--json", tmp_path, *sizes).stdout.splitlines()
    assert sum('"kind":"queue"' in line for line in lines) == 600


def test_log_may_have_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    log = tmp_path / "commitlog"
    log.mkdir()
    for number in range(200):
        (log / file_name(4096 * number)).write_bytes(bytes(4096))
    assert "OK" in with_few_open_files("verify", tmp_path).stdout
    assert with_few_open_files("dump", tmp_path).stdout.count("zero=true") == 200


@pytest.mark.slow
def test_store_written_and_cleaned_during_the_check_is_intact(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        store.recovered(0)
        writer = os.fork()
        if writer == 0:
            try:
                write_dispatch_and_delete_for_ever(store)
            finally:
                os._exit(1)
        try:
            rounds = 0
            while rounds < 25 or store.control.min_offset < 6 * SMALL.mapped_file_size_commit_log:
                assert [str(found) for found in findings(tmp_path)] == []
                rounds += 1
        finally:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
