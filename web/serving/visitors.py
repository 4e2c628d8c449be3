"""Visitors: who sends a request, from the session cookie or a token of the API."""

import hmac
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from sanic import HTTPResponse, Request

from web.accounts.sessions import Sessions, csrf_token
from web.accounts.tokens import Tokens
from web.errors import Invalid, NotLoggedIn, Refused
from web.paths import API
from web.routes import Access, Visit
from web.serving.security import Proxies, check_origin

COOKIE: Final = "headrace_session"
"""Over HTTPS with a prefix that stops other hosts and plain HTTP from setting it."""
ATTEMPT_COOKIE: Final = "headrace_login"
"""Of a login that is under way at an OpenID provider."""
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
_HOST: Final = re.compile(r"([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?")


class Visitors(Struct, frozen=True):
    """Finds who sends a request."""

    sessions: Sessions
    proxies: Proxies
    base_path: str
    tokens: Tokens

    def visit(self, request: Request, path: Mapping[str, str]) -> Visit:
        """The request as pages see it; without a session nobody's. Raises NotLoggedIn for an invalid token of the API."""
        arguments = {key: values[0] for key, values in request.args.items()}
        address, is_local = self.address(request), self.proxies.is_local(request.ip, request.headers)
        bearer = self._bearer(request)
        if bearer:
            token = self.tokens.find(bearer)
            if token is None:
                raise NotLoggedIn(
                    "the token is invalid, was revoked or has expired", "Create one on the API tokens page."
                )
            return Visit(token.user, token.access, address, path, arguments, is_local, token.name)
        session = self.sessions.find(self.token(request))
        if session is None:
            return Visit("", Access.ANYONE, address, path, arguments, is_local)
        return Visit(session.user, session.access, address, path, arguments, is_local, zone=session.zone)

    def stranger(self, request: Request) -> Visit:
        """The request without looking for its session: nobody's."""
        return Visit("", Access.ANYONE, self.address(request))

    def address(self, request: Request) -> str:
        """The address of the browser."""
        return self.proxies.address(request.ip, request.headers)

    def token(self, request: Request) -> str:
        """The token in the cookie; empty if there is none."""
        return request.cookies.get(self._cookie(request)) or ""

    def csrf(self, request: Request) -> str:
        """The token that forms of this session carry."""
        return csrf_token(self.token(request))

    def check_origin(self, request: Request) -> None:
        """Raises Refused for a request of another site's page."""
        check_origin(request.headers, self.proxies.host(request.ip, request.headers))

    def check_csrf(self, request: Request, given: str) -> None:
        """Raises Refused unless the request comes from a page of this session."""
        self.check_origin(request)
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.csrf(request).encode()):
            raise Refused("the form belongs to another session", "Reload the page and send the form again.")

    def remember(self, request: Request, response: HTTPResponse, token: str) -> None:
        """Sets the cookie of a session, or removes it if the token is empty."""
        self._set_cookie(request, response, COOKIE, token, None)

    def attempt(self, request: Request) -> str:
        """The cookie of a login that is under way; empty if there is none."""
        return request.cookies.get(self._cookie(request, ATTEMPT_COOKIE)) or ""

    def remember_attempt(self, request: Request, response: HTTPResponse, cookie: str, seconds: int = 0) -> None:
        """Sets the cookie of a login that begins, or removes it if it is empty."""
        self._set_cookie(request, response, ATTEMPT_COOKIE, cookie, seconds)

    def origin(self, request: Request) -> str:
        """Scheme and host in the browser's address bar. Raises Invalid for a host that is none."""
        host = self.proxies.host(request.ip, request.headers)
        if not _HOST.fullmatch(host):
            raise Invalid("the request has no valid Host header", "Open the console by its name or address.")
        return f"{'https' if self.is_https(request) else 'http'}://{host}"

    def _set_cookie(self, request: Request, response: HTTPResponse, name: str, value: str, max_age: int | None) -> None:
        response.add_cookie(
            self._cookie(request, name),
            value,
            path=self.base_path or "/",
            httponly=True,
            samesite="Lax",  # sent with the redirection from a provider's site, and not with its forms
            secure=self.is_https(request),
            max_age=max_age if value else 0,
        )

    def is_https(self, request: Request) -> bool:
        """Whether the browser speaks HTTPS with the proxy before the console."""
        return self.proxies.is_https(request.ip, request.headers)

    def _bearer(self, request: Request) -> str:
        """The token of a program, which only the API accepts; empty if there is none."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_api = request.path.startswith(f"{self.base_path}{API}/")
        return given.strip() if is_api and kind.lower() == "bearer" else ""

    def _cookie(self, request: Request, name: str = COOKIE) -> str:
        if not self.is_https(request):
            return name
        return f"__Secure-{name}" if self.base_path else f"__Host-{name}"


def require(visit: Visit, access: Access) -> None:
    """Raises NotLoggedIn, Refused."""
    if visit.access >= access:
        return
    if not visit.user:
        raise NotLoggedIn("you are not logged in", "Log in first.")
    raise Refused(
        "{user} has the role {role}; this request requires the role {wanted}",
        "Ask an administrator for the required role.",
        user=visit.user,
        role=visit.access.name.lower(),
        wanted=access.name.lower(),
    )
