"""Users, their sessions, and the audit log. For administrators, except one's own password."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from web.accounts.audit_log import LOGIN, AuditEntry, AuditLog
from web.accounts.login_limits import WRONG_PASSWORDS, LoginLimits
from web.accounts.sessions import Sessions
from web.accounts.time_zones import server_zone, zones
from web.accounts.users import LOGS_IN_ELSEWHERE, User, Users
from web.errors import Invalid, NotFound
from web.pages.audit_actions import ACTION_WORDS, ACTIONS
from web.paths import path_of
from web.routes import Access, Change, Outcome, Query, Route, View, Visit, secret
from web.tables.table import Column, Kind, Table

_MENU: Final = "Users"
_MOST_ENTRIES: Final = 10_000  # limit: entries of the audit log that a page filters
_MOST_SHOWN: Final = (
    1_000  # limit: characters of a value before or after a change on a page; CSV, JSON Lines and the API have all
)
_ACCESS: Final = {access.name.lower(): access for access in Access if access is not Access.ANYONE}


class UserRow(msgspec.Struct, frozen=True):
    """One user."""

    user: str
    role: str
    kind: str
    """`local`: with a password here; `oidc`: logs in at the OpenID provider."""
    created: int
    last_login: int
    sessions: int


class SessionRow(msgspec.Struct, frozen=True):
    """One session."""

    session: str
    user: str
    address: str
    browser: str
    created: int
    last_seen: int


class AccountEvent(msgspec.Struct, frozen=True):
    """A login, or a change of a user's password or role."""

    at: int
    event: str
    outcome: str
    user: str
    """Who did it; empty for a login that failed."""
    address: str


class AddUserForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new user."""

    user: str
    password: str
    role: str


class RoleForm(msgspec.Struct, forbid_unknown_fields=True):
    """Another role of a user."""

    role: str


class NewPasswordForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new password, set by an administrator."""

    password: str


class OwnPasswordForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new password, set by the user."""

    current: str
    password: str
    again: str


class ZoneForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The time zone in which a user reads and enters times."""

    zone: str
    """A name of the IANA time zones, `UTC`, `server`, or empty: that of the browser."""


class NothingForm(msgspec.Struct, forbid_unknown_fields=True):
    """A form without fields."""


_USER_COLUMNS: Final[tuple[Column[UserRow], ...]] = (
    Column("user", "User", link=lambda row: path_of("users", row.user)),
    Column("role", "Role", is_word=True),
    Column("kind", "Kind", is_word=True),
    Column("created", "Created", Kind.TIME),
    Column("last_login", "Last login", Kind.TIME),
    Column("sessions", "Sessions", Kind.NUMBER),
)
_SESSION_COLUMNS: Final[tuple[Column[SessionRow], ...]] = (
    Column("session", "Session", link=lambda row: path_of("sessions", row.session)),
    Column("user", "User", link=lambda row: path_of("users", row.user)),
    Column("address", "Address"),
    Column("browser", "Browser"),
    Column("created", "Created", Kind.TIME),
    Column("last_seen", "Last used", Kind.TIME),
)
_AUDIT_COLUMNS: Final[tuple[Column[AuditEntry], ...]] = (
    Column("at_ms", "Time", Kind.TIME),
    Column("user", "User"),
    Column("action", "Action", says=lambda row: (ACTION_WORDS.get(row.action, row.action), {})),
    Column("subject", "Subject"),
    Column("outcome", "Outcome", is_word=True),
    Column("address", "Address"),
    Column("before", "Before", says=lambda row: _beginning(row.before)),
    Column("after", "After", says=lambda row: _beginning(row.after)),
)


_EVENT_WORDS: Final = {
    LOGIN: "logged in",
    "account.password": "password changed",
    "user.password": "password set by an administrator",
    "user.role": "role changed",
}
"""English, keys of the translations."""
_EVENT_COLUMNS: Final[tuple[Column[AccountEvent], ...]] = (
    Column("at", "Time", Kind.TIME),
    Column("event", "Action", is_word=True),
    Column("outcome", "Outcome", is_word=True),
    Column("user", "User"),
    Column("address", "Address"),
)


