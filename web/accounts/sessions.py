"""Sessions: opaque tokens of browsers. The database has only their hashes, so that a stolen file opens no session."""

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from web.accounts.database import unsynced
from web.routes import Access

IDLE_MS: Final = 12 * 3_600_000
"""A session that was not used for this long ends."""
LONGEST_MS: Final = 7 * 24 * 3_600_000
"""A session ends after this time even if it is used."""
_SEEN_EVERY_MS: Final = 60_000  # limit: how often the use of a session is written


class Session(Struct, frozen=True):
    """One session. `id` identifies it to users and cannot be used to log in."""

    id: str
    user: str
    access: Access
    created_ms: int
    seen_ms: int
    address: str
    browser: str
    zone: str = ""
    """The time zone that its user chose (`time_zones`)."""


class Sessions:
    """The sessions in the database."""

    def __init__(self, database: sqlite3.Connection, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    def open(self, user: str, address: str, browser: str) -> str:
        """Opens a session; returns its token, which is stored nowhere."""
        now_ms = self._now_ms()
        token = secrets.token_urlsafe(32)
        with unsynced(self._database):
            self._database.execute(
                "DELETE FROM sessions WHERE seen_ms < ? OR created_ms < ?", (now_ms - IDLE_MS, now_ms - LONGEST_MS)
            )
            self._database.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                (_key(token), user, now_ms, now_ms, address, browser[:200]),
            )
        return token

    def find(self, token: str) -> Session | None:
        """The session of a token, with what its user may do now. None if it has ended. Notes that it is used."""
        now_ms = self._now_ms()
        row = self._database.execute(f"{_SELECT} WHERE key = ?", (_key(token),)).fetchone()
        if row is None:
            return None
        session = _session(row)
        if session.seen_ms < now_ms - IDLE_MS or session.created_ms < now_ms - LONGEST_MS:
            return None
        if session.seen_ms < now_ms - _SEEN_EVERY_MS:
            with contextlib.suppress(sqlite3.Error), unsynced(self._database):  # a full disk closes no session
                self._database.execute("UPDATE sessions SET seen_ms = ? WHERE key = ?", (now_ms, _key(token)))
        return session

    def list(self) -> list[Session]:
        """All sessions that have not ended, the last used first."""
        now_ms = self._now_ms()
        rows = self._database.execute(
            f"{_SELECT} WHERE seen_ms >= ? AND sessions.created_ms >= ? ORDER BY seen_ms DESC",
            (now_ms - IDLE_MS, now_ms - LONGEST_MS),
        )
        return [_session(row) for row in rows]

    def close(self, token: str) -> None:
        """Ends the session of a token."""
        self._database.execute("DELETE FROM sessions WHERE key = ?", (_key(token),))

    def close_id(self, session_id: str) -> Session | None:
        """Ends a session by its id and returns it; None if there is none."""
        for row in self._database.execute(_SELECT).fetchall():
            if _id(row[0]) == session_id:
                self._database.execute("DELETE FROM sessions WHERE key = ?", (row[0],))
                return _session(row)
        return None

    def close_all(self, user: str) -> int:
        """Ends all sessions of a user; returns how many."""
        return self._database.execute("DELETE FROM sessions WHERE user = ?", (user,)).rowcount


_SELECT: Final = (
    "SELECT key, user, users.access, sessions.created_ms, seen_ms, address, browser, users.zone"
    " FROM sessions JOIN users ON users.name = sessions.user"
)


def csrf_token(token: str) -> str:
    """The token that forms of a session carry: known only to who knows the session's token, which scripts cannot read."""
    return hashlib.sha256(b"csrf:" + token.encode("utf-8", "surrogatepass")).hexdigest()


def _session(row: tuple[bytes, str, int, int, int, str, str, str]) -> Session:
    key, user, access, created_ms, seen_ms, address, browser, zone = row
    return Session(_id(key), user, Access(access), created_ms, seen_ms, address, browser, zone)


def _key(token: str) -> bytes:
    return hashlib.sha256(b"session:" + token.encode("utf-8", "surrogatepass")).digest()


def _id(key: bytes) -> str:
    return key.hex()[:16]
