"""`headrace export` with unusable input prints one clear line, exits with a code and leaves the target unchanged."""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psutil
import pytest

from support.servers import wait_until
from support.small_log import SmallLog, write_log

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "appliance.cli.main", "export", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def export(
    *arguments: object, prefix: tuple[str, ...] = (), before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, *command("--engine", "local", *arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=before,
    )


def content(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def check_refused(done: subprocess.CompletedProcess[str], said: str, *notes: str) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == 1, done
    assert lines[:-1] == [f"headrace: {note}" for note in notes]
    assert lines[-1].startswith("headrace: ")
    assert said in lines[-1]
    assert done.stdout == ""


def make_log(root: Path) -> SmallLog:
    return write_log(root, [b"x" * 1000] * 100)


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    return make_log(tmp_path / "store")


@pytest.fixture(scope="module")
def half_exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    log = make_log(folder / "store")
    done = export("--to", log.offsets[50], log.root, folder / "target")
    assert done.returncode == 0, done
    assert " exported 50 of 50 records " in done.stdout
    return folder / "target"


@pytest.fixture
def target(tmp_path: Path, half_exported: Path) -> Path:
    """A target that half of the log has been exported to."""
    return Path(shutil.copytree(half_exported, tmp_path / "target"))


def rows_in(target: Path) -> int:
    ((count,),) = duckdb.sql(f"select count(*) from read_parquet('{target}/dt=*/*.parquet')").fetchall()  # noqa: S608
    return int(count)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _path: None, "no such folder"),
        (lambda path: path.mkdir(), "is not a store: it contains no commitlog folder"),
        (lambda path: path.write_text("x"), "is a file; give the folder of a store"),
        (lambda path: (path / "commitlog").mkdir(parents=True), "its commitlog folder is empty"),
        (lambda path: write_log(path, []), "contains no records"),
    ],
    ids=["nothing", "an empty folder", "a file", "an empty commitlog", "no records"],
)
def test_export_of_a_folder_without_a_store_fails_and_creates_no_target(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(tmp_path / "source")
    check_refused(export(tmp_path / "source", tmp_path / "target"), said)
    left = content(tmp_path / "target")
    assert [name for name in left if name.endswith(".parquet") or "manifests" in name] == []


def drop_the_right_to_read_everything() -> None:
    """Makes file permissions apply even to root."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)
    libc.prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH)


def test_unreadable_file_is_named(log: SmallLog, target: Path) -> None:
    before = content(target)
    path = log.folder / f"{1 << 16:020}"
    path.chmod(0)
    check_refused(export(log.root, target, before=drop_the_right_to_read_everything), f"{path}: Permission denied")
    assert content(target) == before
    log.root.chmod(0)
    check_refused(export(log.root, target, before=drop_the_right_to_read_everything), f"{log.root}: Permission denied")
    log.root.chmod(0o755)
    path.unlink()
    path.mkdir()
    check_refused(export(log.root, target), f"{path} is not a file")
    assert content(target) == before


def test_incomplete_last_record_is_left_for_the_next_run(log: SmallLog, target: Path) -> None:
    whole = (log.folder / f"{log.offsets[-1] >> 16 << 16:020}").read_bytes()
    log.overwrite(log.offsets[-1] + 300, b"\0" * 500)
    done = export(log.root, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"offsets {log.offsets[50]:,} to {log.offsets[-1]:,})" in done.stdout
    assert rows_in(target) == 99
    (log.folder / f"{log.offsets[-1] >> 16 << 16:020}").write_bytes(whole)
    assert " exported 1 of 1 record " in export(log.root, target).stdout
    assert rows_in(target) == 100


def test_full_disk_leaves_the_target_unchanged(log: SmallLog, target: Path) -> None:
    before = content(target)

    def let_files_be_small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = export(log.root, target, before=let_files_be_small)
    check_refused(done, "File too large")
    assert content(target) == before
    if (
        shutil.which("unshare")
        and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    ):
        # A separate file system with hardly any space.
        small = target.with_name("small")
        small.mkdir()
        script = f"mount -t tmpfs -o size=64k none '{small}' && cp -r '{target}' '{small}/target' && exec \"$@\""
        inside = ("unshare", "--mount", "sh", "-c", script, "sh")
        listing = ("sh", "-c", f"\"$@\"; code=$?; find '{small}' -type f | sort; exit $code", "sh")
        done = export("--compression", "none", log.root, small / "target", prefix=(*inside, *listing))
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout.split() == sorted(str(small / "target" / name) for name in before)
    assert export(log.root, target).returncode == 0
    assert rows_in(target) == 100


def test_full_disk_and_interrupt_print_one_line_with_worker_processes(tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "store", [os.urandom(1_000_000)] * 22, 16 << 20
    )  # two ranges, too large for the driver to write by itself
    target = tmp_path / "target"

    def let_files_be_smaller_than_a_range() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))

    done = export(log.root, target, "--workers", 2, "--compression", "none", before=let_files_be_smaller_than_a_range)
    check_refused(done, "File too large")
    assert list(target.rglob("*.parquet")) == []
    with subprocess.Popen(
        command("--engine", "local", "--workers", 2, "--follow", "0.1", log.root, target), env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts,  # noqa: PLW1509
    ) as process:  # fmt: skip
        # Both workers are writing; a terminal would interrupt the whole process group.
        wait_until(lambda: len(written_files(target)) > 1, 60, "files of both workers")
        os.killpg(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (0, "")
    assert ": exported " in said
    assert rows_in_manifests(target) in {0, 22}


def hear_interrupts() -> None:
    """Tests that run in the background ignore SIGINT, and a child process would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_export_stopped_during_spark_start_leaves_no_jvm(log: SmallLog, tmp_path: Path) -> None:
    with subprocess.Popen(
        command("--engine", "spark", log.root, tmp_path / "target"),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def jvms() -> list[psutil.Process]:
            children = psutil.Process(process.pid).children(recursive=True)
            return [each for each in children if "org.apache.spark.deploy.SparkSubmit" in words_of(each)]

        wait_until(lambda: len(jvms()) > 0, 60, "a JVM that starts")
        started = jvms()
        process.terminate()
        _, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (143, "")
    assert psutil.wait_procs(started, 60)[1] == []
    assert not list((tmp_path / "target").rglob("*.parquet"))


def words_of(process: psutil.Process) -> set[str]:
    """Its command line; empty for the JVM that only determines how Spark is started."""
    try:
        words = set(process.cmdline())
    except psutil.Error:  # it has ended
        return set()
    return set() if "org.apache.spark.launcher.Main" in words else words


def written_files(target: Path) -> list[Path]:
    """Non-empty files, staged or in place."""
    try:
        return [path for path in target.rglob("*") if path.is_file() and path.stat().st_size > 1000]
    except FileNotFoundError:  # a file is being moved
        return []


def rows_in_manifests(target: Path) -> int:
    manifests = (target / "_export" / "manifests").glob("*.json")
    return sum(each["rows"] for path in manifests for each in json.loads(path.read_text())["ranges"])


def test_invalid_option_values_are_wrong_usage(log: SmallLog, tmp_path: Path) -> None:
    for arguments, said in (
        (("--broker", ""), "expected 1 to 170"),
        (("--broker", "b" * 171), "expected 1 to 170"),
        (("--from", "0001-01-01T00:00+14:00"), "expected a physical offset or a time"),
        (("--to", "tomorrow"), "expected a physical offset or a time"),
    ):
        done = export(log.root, tmp_path / "none", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].startswith("Error: Invalid value for --")
        assert said in done.stderr
    assert not (tmp_path / "none").exists()


def test_unreachable_catalog_is_reported(tmp_path: Path, log: SmallLog) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens there
        catalog = f"http://127.0.0.1:{taken.getsockname()[1]}#lake.messages"
        check_refused(export("--format", "iceberg", log.root, catalog), f"{catalog}: ")
    missing = f"sqlite:///{tmp_path}/missing/catalog.db#lake.messages"
    check_refused(export("--format", "iceberg", log.root, missing), "unable to open database file")
    assert not (tmp_path / "missing").exists()


def test_target_with_another_schema_version_is_not_changed(log: SmallLog, target: Path) -> None:
    path = target / "_export" / "target.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    before = content(target)
    check_refused(export(log.root, target), "was created with schema_version 99, not 1; export to another target")
    assert content(target) == before


def test_target_with_another_layout_format_or_store_is_not_changed(tmp_path: Path, log: SmallLog, target: Path) -> None:
    before = content(target)
    check_refused(export("--group-by", "topic", log.root, target), "was created with layout")
    check_refused(export("--format", "delta", log.root, target), "was created with format")
    other = write_log(tmp_path / "other", [b"y" * 1001] * 100)
    check_refused(export(other.root, target), "is not the log that was exported before")
    assert content(target) == before


def test_source_file_deleted_during_export_is_named_unless_it_is_held(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", [b"x" * 1000] * 6_000)
    last = log.folder / f"{log.offsets[-1] >> 16 << 16:020}"
    kept = last.read_bytes()
    for number in range(TRIES):
        target = tmp_path / f"held-{number}"
        done = delete_while_it_reads(log, target, last)
        if done is not None:
            break
    assert done == (0, [])
    assert rows_in(target) == 6_000
    (log.root / "hold").write_text("in the way")
    code, lines = 0, [""]
    for number in range(TRIES):
        last.write_bytes(kept)
        target = tmp_path / f"not-held-{number}"
        assert export("--to", log.offsets[1000], log.root, target).returncode == 0
        before = content(target)
        code, lines = delete_while_it_reads(log, target, last) or (0, [""])
        if code != 0:
            break
    assert (code, lines) == (
        1,
        [
            "headrace: segments are not protected from deletion: Not a directory",
            (
                f"headrace: {last} was deleted before it was read; run this again, and if the broker deleted the file, "
                "increase its fileReservedTime"
            ),
        ],
    )
    assert content(target) == before


TRIES = 20
"""On a busy machine the export may be over when it is looked at, or have read the file by the time that is deleted."""


def delete_while_it_reads(log: SmallLog, target: Path, path: Path) -> tuple[int, list[str]] | None:
    """Runs an export that is stopped as soon as it writes and resumed after the file is deleted.

    Returns the exit code and the lines on standard error, or None if the export ended before it could be stopped; the
    file then still exists.
    """
    with subprocess.Popen(
        command("--engine", "local", log.root, target), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip

        def state() -> str:
            return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

        deadline = time.monotonic() + 60
        while state() != "Z" and not has_written(target):  # busy loop on purpose
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: state() in "TZ", 60, "stopped")
        if is_stopped := state() == "T":
            path.unlink()
        os.kill(process.pid, signal.SIGCONT)
        _, said = process.communicate(timeout=100)
    return (process.returncode, said.splitlines()) if is_stopped else None


def has_written(target: Path) -> bool:
    """Whether a run has begun to write."""
    try:
        return any((target / "_export" / "staging").rglob("0"))
    except FileNotFoundError:  # the run is cleaning up
        return False
