"""Concurrent exports to an object store, killed or paused between requests, export each row exactly once.

The short form does one round; HEADRACE_CRASH_ROUNDS=full does fifty and kills a run at each of its requests.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from spark_exporter.errors import TargetBusy
from spark_exporter.planning.plan import open_source
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.verify import verify
from spark_exporter.targets.open_target import open_target
from spark_exporter.targets.target_lock import OWNERS
from support.crash import rounds
from support.export_runs import BUSY, DONE, FAILED, KILLED, LEASE_S, ExportRun
from support.exported import request
from support.s3_server import S3Server
from support.servers import wait_until
from support.small_log import STORE_MS, SmallLog

RECORDS = 120
DAY_MS = 86_400_000
WITHIN_S = 120
ROUNDS = rounds(1, 50)
PARTS = rounds(1, 20)
"""Tests among which the places of kills are divided."""

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(autouse=True)
def _credentials(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment("reader").items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SmallLog:
    """Three files, hence three commits. The first half is of a past day and can be compacted."""
    log = SmallLog(tmp_path_factory.mktemp("store") / "store")
    for number in range(RECORDS):
        log.append(b"x" * 1200, store_timestamp=STORE_MS + number + (DAY_MS if number >= RECORDS // 2 else 0))
    log.write()
    return log


def check_complete(server: S3Server, log: SmallLog, target: str) -> None:
    """Checks that readers see each row once, with and without listing files, and that tokens rise."""
    files, root = fs.FileSystem.from_uri(target)
    seen = ds.dataset(root, filesystem=files, partitioning="hive").to_table(columns=["commit_log_offset"])
    assert sorted(seen["commit_log_offset"].to_pylist()) == log.offsets
    opened = open_target(target)
    verified = verify(open_source(log.root), opened, "broker")
    assert (verified.differences, verified.strays, verified.rows) == ((), (), RECORDS)
    names = opened.sink.work.list("_export", below=True)
    assert [name for name in names if "staging" in name or "pending" in name] == []
    assert len([name for name in names if name.startswith(OWNERS)]) == 1
    tokens = [commit.token for commit in opened.ledger.commits()]
    assert tokens == sorted(tokens)


def run_to_the_end(server: S3Server, name: str, log: SmallLog, target: str) -> None:
    """Runs an export undisturbed; it waits for the lease of an owner that does not answer."""
    until = time.monotonic() + WITHIN_S
    for attempt in range(1000):
        with ExportRun(server, f"{name}-{attempt}", log.root, target) as run:
            run.start()
            ended = run.join()
        if ended == DONE:
            return
        assert ended == BUSY
        assert time.monotonic() < until, "the target is still busy"
        time.sleep(LEASE_S / 10)


def start_some(
    stack: ExitStack, server: S3Server, name: str, log: SmallLog, target: str, chance: random.Random
) -> list[ExportRun]:
    """Starts two to five concurrent runs, most of which will be killed or paused."""
    runs = []
    for number in range(chance.randint(2, 5)):
        compacts = number > 0 and chance.random() < 0.2
        run = stack.enter_context(ExportRun(server, f"{name}-{number}", log.root, target, compacts=compacts))
        what = chance.choice((None, run.kill_at, run.kill_at, run.pause_at, run.pause_at))
        if what is not None:
            what(chance.randint(1, chance.choice((10, 30, 80))), after=chance.random() < 0.5)
        runs.append(run)
    for run in runs:
        run.start()
    return runs


def proceed_at_some_request_of(
    server: S3Server, later: Sequence[ExportRun], paused: Sequence[ExportRun], chance: random.Random
) -> None:
    """Resumes paused runs while the runs that took over the target are at work."""
    for run in paused:
        server.after(chance.choice(later).name, chance.randint(1, 60), run.proceed)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_rows_are_exported_exactly_once_when_runs_are_killed_or_paused(
    number: int, server: S3Server, log: SmallLog, chance: random.Random
) -> None:
    target = server.url(f"round-{number}-{chance.randrange(1 << 30)}")
    with ExitStack() as stack:
        runs: list[ExportRun] = []
        for generation in range(rounds(2, 3)):
            paused = [run for run in runs if run.is_paused.is_set()]
            if paused:
                time.sleep(1.1 * LEASE_S)  # lets their leases expire, which is what is tested
            later = start_some(stack, server, f"{number}-{generation}", log, target, chance)
            proceed_at_some_request_of(server, later, paused, chance)
            runs += later
            wait_until(lambda: not any(run.is_at_work for run in runs), WITHIN_S, "runs to end or pause")  # noqa: B023
        for run in runs:
            run.proceed()
            assert run.join() in {DONE, BUSY, KILLED, *([FAILED] if run.was_paused else [])}
    run_to_the_end(server, f"{number}-last", log, target)
    check_complete(server, log, target)


@pytest.fixture(scope="module")
def request_count(server: S3Server, log: SmallLog) -> int:
    """How many requests an undisturbed run makes."""
    run_to_the_end(server, "undisturbed", log, server.url("undisturbed"))
    return len(server.requests["undisturbed-0"])


@pytest.mark.parametrize("part", range(PARTS))
def test_next_run_completes_immediately_after_a_kill_at_any_request(
    part: int, server: S3Server, log: SmallLog, request_count: int, chance: random.Random
) -> None:
    places = [(number, after) for number in range(1, request_count + 1) for after in (False, True)]
    for number, after in places[part::PARTS] if PARTS > 1 else chance.sample(places, 3):
        target = server.url(f"killed-{number}-{after}")
        with ExportRun(server, f"killed-{number}-{after}", log.root, target) as run:
            run.kill_at(number, after=after)
            run.start()
            assert run.join() in {KILLED, DONE}  # its last requests are made by a thread that it does not join
        with ExportRun(server, f"next-{number}-{after}", log.root, target) as run:
            run.start()
            assert run.join() == DONE, "the run waited for a dead owner on this machine"
        check_complete(server, log, target)


def test_error_of_a_run_that_lost_its_target_names_the_new_owner(server: S3Server, log: SmallLog) -> None:
    owner = {"command": "headrace export", "pid": 1, "host": "elsewhere", "since": 0, "seen": time.time()}

    def lose_files() -> None:
        with Export(request(log.root, server.url("lost")), LocalEngine(1)) as export:
            assert export.sink.work.create(f"{OWNERS}/{9:020}.json", json.dumps(owner).encode())
            export.sink.work.size_of("deleted.parquet")

    with pytest.raises(TargetBusy, match="in use by headrace export, pid 1 on elsewhere"):
        lose_files()


@pytest.mark.parametrize("after", [False, True][: rounds(1, 2)])
def test_owner_with_expired_lease_does_not_commit(after: bool, server: S3Server, log: SmallLog) -> None:
    target = server.url(f"slept-{after}")
    with ExportRun(server, f"sleeper-{after}", log.root, target) as sleeper:
        sleeper.pause_at(30, after=after)
        sleeper.start()
        assert sleeper.is_paused.wait(WITHIN_S)
        run_to_the_end(server, f"taker-{after}", log, target)
        last = open_target(target).ledger.last()
        assert last is not None
        sleeper.proceed()
        assert sleeper.join() in {BUSY, FAILED}
        assert open_target(target).ledger.last() == last
    check_complete(server, log, target)
