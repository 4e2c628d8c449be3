"""The dispatch role: catches up, waits for its bell, ends when it is told to stop and nothing is left."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.role_context import RoleContext
from store.dispatch import daemon
from store.dispatch.daemon import run
from store.errors import CorruptRecord, WrongFileLength
from store.paths import file_name
from support.dispatched_store import DispatchedStore, HandWrittenLog, dispatched_store
from support.servers import wait_until


class Role:
    """The role in a thread of this process."""

    def __init__(self, store: DispatchedStore, make_context: type[RoleContext] = RoleContext) -> None:
        self.store = store
        self.reading, self.writing = os.pipe()
        self.context = make_context("dispatch", store.instance, store.instance.bells["dispatch"], self.reading)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            run(self.context, self.store.config, self.store.paths, is_log_copied=False)
        except (CorruptRecord, WrongFileLength) as error:
            self.error = error

    def __enter__(self) -> "Role":
        for _ in range(20_000):
            if self.store.instance.health.read()["dispatch"].state == "running" or not self.thread.is_alive():
                return self
            threading.Event().wait(0.001)
        raise AssertionError("the role did not start")

    def __exit__(self, *_: object) -> None:
        os.write(self.writing, b"x")
        self.thread.join(60)
        assert not self.thread.is_alive()
        os.close(self.reading)
        os.close(self.writing)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DispatchedStore]:
    with dispatched_store(tmp_path) as found:
        yield found


def wait_for_reput(store: DispatchedStore, offset: int) -> None:
    for _ in range(20_000):
        if store.control.reput_offset == offset:
            return
        threading.Event().wait(0.001)
    raise AssertionError(f"reput_offset stayed at {store.control.reput_offset}, not {offset}")


def test_dispatch_catches_up_before_it_stops(store: DispatchedStore) -> None:
    log = HandWrittenLog(store.paths, store.config)
    for _ in range(50):
        log.append()
    store.recovered(log.end)
    with Role(store) as role:
        pass
    assert role.error is None
    assert store.control.reput_offset == log.end
    assert store.instance.health.read()["dispatch"].state in ("running", "stopping")


def test_dispatch_wakes_at_its_bell_and_publishes_the_changed_queues(store: DispatchedStore) -> None:
    log = HandWrittenLog(store.paths, store.config)
    store.recovered(0)
    with Role(store):
        changed = store.instance.changed_rows_reader()
        log.append()
        log.append("Other")
        store.wrote(log.end)
        store.instance.bells["dispatch"].ring()
        wait_for_reput(store, log.end)
        rows = changed.take()
    table = store.instance.queue_table()
    assert rows is not None
    assert sorted(rows) == sorted([table.find(b"Topic", 0), table.find(b"Other", 0)])


def test_dispatch_fails_if_it_cannot_catch_up(store: DispatchedStore) -> None:
    store.recovered(1000)  # and there is no CommitLog file
    with Role(store) as role:
        pass
    assert isinstance(role.error, CorruptRecord)


def test_dispatch_does_not_start_on_files_of_another_length(store: DispatchedStore) -> None:
    directory = store.paths.queue("Topic", 0)
    directory.mkdir(parents=True)
    (directory / file_name(0)).write_bytes(bytes(40))
    store.recovered(0)
    with Role(store) as role:
        pass
    assert isinstance(role.error, WrongFileLength)


def test_dispatch_releases_deleted_files_when_its_bell_rings(tmp_path: Path, store: DispatchedStore) -> None:
    log = HandWrittenLog(store.paths, store.config)
    while log.end <= 2 * store.config.mapped_file_size_commit_log:
        log.append(body=bytes(900))
    store.recovered(log.end)
    first = store.paths.commit_log / file_name(0)
    with Role(store):
        wait_for_reput(store, log.end)
        assert str(first) in Path("/proc/self/maps").read_text()
        store.min_offset(store.config.mapped_file_size_commit_log)
        first.unlink()
        store.instance.bells["dispatch"].ring()
        for _ in range(5000):
            if str(first) not in Path("/proc/self/maps").read_text():
                break
            threading.Event().wait(0.001)
        assert str(first) not in Path("/proc/self/maps").read_text()
        for _ in range(5000):
            if store.control.cleaned_offset == store.control.min_offset:
                break
            threading.Event().wait(0.001)
        assert store.control.cleaned_offset == store.control.min_offset


def test_dispatch_rings_for_held_pulls_only(store: DispatchedStore) -> None:
    store.recovered(0)
    pulls, broker = store.instance.pull_bell(), store.instance.bells["broker"]
    log = HandWrittenLog(store.paths, store.config)
    broker.prepare_sleep()  # an answer waits for the disk
    with Role(store):
        log.append()
        store.wrote(log.end)
        store.instance.bells["dispatch"].ring()
        wait_for_reput(store, log.end)
    assert not broker.drain()
    pulls.prepare_sleep()
    with Role(store):
        log.append()
        store.wrote(log.end)
        store.instance.bells["dispatch"].ring()
        wait_for_reput(store, log.end)
    assert broker.drain()


@pytest.mark.parametrize("is_pull_held", [False, True])
def test_busy_dispatch_waits_by_the_clock_unless_a_pull_is_held(
    is_pull_held: bool, store: DispatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_BUSY_MS", 60_000)
    log = HandWrittenLog(store.paths, store.config)
    log.append()
    store.recovered(log.end)
    store.instance.bells["broker"].prepare_sleep()  # an answer waits for the disk
    if is_pull_held:
        store.instance.pull_bell().prepare_sleep()
    calls: list[str] = []
    has_called = threading.Event()

    class NotingContext(RoleContext):
        def wait(self, ready: Callable[[], bool], timeout_ms: int) -> bool:
            calls.append("wait")
            has_called.set()
            return super().wait(ready, timeout_ms)

        def nap_unless_urgent(self, has_work: Callable[[], bool], timeout_ms: int) -> None:
            calls.append("nap_unless_urgent")
            has_called.set()
            super().nap_unless_urgent(has_work, timeout_ms)

    with Role(store, NotingContext):
        assert has_called.wait(20)
    assert calls[0] == ("wait" if is_pull_held else "nap_unless_urgent")


@pytest.mark.parametrize("is_held_before", [False, True])
def test_nap_of_dispatch_ends_when_a_pull_is_held_and_there_are_records(
    is_held_before: bool, store: DispatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_BUSY_MS", 60_000)
    monkeypatch.setattr(daemon, "_NAP_MS", 60_000)
    log = HandWrittenLog(store.paths, store.config)
    log.append()
    store.recovered(0)
    store.wrote(log.end)
    bell, pulls = store.instance.bells["dispatch"], store.instance.pull_bell()
    with Role(store):
        wait_for_reput(store, log.end)
        wait_until(lambda: store.control.asleep_dispatch == 2, 20, "dispatch naps")
        assert not bell.ring()  # nobody waits
        if is_held_before:
            pulls.prepare_sleep()
        log.append()
        store.wrote(log.end)
        if not is_held_before:
            assert not bell.ring()
            pulls.prepare_sleep()
        assert bell.ring()
        wait_for_reput(store, log.end)
