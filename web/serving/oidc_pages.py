"""Login at an OpenID provider: the way there, and the way back."""

from typing import Final

from sanic import HTTPResponse, Request
from sanic.response import redirect

from web.accounts.audit_log import AuditLog
from web.accounts.login_limits import LoginLimits
from web.accounts.oidc.attempts import LIFETIME_MS, Attempt, Attempts
from web.accounts.oidc.identity import Identity
from web.accounts.oidc.provider import CHECK, OidcProvider
from web.accounts.users import User, Users
from web.errors import Invalid, ProviderFailed, QueryFailed, Refused
from web.routes import Access, Raw, Visit
from web.serving.login_pages import LoginPages, safe_path
from web.serving.visitors import Visitors

CALLBACK: Final = "/login/oidc/callback"
_LONGEST_CODE: Final = 4_096
_MOST_SECONDS: Final = LIFETIME_MS // 1_000


class OidcPages:
    """The two routes of a login at the provider."""

    def __init__(
        self,
        login: LoginPages,
        visitors: Visitors,
        provider: OidcProvider,
        users: Users,
        audit: AuditLog,
        limits: LoginLimits,
        attempts: Attempts,
    ) -> None:
        self._login = login
        self._visitors = visitors
        self._provider = provider
        self._users = users
        self._audit = audit
        self._limits = limits
        self._attempts = attempts

    def routes(self) -> list[Raw]:
        """What it serves."""
        # GET without a form: the policy `form-action 'self'` also holds for redirections after a form.
        return [Raw("/login/oidc", self._begin, Access.ANYONE), Raw(CALLBACK, self._finish, Access.ANYONE)]

    async def _begin(self, request: Request, visit: Visit) -> HTTPResponse:
        attempt = self._attempts.begin(safe_path(visit.arguments.get("next", "")))
        try:
            url = await self._provider.login_url(attempt, self._redirect_uri(request))
        except QueryFailed as failure:
            return self._login.login_form(request, visit, failure)
        response = _redirect(url)
        self._visitors.remember_attempt(request, response, attempt.cookie, _MOST_SECONDS)
        return response

    async def _finish(self, request: Request, visit: Visit) -> HTTPResponse:
        if not visit.arguments:  # the page after a failure was opened again
            return _redirect(f"{self._visitors.base_path}/login")
        try:
            attempt = self._attempts.find(self._visitors.attempt(request), visit.arguments.get("state", ""))
        except Refused as failure:
            # Neither counted nor in the audit log: any site can send a browser here, and would lock its address out.
            return self._login.login_form(request, visit, failure)
        try:
            user = await self._accept(request, visit, attempt)
        except QueryFailed as failure:
            response = self._login.login_form(request, visit, failure, then=attempt.then)
        else:
            response = self._login.begin_session(request, visit, user.name, attempt.then)
            response.headers["Cache-Control"] = "no-store"
        self._visitors.remember_attempt(request, response, "")
        return response

    async def _accept(self, request: Request, visit: Visit, attempt: Attempt) -> User:
        """The user who comes back from the provider. Every refusal counts as a failed login of the address and is in the audit log."""
        self._limits.check(visit.address, None)
        # order: counted before the provider is asked, so that attempts at the same time count.
        self._limits.failed(visit.address, None)
        who = self._provider.issuer
        try:
            identity = await self._identify(request, visit, attempt)
            who = _describe(identity)
            user = self._log_in(visit, identity)
        except ProviderFailed:
            self._limits.take_back(visit.address, None)  # not the user's fault
            raise
        except QueryFailed as failure:
            self._audit.add_refused("", visit.address, "login", who, str(failure))
            raise
        self._limits.take_back(visit.address, None)
        return user

    async def _identify(self, request: Request, visit: Visit, attempt: Attempt) -> Identity:
        given = visit.arguments
        self._attempts.finish(attempt)
        if "error" in given:
            raise _refusal(given["error"])
        code = given.get("code", "")
        if not (0 < len(code) <= _LONGEST_CODE and code.isascii() and code.isprintable()):
            raise Invalid("the response of the OpenID provider has no valid code", "Log in again.")
        return await self._provider.identify(attempt, code, given.get("iss"), self._redirect_uri(request))

    def _log_in(self, visit: Visit, identity: Identity) -> User:
        known = self._users.find_identity(identity)
        details = {
            "issuer": identity.issuer,
            "subject": identity.subject,
            "display_name": identity.display_name,
            "role": identity.access.name.lower(),
        }
        if identity.access is Access.ANYONE:
            if known is not None:
                # With its sessions and tokens: the provider gives it no role any more.
                self._audit.add(known.name, visit.address, "user.delete", known.name, before=details)
                self._users.remove(known.name)
            raise Refused(
                "{name} has no role in this console",
                "Ask an administrator for one: the claim {claim} has no value that gives a role.",
                name=identity.display_name,
                claim=self._provider.roles.claim,
            )
        user = self._users.log_in_identity(identity)
        if known is None:
            self._audit.add(user.name, visit.address, "user.create", user.name, after=details)
        elif known.access is not user.access:
            before = {**details, "role": known.access.name.lower()}
            self._audit.add(user.name, visit.address, "user.role", user.name, before=before, after=details)
        self._audit.add(user.name, visit.address, "login", _describe(identity), after=details)
        return user

    def _redirect_uri(self, request: Request) -> str:
        return f"{self._visitors.origin(request)}{self._visitors.base_path}{CALLBACK}"


def _describe(identity: Identity) -> str:
    return f"{identity.issuer} {identity.subject} ({identity.display_name})"


def _redirect(url: str) -> HTTPResponse:
    return redirect(url, status=303, headers={"Cache-Control": "no-store"})


def _refusal(code: str) -> Refused:
    """The provider's own refusal. Its code comes through the browser: only a known one is shown."""
    if code == "access_denied":
        return Refused(
            "the login was cancelled, or the OpenID provider does not permit it",
            "Log in again, or ask the provider's administrator.",
        )
    known = {"login_required", "consent_required", "interaction_required", "account_selection_required",
             "invalid_scope", "invalid_request", "unauthorized_client", "unsupported_response_type", "server_error",
             "temporarily_unavailable"}  # fmt: skip
    if code not in known:
        return Refused("the OpenID provider refused the login with an unknown error", CHECK)
    return Refused("the OpenID provider refused the login: {code}", CHECK, code=code)
