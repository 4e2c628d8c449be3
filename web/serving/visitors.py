"""Visitors: who sends a request, from the session cookie or a token of the API."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sanic import HTTPResponse, Request

from web.accounts.sessions import Sessions, csrf_token
from web.accounts.tokens import Tokens
from web.errors import NotLoggedIn, Refused
from web.paths import API
from web.routes import Access, Visit
from web.serving.security import Proxies, check_origin

COOKIE: Final = "headrace_session"
"""Over HTTPS with a prefix that stops other hosts and plain HTTP from setting it."""
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class Visitors:
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
        user, access = ("", Access.ANYONE) if session is None else (session.user, session.access)
        return Visit(user, access, address, path, arguments, is_local)

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
        response.add_cookie(
            self._cookie(request),
            token,
            path=self.base_path or "/",
            httponly=True,
            samesite="Lax",
            secure=self.is_https(request),
            max_age=None if token else 0,
        )

    def is_https(self, request: Request) -> bool:
        """Whether the browser speaks HTTPS with the proxy before the console."""
        return self.proxies.is_https(request.ip, request.headers)

    def _bearer(self, request: Request) -> str:
        """The token of a program, which only the API accepts; empty if there is none."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_api = request.path.startswith(f"{self.base_path}{API}/")
        return given.strip() if is_api and kind.lower() == "bearer" else ""

    def _cookie(self, request: Request) -> str:
        if not self.is_https(request):
            return COOKIE
        return f"__Secure-{COOKIE}" if self.base_path else f"__Host-{COOKIE}"


def require(visit: Visit, access: Access) -> None:
    """Raises NotLoggedIn, Refused."""
    if visit.access >= access:
        return
    if not visit.user:
        raise NotLoggedIn("you are not logged in", "Log in first.")
    raise Refused(
        f"{visit.user} has the role {visit.access.name.lower()}; this request requires the role {access.name.lower()}",
        "Ask an administrator for the required role.",
    )
