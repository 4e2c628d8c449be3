"""Tokens: what programs log in with at the API. The database has only their hashes."""

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from web.accounts.database import unsynced
from web.errors import Invalid
from web.routes import Access

PREFIX: Final = "headrace_"
"""So that tools which look for leaked secrets recognize one."""
MOST_OF_USER: Final = 50
MOST_DAYS: Final = 366
_DAY_MS: Final = 86_400_000
_USED_EVERY_MS: Final = 60_000  # limit: how often the use of a token is written
_LONGEST_NAME: Final = 64


class Token(Struct, frozen=True):
    """One token. `id` identifies it to users and cannot be used to log in. Times are milliseconds since 1970; used 0: never."""

    id: str
    name: str
    user: str
    access: Access
    """What it may do now: no more than its user may."""
    created_ms: int
    expires_ms: int
    used_ms: int


class Tokens:
    """The tokens in the database."""

    def __init__(self, database: sqlite3.Connection, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    def create(self, user: str, name: str, access: Access, days: int) -> str:
        """Creates a token that is valid for some days; returns it, and stores only its hash. Raises Invalid."""
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise Invalid("the token name must have 1 to {most} printable characters", most=_LONGEST_NAME)
        if not 1 <= days <= MOST_DAYS:
            raise Invalid("days={days}: expected a number from 1 to {most}", days=days, most=MOST_DAYS)
        now_ms = self._now_ms()
        self._database.execute("DELETE FROM tokens WHERE expires_ms <= ?", (now_ms,))
        if sum(token.user == user for token in self.list()) >= MOST_OF_USER:
            raise Invalid(
                "{user} already has {most} tokens",
                "Revoke a token that is no longer used.",
                user=user,
                most=MOST_OF_USER,
            )
        secret = PREFIX + secrets.token_urlsafe(32)
        self._database.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (secrets.token_hex(8), _key(secret), name, user, int(access), now_ms, now_ms + days * _DAY_MS),
        )
        return secret

    def find(self, secret: str) -> Token | None:
        """The token; None if it was revoked, has expired, or never existed. Notes that it is used."""
        now_ms = self._now_ms()
        row = self._database.execute(f"{_SELECT} WHERE key = ? AND expires_ms > ?", (_key(secret), now_ms)).fetchone()
        if row is None:
            return None
        token = _token(row)
        if token.used_ms < now_ms - _USED_EVERY_MS:
            with contextlib.suppress(sqlite3.Error), unsynced(self._database):
                self._database.execute("UPDATE tokens SET used_ms = ? WHERE id = ?", (now_ms, token.id))
        return token

    def list(self) -> list[Token]:
        """All tokens that have not expired, by user and name."""
        rows = self._database.execute(f"{_SELECT} WHERE expires_ms > ? ORDER BY user, tokens.name", (self._now_ms(),))
        return [_token(row) for row in rows]

    def revoke(self, token_id: str) -> None:
        """Deletes a token."""
        self._database.execute("DELETE FROM tokens WHERE id = ?", (token_id,))


_SELECT: Final = (
    "SELECT id, tokens.name, user, min(tokens.access, users.access), tokens.created_ms, expires_ms, used_ms"
    " FROM tokens JOIN users ON users.name = tokens.user"
)


def _token(row: tuple[str, str, str, int, int, int, int]) -> Token:
    token_id, name, user, access, created_ms, expires_ms, used_ms = row
    return Token(token_id, name, user, Access(access), created_ms, expires_ms, used_ms)


def _key(secret: str) -> bytes:
    return hashlib.sha256(b"token:" + secret.encode("utf-8", "surrogatepass")).digest()
