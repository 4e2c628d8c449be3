"""What systemd's journal receives."""

import io
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.journal import JournalHandler, is_journal, priority_prefix
from appliance.log_line import LineFormatter


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as journal:
        journal.bind(str(tmp_path / "journal"))
        yield journal


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[JournalHandler]:
    handler = JournalHandler(io.StringIO(), str(tmp_path / "journal"), {"STATE_DIRECTORY": "/var/lib/headrace-second"})
    handler.setFormatter(LineFormatter("journal"))
    yield handler
    handler.close()


def record(message: str, level: int = logging.WARNING) -> logging.LogRecord:
    made = logging.LogRecord("store.flush", level, "x.py", 1, message, (), None)
    made.process = 42
    made.role = "flush"
    return made


def test_record_has_its_priority_role_and_logger(journal: socket.socket, handler: JournalHandler) -> None:
    handler.handle(record("sync failed\nPRIORITY=0"))
    assert journal.recv(4096).decode().splitlines() == [
        r"MESSAGE=flush[42] store.flush: sync failed\nPRIORITY=0",
        "PRIORITY=4",
        "SYSLOG_IDENTIFIER=headrace-second",
        "ROLE=flush",
        "LOGGER=store.flush",
    ]


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7), (15, 7)],
)
def test_levels_have_the_priorities_of_syslog(
    journal: socket.socket, handler: JournalHandler, level: int, priority: int
) -> None:
    handler.handle(record("event", level))
    assert f"PRIORITY={priority}" in journal.recv(4096).decode().splitlines()


def test_lines_go_to_standard_error_while_the_journal_takes_none(
    journal: socket.socket, handler: JournalHandler
) -> None:
    handler.handle(record("too long " + "x" * 1_000_000))
    sent = 0
    while handler.stream.getvalue().count("\n") < 2:
        handler.handle(record(f"event number={sent}"))
        sent += 1
    assert f"number={sent - 1}\n" in handler.stream.getvalue()
    for number in range(sent - 1):
        assert f"number={number}\n" in journal.recv(4096).decode()
    handler.handle(record("event number=last"))
    assert "number=last" in journal.recv(4096).decode()


def test_lines_go_to_standard_error_without_a_journal(handler: JournalHandler) -> None:
    handler.handle(record("event"))
    assert handler.stream.getvalue() == "flush[42] store.flush: event\n"


def test_journal_is_recognized_by_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a").open("w") as ours, (tmp_path / "b").open("w") as other:
        status = os.fstat(ours.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        assert is_journal(ours)
        assert not is_journal(other)
        assert priority_prefix(ours, "error") == "<3>"
        assert priority_prefix(other, "error") == ""
    assert not is_journal(ours)
    assert not is_journal(io.StringIO())
