"""Login, logout and the first administrator. These set cookies, which no other page does."""

from collections.abc import Sequence
from typing import Final

from sanic import HTTPResponse, Request
from sanic.response import redirect

from web.accounts.audit_log import LOGIN, AuditEntry, AuditLog
from web.accounts.first_login import FirstLogin
from web.accounts.login_limits import LoginLimits
from web.accounts.sessions import csrf_token
from web.accounts.users import Users
from web.errors import Invalid, QueryFailed, Refused, TooOften
from web.paths import path_of
from web.routes import Access, Outcome, Raw, View, Visit
from web.serving.forms import read_fields
from web.serving.page_renderer import PageRenderer
from web.serving.visitors import CSRF_FIELD
from web.translations import LANGUAGES

_LANGUAGE_DAYS: Final = 365


class LoginPages:
    """The pages before the others."""

    def __init__(
        self,
        pages: PageRenderer,
        users: Users,
        audit: AuditLog,
        limits: LoginLimits,
        first_login: FirstLogin,
        provider: str = "",
    ) -> None:
        """`provider`: the name of the OpenID provider with which users may log in, too; empty: none."""
        self._pages = pages
        self._visitors = pages.visitors
        self._users = users
        self._audit = audit
        self._limits = limits
        self._first_login = first_login
        self._provider = provider

    def routes(self) -> list[Raw]:
        """What it serves."""
        return [
            Raw("/login", self._show_login, Access.ANYONE),
            Raw("/login", self._log_in, Access.ANYONE, ("POST",)),
            Raw("/logout", self._log_out, Access.VIEWER, ("POST",)),
            Raw("/first-login", self._show_first, Access.ANYONE),
            Raw("/first-login", self._add_first, Access.ANYONE, ("POST",)),
            Raw("/language", self._set_language, Access.ANYONE, ("POST",)),
        ]

    async def _show_login(self, request: Request, visit: Visit) -> HTTPResponse:
        return self.login_form(request, visit)

    async def _log_in(self, request: Request, visit: Visit) -> HTTPResponse:
        self._visitors.check_origin(request)
        name, password = _field(request, "name").strip(), _field(request, "password")
        try:
            self._limits.check(visit.address, name)
        except TooOften as failure:
            return self.login_form(request, visit, failure, name)
        # order: counted before the password is checked, so that attempts at the same time count.
        self._limits.failed(visit.address, name)
        user = await self._users.log_in(name, password)
        if user is None:
            self._audit.add_refused("", visit.address, "login", name, "wrong name or password")
            return self.login_form(request, visit, Refused("the user name or the password is wrong"), name)
        self._limits.succeeded(visit.address, name)
        self._audit.add(user.name, visit.address, "login", user.name)
        return self.begin_session(request, visit, user.name, _field(request, "next"))

    async def _log_out(self, request: Request, visit: Visit) -> HTTPResponse:
        self._visitors.check_csrf(request, _field(request, CSRF_FIELD))
        self._visitors.sessions.close(self._visitors.token(request))
        self._audit.add(visit.user, visit.address, "logout", visit.user)
        response = redirect(self._pages.templates.url("/login"), status=303)
        self._visitors.remember(request, response, "")
        return response

    async def _show_first(self, request: Request, visit: Visit) -> HTTPResponse:
        self._check_first(visit.arguments.get("token", ""))
        return self._first_form(request, visit)

    async def _add_first(self, request: Request, visit: Visit) -> HTTPResponse:
        self._visitors.check_origin(request)
        self._check_first(visit.arguments.get("token", ""))
        name, password = _field(request, "name").strip(), _field(request, "password")
        self._first_login.claim()  # order: before anything is awaited, so that two requests make one administrator
        try:
            if password != _field(request, "again"):
                raise Invalid("the two passwords differ")
            user = await self._users.add(name, password, Access.ADMIN)
        except Invalid as failure:
            return self._first_form(request, visit, failure, name)
        finally:
            self._first_login.release()
        self._first_login.use()
        self._audit.add(user.name, visit.address, "user.create", user.name, after={"role": "admin"})
        await self._users.log_in(name, password)
        self._audit.add(user.name, visit.address, LOGIN, user.name)
        return self.begin_session(request, visit, user.name, "/")

    async def _set_language(self, request: Request, _visit: Visit) -> HTTPResponse:
        self._visitors.check_origin(request)
        language = _field(request, "language")
        if language not in LANGUAGES:
            raise Invalid(
                "language={language} is not one of {choices}",
                language=repr(language[:80]),
                choices=", ".join(LANGUAGES),
            )
        response = redirect(self._pages.templates.url(safe_path(_field(request, "next"))), status=303)
        response.add_cookie(
            "language",
            language,
            path=self._visitors.base_path or "/",
            max_age=_LANGUAGE_DAYS * 86_400,
            samesite="Lax",
            secure=self._visitors.is_https(request),
        )
        return response

    def begin_session(self, request: Request, visit: Visit, user: str, then: str) -> HTTPResponse:
        """Opens a session of the user, who has proved who it is; leads to the page that was asked for."""
        # A new token: whoever planted the old one has nothing.
        self._visitors.sessions.close(self._visitors.token(request))
        token = self._visitors.sessions.open(user, visit.address, request.headers.get("user-agent", ""))
        told = what_happened(self._audit.of_account(user))
        if told is not None:
            self._pages.notice_to(csrf_token(token), told)
        response = redirect(self._pages.templates.url(safe_path(then)), status=303)
        self._visitors.remember(request, response, token)
        return response

    def login_form(
        self,
        request: Request,
        visit: Visit,
        failure: QueryFailed | None = None,
        name: str = "",
        then: str = "",
    ) -> HTTPResponse:
        """The login page; after a failure with its cause. `then`: the page that was asked for, if the request does not name it."""
        then = safe_path(then or _field(request, "next") or visit.arguments.get("next", ""))
        data = {"name": name, "failure": failure, "next": then, "is_new": self._users.has_no_local_user()}
        data["link_file"], data["provider"] = str(self._first_login.path), self._provider
        view, status = View("Log in", "login.html", data), 200 if failure is None else failure.status
        return self._pages.page(request, visit, view, status=status, address=path_of("login", next=then))

    # ---- within

    def _check_first(self, token: str) -> None:
        if not self._users.has_no_local_user() or not self._first_login.is_right(token):
            raise Refused(
                "the link is invalid, expired or already used",
                "If there is no local user yet, restart the console: it writes a new link to its log.",
            )

    def _first_form(
        self, request: Request, visit: Visit, failure: QueryFailed | None = None, name: str = ""
    ) -> HTTPResponse:
        data = {"name": name, "failure": failure, "token": visit.arguments.get("token", "")}
        view = View("Create the first administrator", "first_login.html", data)
        return self._pages.page(request, visit, view, status=200 if failure is None else failure.status)


def what_happened(events: Sequence[AuditEntry]) -> Outcome | None:
    """What a user who has just logged in is told: that password or role were changed since the login before, or that it came from another address."""
    done = [event for event in events if event.outcome == "done"]
    logins = [at for at, event in enumerate(done) if event.action == LOGIN]
    if len(logins) < 2:
        return None
    now, before = done[logins[0]], done[logins[1]]
    if logins[1] - logins[0] > 1:
        text = "Your password or your role was changed since your last login. If you did not expect this, tell an administrator."
        return Outcome(text, {}, is_warning=True, details="/account")
    if now.address != before.address:
        text = "Your last login was from another address: {address}."
        return Outcome(text, {"address": before.address}, details="/account")
    return None


def safe_path(path: str) -> str:
    """A page of the console; the start page in place of anything that could lead elsewhere."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_own else "/"


def _field(request: Request, name: str) -> str:
    return read_fields(request).get(name, [""])[0]
