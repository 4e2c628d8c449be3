"""Users: who may log in, and as what."""

import itertools
import re
import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from web.accounts.common_passwords import is_common
from web.accounts.login_limits import LONGEST_NAME
from web.accounts.oidc.identity import Identity
from web.accounts.passwords import LONGEST, SHORTEST, Passwords
from web.accounts.time_zones import is_choice
from web.errors import Invalid, NotFound
from web.routes import Access

IDENTITY_PREFIX: Final = "oidc:"
"""Before the names of users of a provider: no local user can have such a name."""
LOGS_IN_ELSEWHERE: Final = "{name} logs in with OpenID Connect and has no password here"
_ROLE_OF_PROVIDER: Final = "the role of {name} comes from the OpenID provider"
"""Causes of `require_local`."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._@-]")
_NAME: Final = re.compile(rf"[A-Za-z0-9._@-]{{1,{LONGEST_NAME}}}")


class User(Struct, frozen=True):
    """One user. Times are milliseconds since 1970, 0: never."""

    name: str
    access: Access
    created_ms: int
    last_login_ms: int
    issuer: str = ""
    """The OpenID provider of the user; empty: a local user, who has a password here."""
    subject: str = ""
    """Who it is at the provider."""
    display_name: str = ""
    """The user's name at the provider."""

    @property
    def is_local(self) -> bool:
        """Whether the user has a password here."""
        return not self.issuer


class Users:
    """The users in the database. At least one local user is an administrator once there is one, so that no provider can lock everybody out."""

    def __init__(self, database: sqlite3.Connection, passwords: Passwords, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._passwords = passwords
        self._now_ms = now_ms

    def list(self) -> list[User]:
        """All users, by name."""
        rows = self._database.execute(
            "SELECT name, access, created_ms, last_login_ms, issuer, subject, display_name FROM users ORDER BY name"
        )
        return [User(name, Access(access), *others) for name, access, *others in rows]

    def has_no_local_user(self) -> bool:
        """Whether there is no local user yet."""
        return self._database.execute("SELECT 1 FROM users WHERE issuer = '' LIMIT 1").fetchone() is None

    def find(self, name: str) -> User | None:
        """The user of that name."""
        return next((user for user in self.list() if user.name == name), None)

    async def add(self, name: str, password: str, access: Access) -> User:
        """Adds a user. Raises Invalid."""
        if not _NAME.fullmatch(name):
            raise Invalid(
                "the user name {name} is invalid",
                "Use 1 to 64 letters, digits, dots, hyphens, underscores and at signs.",
                name=repr(name[:80]),
            )
        check_password(password, name)
        stored = await self._passwords.hash(password)
        try:
            self._database.execute(
                "INSERT INTO users (name, access, password, created_ms, last_login_ms) VALUES (?, ?, ?, ?, 0)",
                (name, int(access), stored, self._now_ms()),
            )
        except sqlite3.IntegrityError:
            raise Invalid("the user {name} already exists", name=name) from None
        return User(name, access, self._now_ms(), 0)

    async def log_in(self, name: str, password: str) -> User | None:
        """The user if the password is right. A hash with weak parameters is replaced."""
        row = self._database.execute("SELECT password FROM users WHERE name = ? AND issuer = ''", (name,)).fetchone()
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

    def log_in_identity(self, identity: Identity) -> User:
        """The user of a provider, who is added at the first login; name and role are those that the provider gives now."""
        now_ms, access = self._now_ms(), int(identity.access)
        known = self.find_identity(identity)
        if known is None:
            name = self._free_name(identity.login)
            self._database.execute(
                "INSERT INTO users (name, access, password, created_ms, last_login_ms, issuer, subject, display_name)"
                " VALUES (?, ?, '', ?, ?, ?, ?, ?)",
                (name, access, now_ms, now_ms, identity.issuer, identity.subject, identity.display_name),
            )
        else:
            name = known.name
            self._database.execute(
                "UPDATE users SET access = ?, last_login_ms = ?, display_name = ? WHERE name = ?",
                (access, now_ms, identity.display_name, name),
            )
        user = self.find(name)
        assert user is not None  # this process is the only writer
        return user

    def find_identity(self, identity: Identity) -> User | None:
        """The user of a provider, whatever its name here."""
        who = (identity.issuer, identity.subject)
        return next((user for user in self.list() if (user.issuer, user.subject) == who), None)

    def remove_others(self, issuer: str) -> tuple[str, ...]:
        """Removes the users of providers other than `issuer` with their sessions and tokens; returns their names."""
        names = tuple(user.name for user in self.list() if not user.is_local and user.issuer != issuer)
        self._database.executemany("DELETE FROM users WHERE name = ?", [(name,) for name in names])
        return names

    async def set_password(self, name: str, password: str) -> None:
        """Changes a password. Raises Invalid, NotFound."""
        self.require_local(name, LOGS_IN_ELSEWHERE)
        check_password(password, name)
        stored = await self._passwords.hash(password)
        self._require(self._database.execute("UPDATE users SET password = ? WHERE name = ?", (stored, name)), name)

    def set_access(self, name: str, access: Access) -> None:
        """Changes what a user may do. Raises Invalid for the last administrator and for users of a provider, NotFound."""
        self.require_local(name, _ROLE_OF_PROVIDER)
        if access < Access.ADMIN:
            self._keep_an_administrator(name)
        self._require(self._database.execute("UPDATE users SET access = ? WHERE name = ?", (int(access), name)), name)

    def set_zone(self, name: str, zone: str) -> None:
        """Changes the time zone in which the user reads and enters times. Raises Invalid, NotFound."""
        if not is_choice(zone):
            raise Invalid("the time zone {zone} is unknown", "Choose one from the list.", zone=repr(zone[:80]))
        self._require(self._database.execute("UPDATE users SET zone = ? WHERE name = ?", (zone, name)), name)

    def require_local(self, name: str, cause: str) -> None:
        """Raises Invalid with the cause, in which `{name}` is replaced, for a user of a provider."""
        user = self.find(name)
        if user is not None and not user.is_local:
            raise Invalid(cause, "Change the user at the OpenID provider.", name=name)

    def remove(self, name: str) -> None:
        """Removes a user with its sessions. Raises Invalid for the last administrator, NotFound."""
        self._keep_an_administrator(name)
        self._require(self._database.execute("DELETE FROM users WHERE name = ?", (name,)), name)

    def _keep_an_administrator(self, name: str) -> None:
        if [user.name for user in self.list() if user.is_local and user.access is Access.ADMIN] == [name]:
            raise Invalid(
                "{name} is the last administrator with a password",
                "Make another user an administrator first.",
                name=name,
            )

    def _free_name(self, login: str) -> str:
        """A name that no local user can have, and no other user has."""
        plain = _NOT_IN_NAMES.sub("_", login)[:LONGEST_NAME]
        taken = {user.name for user in self.list()}
        names = (f"{IDENTITY_PREFIX}{plain}{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
        return next(name for name in names if name not in taken)

    @staticmethod
    def _require(done: sqlite3.Cursor, name: str) -> None:
        if done.rowcount == 0:
            raise NotFound("the user {name} does not exist", "Choose one from the list.", name=name[:80])


def check_password(password: str, user: str) -> None:
    """Raises Invalid for a password that is too short, too long, or common."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(
            "the password has {count} characters",
            "Choose one with {shortest} to {longest} characters.",
            count=len(password),
            shortest=SHORTEST,
            longest=LONGEST,
        )
    if is_common(password, user):
        raise Invalid(
            "the password is too common",
            "Choose several unrelated words, or let a password manager make one.",
        )
