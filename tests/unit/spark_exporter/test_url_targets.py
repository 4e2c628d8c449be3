"""Targets in an object store: URLs with a query, stores that do not answer, packages that are missing, and who owns a target there."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_exporter.errors import MissingPackage, TargetBusy, TargetError
from spark_exporter.planning.plan import open_source
from spark_exporter.running.compact import compact
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.status import read_status
from spark_exporter.running.verify import verify
from spark_exporter.storage.location import Location
from spark_exporter.targets import reach, target_lock
from spark_exporter.targets.ledger import Ledger
from spark_exporter.targets.open_sink import open_sink
from spark_exporter.targets.open_target import open_target
from spark_exporter.targets.target_lock import TargetLock, read_owner
from support.exported import export, request
from support.s3_server import S3Server
from support.servers import wait_until
from support.small_log import STORE_MS, SmallLog, write_log

HEADRACE = Path(sys.executable).with_name("headrace")
DAY_MS = 86_400_000
WITHIN_S = 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(autouse=True)
def _client(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment("client").items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """What accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_query_of_a_url_stays_after_the_path(table_format: str, server: S3Server, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 500] * 50)
    target = server.url(f"with/query/{table_format}").replace("s3://", "s3a://")
    assert export(log.root, target, table_format).rows == 50
    assert export(log.root, target, table_format).rows == 0
    opened = open_target(target)
    assert verify(open_source(log.root), opened, "broker").differences == ()
    status = read_status(opened)
    assert (status.rows, status.running, status.is_pending) == (50, None, False)
    names = Location(target).list("", below=True)
    assert any(name.startswith("dt=") for name in names)
    everything = Location(server.url("").rstrip("/")).list("", below=True)
    assert [name for name in everything if "?" in name or "endpoint_override" in name] == []
    assert "?" not in opened.sink.work.uri


def test_refused_iceberg_target_leaves_nothing_in_the_bucket(server: S3Server) -> None:
    with pytest.raises(TargetError, match="for remote storage use a catalog"):
        open_sink("iceberg", server.url("refused"))
    assert Location(server.url("refused")).list("", below=True) == []
    assert not any("refused" in line and line.startswith("PUT") for line in server.requests["client"])


@pytest.mark.parametrize(
    "target",
    [
        "s3://lake/x?scheme=http&region=us-east-1&endpoint_override=",
        "gs://anonymous@lake/x?scheme=http&endpoint_override=",
    ],
)
def test_object_store_timeout_is_reported_in_one_line(
    target: str, silent: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "REACHED_WITHIN_S", 2.0)
    log = write_log(tmp_path / "store", [b"x"])
    with pytest.raises(TargetError, match=r"no response within 2 s; check the address"):
        export(log.root, f"{target}127.0.0.1:{silent.getsockname()[1]}")


def test_export_waiting_for_an_object_store_can_be_stopped(silent: socket.socket, tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x"])
    target = f"gs://anonymous@lake/x?scheme=http&endpoint_override=127.0.0.1:{silent.getsockname()[1]}"
    with subprocess.Popen([str(HEADRACE), "export", "--engine", "local", str(log.root), target]) as waiting:
        silent.settimeout(WITHIN_S)
        connection, _ = silent.accept()
        with connection:
            began = time.monotonic()
            waiting.send_signal(signal.SIGTERM)
            assert waiting.wait(WITHIN_S) == 143
            assert time.monotonic() - began < reach.REACHED_WITHIN_S / 2


def test_process_abort_in_a_library_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aborting = tmp_path / "python"
    aborting.write_text("#!/bin/sh\necho 'terminate called: no credentials' >&2\nkill -ABRT $$\n")
    aborting.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(aborting))
    with pytest.raises(
        TargetError, match=r"^abfss://c@a.net/x: its client library exited with code -6: terminate called: no cred"
    ):
        open_target("abfss://c@a.net/x")


def test_error_for_a_scheme_names_the_missing_package() -> None:
    with pytest.raises(MissingPackage, match=r"the package for oss:// is not installed: .*ossfs"):
        open_target("oss://bucket/x")
    with pytest.raises(TargetError, match="fsspec does not support the scheme"):
        open_target("nonsense://bucket/x")


