"""Users: who may log in, and as what."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from web.accounts.common_passwords import is_common
from web.accounts.login_limits import LONGEST_NAME
from web.accounts.passwords import LONGEST, SHORTEST, Passwords
from web.errors import Invalid, NotFound
from web.routes import Access

_NAME: Final = re.compile(rf"[A-Za-z0-9._@-]{{1,{LONGEST_NAME}}}")


@dataclass(frozen=True, slots=True)
class User:
    """One user. Times are milliseconds since 1970, 0: never."""

    name: str
    access: Access
    created_ms: int
    last_login_ms: int


class Users:
    """The users in the database. At least one of them is an administrator once there is one."""

    def __init__(self, database: sqlite3.Connection, passwords: Passwords, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._passwords = passwords
        self._now_ms = now_ms

    def list(self) -> list[User]:
        """All users, by name."""
        rows = self._database.execute("SELECT name, access, created_ms, last_login_ms FROM users ORDER BY name")
        return [User(name, Access(access), created, seen) for name, access, created, seen in rows]

    def is_empty(self) -> bool:
        """Whether there is no user yet."""
        return self._database.execute("SELECT 1 FROM users LIMIT 1").fetchone() is None

    def find(self, name: str) -> User | None:
        """The user of that name."""
        return next((user for user in self.list() if user.name == name), None)

    async def add(self, name: str, password: str, access: Access) -> User:
        """Adds a user. Raises Invalid."""
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"the user name {name[:80]!r} is invalid",
                "Use 1 to 64 letters, digits, dots, hyphens, underscores and at signs.",
            )
        check_password(password, name)
        stored = await self._passwords.hash(password)
        try:
            self._database.execute(
                "INSERT INTO users VALUES (?, ?, ?, ?, 0)", (name, int(access), stored, self._now_ms())
            )
        except sqlite3.IntegrityError:
            raise Invalid(f"the user {name} already exists") from None
        return User(name, access, self._now_ms(), 0)

    async def log_in(self, name: str, password: str) -> User | None:
        """The user if the password is right. A hash with weak parameters is replaced."""
        row = self._database.execute("SELECT password FROM users WHERE name = ?", (name,)).fetchone()
        stored = None if row is None else str(row[0])
        if len(password) > LONGEST or not await self._passwords.is_right(stored, password) or stored is None:
            return None
        renewed = await self._passwords.hash(password) if self._passwords.is_weak(stored) else stored
        done = self._database.execute(
            "UPDATE users SET last_login_ms = ?, password = ? WHERE name = ? AND password = ?",
            (self._now_ms(), renewed, name, stored),
        )
        # The password may have been changed, or the user removed, while the old one was checked.
        return self.find(name) if done.rowcount else None

    async def set_password(self, name: str, password: str) -> None:
        """Changes a password. Raises Invalid, NotFound."""
        check_password(password, name)
        stored = await self._passwords.hash(password)
        self._require(self._database.execute("UPDATE users SET password = ? WHERE name = ?", (stored, name)), name)

    def set_access(self, name: str, access: Access) -> None:
        """Changes what a user may do. Raises Invalid for the last administrator, NotFound."""
        if access < Access.ADMIN:
            self._keep_an_administrator(name)
        self._require(self._database.execute("UPDATE users SET access = ? WHERE name = ?", (int(access), name)), name)

    def remove(self, name: str) -> None:
        """Removes a user with its sessions. Raises Invalid for the last administrator, NotFound."""
        self._keep_an_administrator(name)
        self._require(self._database.execute("DELETE FROM users WHERE name = ?", (name,)), name)

    def _keep_an_administrator(self, name: str) -> None:
        if [user.name for user in self.list() if user.access is Access.ADMIN] == [name]:
            raise Invalid(f"{name} is the last administrator", "Make another user an administrator first.")

    @staticmethod
    def _require(done: sqlite3.Cursor, name: str) -> None:
        if done.rowcount == 0:
            raise NotFound(f"the user {name[:80]} does not exist")


def check_password(password: str, user: str) -> None:
    """Raises Invalid for a password that is too short, too long, or common."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(
            f"the password has {len(password)} characters", f"Choose one with {SHORTEST} to {LONGEST} characters."
        )
    if is_common(password, user):
        raise Invalid(
            "the password is among those that are guessed first",
            "Choose several unrelated words, or let a password manager make one.",
        )
