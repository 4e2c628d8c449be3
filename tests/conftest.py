"""What holds for every test run: no stale compiled module, and no skipped test where none may be."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("appliance", "broker", "headrace", "ipc", "nameserver", "store")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nothing-skipped", action="store_true", help="a skipped test fails the run")


def pytest_configure() -> None:
    """Python prefers a compiled module to its source, so one that is older would be tested in its place."""
    stale = [
        str(compiled.relative_to(ROOT))
        for package in PACKAGES
        for compiled in (ROOT / package).rglob("*.so")
        if _is_stale(compiled)
    ]
    if stale:
        message = f"older than its source: {', '.join(stale)}; run `make compile`, or delete it to test the plain source"
        raise pytest.UsageError(message)


def _is_stale(compiled: Path) -> bool:
    source = compiled.with_name(compiled.name.split(".", 1)[0] + ".py")
    types = source.with_suffix(".pxd")
    return not types.exists() or max(source.stat().st_mtime, types.stat().st_mtime) > compiled.stat().st_mtime


_seen: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _seen.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _seen.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--nothing-skipped") and _seen and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--nothing-skipped") and _seen:
        terminalreporter.section("skipped, where nothing may be", red=True)
        for node in _seen:
            terminalreporter.line(node)
