"""What holds for every test run: no stale compiled module, no skipped test where none may be, no shared memory left behind.

And what all kinds of tests share: one JVM with the official client, byte code for the processes that they start, and the same examples
from Hypothesis in every run, without a limit of time for each. (`--hypothesis-profile=default` looks for new ones.)
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
PACKAGES = ("appliance", "broker", "headrace", "ipc", "nameserver", "spark_exporter", "store")
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """The official client, speaking JSON headers, as it does unless told otherwise."""
    with Java(tmp_path_factory.mktemp("java")) as java:
        yield java


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nothing-skipped", action="store_true", help="a skipped test fails the run")


def pytest_configure(config: pytest.Config) -> None:
    _remove_stale_modules()
    if not hasattr(config, "workerinput"):
        _keep_bytecode()


def _keep_bytecode() -> None:
    """Compiles what processes under test import. Takes a second or two, and nothing the next time.

    Where PYTHONDONTWRITEBYTECODE is set, each of some hundred appliances would do so at its start, in each of its roles: half of what
    its start takes. Python heeds no byte code that is not its source's.
    """
    for folder in (*PACKAGES, "pyspark_commitlog", "web", "tests/support"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def _remove_stale_modules() -> None:
    """Python prefers a compiled module to its source. One that is older than its source is removed, or it would be tested in its place.

    So are those compiled against its types, which would not load without it. `make compile` makes them anew; all make targets
    that run tests do so first.
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
    """Segments of stores under this run's temporary folder, with the store: an appliance was killed and not cleared away.

    Other runs on this machine have theirs elsewhere.
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
        terminalreporter.section("shared memory left behind", red=True)
        for name, store in sorted(_left.items()):
            terminalreporter.line(f"{name} of the store {store}")
    if config.getoption("--nothing-skipped") and _seen:
        terminalreporter.section("skipped, where nothing may be", red=True)
        for node in _seen:
            terminalreporter.line(node)