def test_error_for_an_object_store_names_the_package_to_install(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingPackage, match=r"pip install 'headrace-appliance\[object-store\]'"):
        Location(server.url("x")).create("a", b"")


def test_only_one_of_concurrent_creators_creates_the_file(server: S3Server) -> None:
    made: list[int] = []

    def make(number: int) -> None:
        if Location(server.url("race")).create("file", str(number).encode()):
            made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert Location(server.url("race")).read("file") == str(made[0]).encode()


def test_object_store_without_conditional_writes_is_refused(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Location(server.url("ignoring"))

    def create(name: str, data: bytes) -> bool:
        target.write(name, data)
        return True

    monkeypatch.setattr(target, "create", create)
    with (
        pytest.raises(TargetError, match="the object store ignores conditional writes"),
        TargetLock(target, "run", "x"),
    ):
        pass


def test_waiting_owner_keeps_its_target(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--follow` does between two rounds."""
    monkeypatch.setattr(target_lock, "LEASE_S", 0.4)
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = server.url("followed")
    with Export(request(log.root, target), LocalEngine(1)) as following:
        following.run_once()
        began = len(server.requests["client"])
        wait_until(
            lambda: sum("PUT" in line and "owners" in line for line in server.requests["client"][began:]) >= 8,
            WITHIN_S, "renewals over two leases",
        )  # fmt: skip
        with (
            pytest.raises(TargetBusy, match="in use by headrace export"),
            Export(request(log.root, target), LocalEngine(1)),
        ):
            pass
        assert following.run_once().rows == 0


def test_replaced_owner_leaves_the_files_of_its_successor(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_lock, "LEASE_S", 0.5)
    log = write_log(tmp_path / "store", [b"x"] * 5)
    target = server.url("owned")
    first = Export(request(log.root, target), LocalEngine(1)).__enter__()
    first_staging = first._owned.staging
    first._owned._lock._left.set()  # as if it was paused
    wait_until(lambda: read_owner(Location(target)) is None, WITHIN_S, "the end of its lease")
    with Export(request(log.root, target), LocalEngine(1)) as second:
        second._owned.staging.write("mine", b"x")
        first_staging.write("late", b"x")
        with pytest.raises(TargetBusy, match="another run took over the target"):
            first.run_once()
        first.__exit__(None, None, None)
        assert second._owned.staging.read("mine") == b"x"
        assert not first_staging.exists("late")
        assert second.run_once().rows == 5
    kinds = [(commit.kind, commit.token) for commit in Ledger(Location(target)).commits()]
    assert kinds == [("fence", 2), ("export", 2)]


def test_compact_reports_skipped_days(tmp_path: Path) -> None:
    log = SmallLog(tmp_path / "store")
    log.append(store_timestamp=STORE_MS)
    log.append(store_timestamp=STORE_MS + DAY_MS)
    log.write()
    export(log.root, tmp_path / "target")
    last_day = time.strftime("%Y-%m-%d", time.gmtime((STORE_MS + DAY_MS) / 1000))
    done = subprocess.run(
        [str(HEADRACE), "export", "compact", str(tmp_path / "target"), "--before", "2999-01-01"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert (
        done.stderr
        == f"headrace: days from {last_day} on are skipped: the export has only reached that day and may add rows\n"
    )
    notes: list[str] = []
    compact(open_target(str(tmp_path / "target")), None, notes.append)
    assert notes == []


def test_interrupt_ends_an_unresponsive_run(tmp_path: Path) -> None:
    program = tmp_path / "deaf.py"
    program.write_text(
        "import ctypes, signal, sys\n"
        "from appliance.cli.interruptible import interruptible\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)\n"
        "with interruptible(0.2):\n"
        "    libc.pthread_mutex_lock(mutex)\n"
        "    print(hex(ctypes.addressof(mutex)), flush=True)\n"
        "    libc.pthread_mutex_lock(mutex)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as deaf:
        assert deaf.stdout is not None
        address = deaf.stdout.readline().strip()
        system_call = Path(f"/proc/{deaf.pid}/syscall")
        wait_until(lambda: address in system_call.read_text().split(), WITHIN_S, "it waits for the mutex")
        deaf.send_signal(signal.SIGTERM)
        _, said = deaf.communicate(timeout=WITHIN_S)
    assert deaf.returncode == 143
    assert said.startswith("headrace: interrupted, but still waiting for a response")
