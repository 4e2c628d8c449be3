"""Shared pytest configuration and fixtures.

Removes stale compiled modules, compiles byte code for the processes under test, fails a run that leaves shared memory
behind or, with `--nothing-skipped`, skips a test, and provides one JVM with the official client. Hypothesis uses the
same examples in every run and sets no deadline; `--hypothesis-profile=default` searches for new examples.
"""

import compileall
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from ipc.names import instance_hash
from support.java import Java

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("appliance", "broker", "headrace", "ipc", "nameserver", "spark_exporter", "store", "web")
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """The official Java client with JSON headers, its default."""
    with Java(tmp_path_factory.mktemp("java")) as java:
        yield java


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nothing-skipped", action="store_true", help="a skipped test fails the run")


def pytest_configure(config: pytest.Config) -> None:
    _remove_stale_modules()
    if not hasattr(config, "workerinput"):
        _keep_bytecode()


def _keep_bytecode() -> None:
    """Compiles the modules that processes under test import: a second or two at first, nothing the next time.

    Where PYTHONDONTWRITEBYTECODE is set, each role of each appliance would compile them again, which takes half of its
    start-up time. Python ignores byte code that does not match its source.
    """
    for folder in (*PACKAGES, "pyspark_commitlog", "tests/support"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def _remove_stale_modules() -> None:
    """Removes compiled modules that are older than their source.

    Python prefers a compiled module to its source, so a stale one would be tested in place of the source. Modules
    compiled against the types of a removed one are removed too, because they would not load without it. `make compile`
    rebuilds them; all make targets that run tests do so first.
    """
    compiled = {path: _types_of(path) for package in PACKAGES for path in (ROOT / package).rglob("*.so")}
    stale = {path for path in compiled if _is_stale(path)}
    known = {_module_of(path) for path in compiled}
    classes = {
        _module_of(path)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.pxd")
        if "cdef class" in path.read_text()
    }
    gone = (classes - known) | {_module_of(path) for path in stale}
    while more := {
        path for path, types in compiled.items() if path not in stale and any(name in types for name in gone)
    }:
        stale |= more
        gone |= {_module_of(path) for path in more}
    for path in stale:
        path.unlink(missing_ok=True)
        _removed.append(str(path.relative_to(ROOT)))


def pytest_report_header() -> list[str]:
    return [f"removed, older than its source or what it was compiled against: {path}" for path in _removed]


def _module_of(compiled: Path) -> str:
    return ".".join((*compiled.relative_to(ROOT).parts[:-1], compiled.name.split(".", 1)[0]))


def _types_of(compiled: Path) -> str:
    types = compiled.with_name(compiled.name.split(".", 1)[0] + ".pxd")
    return types.read_text() if types.exists() else ""


def _is_stale(compiled: Path) -> bool:
    source = compiled.with_name(compiled.name.split(".", 1)[0] + ".py")
    types = source.with_suffix(".pxd")
    return not types.exists() or max(source.stat().st_mtime, types.stat().st_mtime) > compiled.stat().st_mtime


_seen: list[str] = []
_left: dict[str, str] = {}
_removed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _seen.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _seen.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if not hasattr(session.config, "workerinput"):
        _left.update(_segments_left(session.config))
    is_flawed = _left or (_seen and session.config.getoption("--nothing-skipped"))
    if is_flawed and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _segments_left(config: pytest.Config) -> dict[str, str]:
    """Shared memory segments that this run left behind, with their stores: an appliance was killed and not cleaned up.

    Segments of other runs on this machine are ignored.
    """
    names = [name for name in os.listdir("/dev/shm") if name.startswith("headrace-")]
    folder = config._tmp_path_factory._basetemp  # type: ignore[attr-defined]
    if not names or folder is None:
        return {}
    folders = [folder for folder, _, _ in os.walk(folder)]
    stores = {instance_hash(path): path for one in folders for path in (one, os.path.join(one, "store"))}
    return {name: stores[name.split("-")[1]] for name in names if name.split("-")[1] in stores}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _left:
        terminalreporter.section("leaked shared memory", red=True)
        for name, store in sorted(_left.items()):
            terminalreporter.line(f"{name} of the store {store}")
    if config.getoption("--nothing-skipped") and _seen:
        terminalreporter.section("skipped tests (not allowed with --nothing-skipped)", red=True)
        for node in _seen:
            terminalreporter.line(node)