class UserPages:
    """The pages of users, sessions and the audit log."""

    def __init__(self, users: Users, sessions: Sessions, audit: AuditLog, limits: LoginLimits) -> None:
        self._users = users
        self._sessions = sessions
        self._audit = audit
        self._limits = limits

    def routes(self) -> list[Route]:
        """What it serves."""
        admin = Access.ADMIN
        return [
            Query("/users", self.list_users, "List users and sessions.", admin, _MENU, shortcut="u"),
            Query("/users/<user:str>", self.show_user, "Show a user.", admin, section=_MENU),
            Query("/sessions/<session:str>", self.show_session, "Show a session.", admin, section=_MENU),
            Query("/account", self.show_account, "Show your own account."),
            Query(
                "/audit",
                self.list_audit,
                "Show the audit log.",
                admin,
                "Audit log",
                shortcut="a",
                arguments=ACTIONS.argument,
            ),
            Change(
                "/users",
                AddUserForm,
                self.add,
                "user.create",
                "Create a user.",
                admin,
                lambda _, form: form.user,
                secret("password"),
            ),
            Change("/users/<user:str>/role", RoleForm, self.set_role, "user.role", "Change a user's role.", admin),
            Change(
                "/users/<user:str>/password",
                NewPasswordForm,
                self.set_password,
                "user.password",
                "Set a password.",
                admin,
                secrets=secret("password"),
            ),
            Change("/users/<user:str>/delete", NothingForm, self.delete, "user.delete", "Delete a user.", admin),
            Change(
                "/sessions/<session:str>/delete", NothingForm, self.end_session, "session.end", "End a session.", admin
            ),
            Change(
                "/account/zone",
                ZoneForm,
                self.set_zone,
                "account.zone",
                "Choose the time zone in which the pages show times.",
                Access.VIEWER,
                lambda visit, _: visit.user,
            ),
            Change(
                "/account/password",
                OwnPasswordForm,
                self.set_own_password,
                "account.password",
                "Change your own password.",
                Access.VIEWER,
                lambda visit, _: visit.user,
                secret("current", "password", "again"),
            ),
        ]

    # ---- queries

    async def list_users(self, _visit: Visit) -> View:
        """All users, and all sessions."""
        sessions = self._session_rows()
        users = [
            UserRow(
                user.name,
                user.access.name.lower(),
                _kind(user),
                user.created_ms,
                user.last_login_ms,
                sum(session.user == user.name for session in sessions),
            )
            for user in self._users.list()
        ]
        tables: list[Table[Any]] = [
            Table("users", UserRow, users, _USER_COLUMNS, search=("user", "role"), sort="user"),
            Table(
                "sessions",
                SessionRow,
                sessions,
                _SESSION_COLUMNS,
                search=("user", "address", "browser"),
                sort="-last_seen",
            ),
        ]
        return View("Users", "users/list.html", {"roles": list(_ACCESS)}, tables)

    async def show_user(self, visit: Visit) -> View:
        """One user."""
        name = visit.path["user"]
        user = self._users.find(name)
        if user is None:
            raise NotFound("the user {name} does not exist", "Choose one from the list.", name=name[:80])
        sessions = [session for session in self._session_rows() if session.user == name]
        data = {
            "user": user.name,
            "role": user.access.name.lower(),
            "roles": list(_ACCESS),
            "created": user.created_ms,
            "last_login": user.last_login_ms,
            "kind": _kind(user),
            "issuer": user.issuer,
            "subject": user.subject,
            "display_name": user.display_name,
        }
        columns = tuple(column for column in _SESSION_COLUMNS if column.key != "user")
        table = Table("sessions", SessionRow, sessions, columns, sort="-last_seen", empty="The user has no session.")
        return View("User", "users/show.html", data, [table], name)

    async def show_session(self, visit: Visit) -> View:
        """One session."""
        session = next((row for row in self._session_rows() if row.session == visit.path["session"]), None)
        if session is None:
            raise NotFound("the session has ended", "Choose one from the list.")
        return View("Session", "users/session.html", {"session": session}, subject=session.user)

    async def show_account(self, visit: Visit) -> View:
        """The user's own account."""
        user = self._users.find(visit.user)
        kind = "local" if user is None else _kind(user)
        data = {
            "role": visit.access.name.lower(),
            "kind": kind,
            "zone": visit.zone,
            "zones": zones(),
            "server_zone": server_zone(),
        }
        events = [
            AccountEvent(one.at_ms, _EVENT_WORDS[one.action], one.outcome, one.user, one.address)
            for one in self._audit.of_account(visit.user)
        ]
        table = Table(
            "events", AccountEvent, events, _EVENT_COLUMNS, sort="-at", empty="No login and no change is recorded."
        )
        return View("Your account", "users/account.html", data, [table], visit.user)

    async def list_audit(self, _visit: Visit) -> View:
        """The newest entries of the audit log."""
        entries = self._audit.entries(_MOST_ENTRIES)
        table = Table(
            "audit",
            AuditEntry,
            entries,
            _AUDIT_COLUMNS,
            choices=(ACTIONS,),
            choose=lambda row, chosen: chosen["action"] in {"all", row.action},
            search=("user", "address", "action", "subject", "outcome", "before", "after"),
            sort="-at_ms",
            empty="The audit log is empty.",
        )
        return View("Audit log", "users/audit.html", {"is_cut": len(entries) >= _MOST_ENTRIES}, [table])

    # ---- changes

    async def add(self, _visit: Visit, form: AddUserForm) -> Outcome:
        """Adds a user."""
        user = await self._users.add(form.user, form.password, _access(form.role))
        return Outcome("The user {user} was created.", {"user": user.name}, "/users", after={"role": form.role})

    async def set_role(self, visit: Visit, form: RoleForm) -> Outcome:
        """Changes a user's role; open sessions have it at once."""
        name = visit.path["user"]
        before = self._users.find(name)
        self._users.set_access(name, _access(form.role))
        return Outcome(
            "The role of {user} is now {role}.",
            {"user": name, "role": form.role},
            path_of("users", name),
            None if before is None else {"role": before.access.name.lower()},
            {"role": form.role},
        )

    async def set_password(self, visit: Visit, form: NewPasswordForm) -> Outcome:
        """Sets a user's password and ends the user's sessions."""
        name = visit.path["user"]
        await self._users.set_password(name, form.password)
        ended = self._sessions.close_all(name)
        return Outcome(
            "The password of {user} was changed and the user's sessions ended.",
            {"user": name},
            path_of("users", name),
            after={"ended_sessions": ended},
        )

    async def delete(self, visit: Visit, _form: NothingForm) -> Outcome:
        """Deletes a user; the user's sessions end."""
        name = visit.path["user"]
        user = self._users.find(name)
        self._users.remove(name)
        before = None if user is None else {"role": user.access.name.lower()}
        return Outcome("The user {user} was deleted.", {"user": name}, "/users", before=before)

    async def end_session(self, visit: Visit, _form: NothingForm) -> Outcome:
        """Ends a session."""
        ended = self._sessions.close_id(visit.path["session"])
        if ended is None:
            raise NotFound("the session has already ended", "Reload the page.")
        before = {"user": ended.user, "address": ended.address}
        return Outcome("The session was ended.", {}, "/users", before)

    async def set_zone(self, visit: Visit, form: ZoneForm) -> Outcome:
        """Changes the time zone of the user's pages. Raises Invalid."""
        self._users.set_zone(visit.user, form.zone)
        return Outcome(
            "The time zone was changed.",
            location="/account",
            before={"zone": visit.zone},
            after={"zone": form.zone},
        )

    async def set_own_password(self, visit: Visit, form: OwnPasswordForm) -> Outcome:
        """Changes the user's own password and ends the user's other sessions and this one."""
        self._limits.check(visit.address, visit.user, WRONG_PASSWORDS)
        if form.password != form.again:
            raise Invalid("the two new passwords differ")
        self._users.require_local(visit.user, LOGS_IN_ELSEWHERE)
        self._limits.failed(visit.address, visit.user)
        if await self._users.log_in(visit.user, form.current) is None:
            raise Invalid("the current password is wrong")
        self._limits.succeeded(visit.address, visit.user)
        await self._users.set_password(visit.user, form.password)
        ended = self._sessions.close_all(visit.user)
        return Outcome("Your password was changed. Log in again.", {}, "/", after={"ended_sessions": ended})

    def _session_rows(self) -> list[SessionRow]:
        return [
            SessionRow(one.id, one.user, one.address, one.browser, one.created_ms, one.seen_ms)
            for one in self._sessions.list()
        ]


def _kind(user: User) -> str:
    return "local" if user.is_local else "oidc"


def _access(role: str) -> Access:
    if role not in _ACCESS:
        raise Invalid("the role {role} is not one of {choices}", role=repr(role[:20]), choices=", ".join(_ACCESS))
    return _ACCESS[role]


def _beginning(text: str) -> tuple[str, Mapping[str, Any]] | None:
    """What a page shows of a long value; None: all of it."""
    return ("{beginning} …", {"beginning": text[:_MOST_SHOWN]}) if len(text) > _MOST_SHOWN else None
