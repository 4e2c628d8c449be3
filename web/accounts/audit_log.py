"""AuditLog: every change, login and refusal: who, from where, what, before and after."""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

STARTED: Final = "started"
"""The outcome of a change that is in progress, or during which the console was killed."""
LONGEST_DETAIL: Final = 4_096
_KEPT: Final = 100_000  # limit: entries, some 50 MB at most; the oldest are dropped


class AuditEntry(msgspec.Struct, frozen=True):
    """One entry."""

    id: int
    at_ms: int
    user: str
    address: str
    action: str
    subject: str
    outcome: str
    """`done`, or why it failed or was refused."""
    before: str
    """JSON, empty if there was nothing."""
    after: str


class AuditLog:
    """The audit log in the database. Entries are added and completed, never changed; the oldest are dropped beyond a limit."""

    def __init__(self, database: sqlite3.Connection, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    def add(
        self,
        user: str,
        address: str,
        action: str,
        subject: str = "",
        outcome: str = "done",
        before: Any = None,
        after: Any = None,
    ) -> int:
        """Adds an entry; it is durable when this returns its id."""
        done = self._database.execute(
            "INSERT INTO audit (at_ms, user, address, action, subject, outcome, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._now_ms(), user, address, action, subject[:500], outcome[:500], _json(before), _json(after)),
        )
        entry = done.lastrowid or 0
        self._database.execute("DELETE FROM audit WHERE id <= ?", (entry - _KEPT,))
        return entry

    def finish(self, entry: int, outcome: str = "done", before: Any = None, after: Any = None) -> None:
        """Completes an entry that was added before its change began, with the outcome `STARTED`."""
        self._database.execute(
            "UPDATE audit SET outcome = ?, before = ?, after = ? WHERE id = ?",
            (outcome[:500], _json(before), _json(after), entry),
        )

    def entries(self, most: int = 10_000) -> list[AuditEntry]:
        """The newest entries, newest first."""
        rows = self._database.execute(
            "SELECT id, at_ms, user, address, action, subject, outcome, before, after FROM audit ORDER BY id DESC LIMIT ?",
            (most,),
        )
        return [AuditEntry(*row) for row in rows]


def _json(value: Any) -> str:
    """The value as JSON, cut to a length that a page can show."""
    return "" if value is None else msgspec.json.encode(value).decode()[:LONGEST_DETAIL]
