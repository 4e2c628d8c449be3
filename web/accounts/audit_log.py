"""AuditLog: every change, login and refusal: who, from where, what, before and after."""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

from web.accounts.database import unsynced

STARTED: Final = "started"
"""The outcome of a change that is in progress, or during which the console was killed."""
LONGEST_DETAIL: Final = 65_536  # limit: bytes; what a reset of 1,000 queues needs
_KEPT: Final = 100_000  # limit: entries, some 50 MB at most besides details; the oldest are dropped
# limit: bytes of `before` and `after` of all entries; the page reads those of 10,000 entries
_DETAILS_KEPT: Final = 32 << 20
_REFUSED_KEPT: Final = 10_000  # limit: of refusals, which anybody can cause
_TRIM_EVERY: Final = 100
_SEARCHED: Final = 10_000  # limit: entries that a page and a login look at
LOGIN: Final = "login"


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
        return self._insert(user, address, action, subject, outcome, _json(before), _json(after), is_refused=False)

    def add_refused(self, user: str, address: str, action: str, subject: str, reason: str) -> None:
        """Adds a login or change that was refused. Refusals drive out older refusals only, and the loop does not wait for the disk."""
        with unsynced(self._database):
            self._insert(user, address, action, subject, f"refused: {reason}", "", "", is_refused=True)

    def _insert(
        self,
        user: str,
        address: str,
        action: str,
        subject: str,
        outcome: str,
        before: str,
        after: str,
        *,
        is_refused: bool,
    ) -> int:
        done = self._database.execute(
            "INSERT INTO audit (at_ms, user, address, action, subject, outcome, before, after, is_refused)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._now_ms(), user, address, action, subject[:500], outcome[:500], before, after, int(is_refused)),
        )
        entry = done.lastrowid or 0
        if entry % _TRIM_EVERY == 0:
            for refused, kept in ((0, _KEPT), (1, _REFUSED_KEPT)):
                self._database.execute(
                    "DELETE FROM audit WHERE is_refused = ? AND id <="
                    " (SELECT id FROM audit WHERE is_refused = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                    (refused, refused, kept),
                )
            self._database.execute(
                "DELETE FROM audit WHERE id <= (SELECT max(id) FROM (SELECT id, sum(length(before) + length(after))"
                " OVER (ORDER BY id DESC) AS size FROM audit WHERE is_refused = 0) WHERE size > ?) AND is_refused = 0",
                (_DETAILS_KEPT,),
            )
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

    def of_account(self, user: str, most: int = 50) -> list[AuditEntry]:
        """The newest logins, and changes of password and role, of a user, among the newest entries; newest first."""
        rows = self._database.execute(
            "SELECT id, at_ms, user, address, action, subject, outcome, before, after FROM audit"
            " WHERE id > (SELECT max(id) FROM audit) - ? AND (subject = ? OR (user = ? AND action = 'login'))"
            " AND action IN ('login', 'account.password', 'user.password', 'user.role') ORDER BY id DESC LIMIT ?",
            (_SEARCHED, user, user, most),
        )
        return [AuditEntry(*row) for row in rows]


def _json(value: Any) -> str:
    """The value as JSON; of a value that is too long its beginning, as a text."""
    text = "" if value is None else msgspec.json.encode(value).decode()
    if len(text) <= LONGEST_DETAIL:
        return text
    # Quotes and backslashes in it need two characters each.
    return msgspec.json.encode({"length": len(text), "beginning": text[: LONGEST_DETAIL // 2 - 100]}).decode()
