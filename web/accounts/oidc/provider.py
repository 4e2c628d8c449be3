"""OidcProvider: an OpenID provider as its discovery document describes it, and what the console asks of it."""

import asyncio
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from joserfc.jwk import KeySet
from msgspec import Struct

from headrace.model.address_list import parse_address
from web.accounts.oidc.attempts import Attempt
from web.accounts.oidc.id_token import UnknownKey, import_keys, read_identity
from web.accounts.oidc.identity import Identity, Roles
from web.accounts.oidc.requests import RequestFailed, ask, basic_authorization
from web.config import ConsoleConfig, is_loopback_host, is_provider_url, split_values
from web.errors import ProviderFailed, Refused
from web.routes import Access

KEPT_S: Final = 3_600.0
"""How long the provider's documents are used before they are read again."""
RETRY_S: Final = 5.0
"""How soon documents that could not be read, or lack a key, are read again; also how often failures are logged at most."""
LONGEST_KEPT_S: Final = 4 * KEPT_S
"""How long documents are used if they cannot be read again."""
_LOGIN_S: Final = 20.0  # limit: all requests of one step of a login
_THREADS: Final = 4
MOST_AT_ONCE: Final = 32  # limit: steps that wait for the provider
CHECK: Final = "Log in again. If it happens again, check the console's registration at the provider: its redirect URI and its scopes."
_LONGEST_TOKEN: Final = 64 << 10
_LARGEST_SECRET: Final = 4_096
_LATER: Final = (
    "Log in with a user name and password of this console, or try again later. The cause is in the console's log."
)

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Metadata(Struct, frozen=True):
    """What the console uses of a discovery document."""

    authorization_endpoint: str
    token_endpoint: str
    keys_endpoint: str
    takes_basic: bool
    """Whether the client secret is sent in a header, not in the form."""
    names_issuer: bool
    """Whether every answer names the issuer (RFC 9207)."""


class OidcProvider:
    """The provider of a configuration. It is asked when somebody logs in, not before."""

    def __init__(self, config: ConsoleConfig) -> None:
        self.issuer = config.console_oidc_issuer
        self.name = config.oidc_name
        self._client_id = config.console_oidc_client_id
        self._secret_file = config.console_oidc_client_secret_file
        self._scopes = " ".join(config.console_oidc_scopes.split())
        values = {
            Access.VIEWER: split_values(config.console_oidc_viewers),
            Access.OPERATOR: split_values(config.console_oidc_operators),
            Access.ADMIN: split_values(config.console_oidc_admins),
        }
        self.roles = Roles(config.console_oidc_role_claim, values)
        self._metadata = Kept(self._read_metadata, self._log)
        self._keys = Kept(self._read_keys, self._log)
        self._logged_s = -math.inf
        self._suppressed = 0
        # Own threads: a slow provider must not hold those that check passwords.
        self._threads = ThreadPoolExecutor(_THREADS, "oidc")
        self._steps = 0

    def close(self) -> None:
        """Begins no further request."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def login_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """The page of the provider on which the user logs in. Raises ProviderFailed."""
        metadata = await self._step(self._metadata.get())
        query = urlencode({
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": self._scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        })  # fmt: skip
        url = metadata.authorization_endpoint
        return f"{url}{'&' if '?' in url else '?'}{query}"

    async def identify(self, attempt: Attempt, code: str, named_issuer: str | None, redirect_uri: str) -> Identity:
        """The user for whom the provider has issued a code. Raises ProviderFailed, Refused."""
        return await self._step(self._identify(attempt, code, named_issuer, redirect_uri))

    # ---- within

    async def _step(self, work: Coroutine[Any, Any, T]) -> T:
        if self._steps >= MOST_AT_ONCE:
            work.close()
            raise ProviderFailed("too many users are logging in at once", "Try again in a minute.")
        self._steps += 1
        try:
            async with asyncio.timeout(_LOGIN_S):
                return await work
        except (RequestFailed, TimeoutError) as error:
            self._log(str(error) or "it did not answer in time")
            raise ProviderFailed("the login with {name} is not available", _LATER, name=self.name) from error
        finally:
            self._steps -= 1

    def _log(self, cause: str) -> None:
        """Anybody can cause a failure: those that follow one another are counted."""
        now_s = time.monotonic()
        if now_s - self._logged_s < RETRY_S:
            self._suppressed += 1
            return
        logger.warning(
            "login with OpenID Connect failed issuer=%s error=%r suppressed=%d", self.issuer, cause, self._suppressed
        )
        self._logged_s, self._suppressed = now_s, 0

    async def _identify(self, attempt: Attempt, code: str, named_issuer: str | None, redirect_uri: str) -> Identity:
        metadata = await self._metadata.get()
        if named_issuer != self.issuer and (named_issuer is not None or metadata.names_issuer):
            raise Refused("the response comes from another OpenID provider (iss)", "Log in again.")
        token = await self._redeem(metadata, attempt, code, redirect_uri)
        read = functools.partial(
            read_identity,
            issuer=self.issuer,
            client_id=self._client_id,
            nonce=attempt.nonce,
            roles=self.roles,
            now_s=int(time.time()),
        )
        try:
            return await self._in_thread(read, token, await self._keys.get())
        except UnknownKey:
            try:
                return await self._in_thread(read, token, await self._keys.get(again=True))
            except UnknownKey:
                raise Refused(
                    "the ID token of the provider was refused: it is not signed with a key of the provider",
                    "Log in again in a few seconds. If it happens again, check the provider's key document (jwks_uri).",
                ) from None

    async def _redeem(self, metadata: Metadata, attempt: Attempt, code: str, redirect_uri: str) -> str:
        """The ID token for a code. Access and refresh tokens are not kept."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        secret = await self._in_thread(self._read_secret) if self._secret_file else ""
        authorization = basic_authorization(self._client_id, secret) if secret and metadata.takes_basic else ""
        if not authorization:
            form["client_id"] = self._client_id
            if secret:
                form["client_secret"] = secret
        status, answer = await self._in_thread(ask, metadata.token_endpoint, self.issuer, form, authorization)
        if status != 200:
            reason = _error_code(answer.get("error"))
            # The code may be the cause, and it came through the browser: these count as failed logins.
            if reason == "invalid_grant":
                raise Refused("the provider refused the login: it has expired or was already used", "Log in again.")
            if reason == "invalid_request":
                raise Refused("the OpenID provider refused the login: {code}", CHECK, code=reason)
            raise RequestFailed(f"the token endpoint answered with status {status} {reason}")
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
            raise RequestFailed("the token endpoint answered without an ID token, or with one that is too long")
        return token

    async def _read_metadata(self) -> Metadata:
        url = f"{self.issuer.removesuffix('/')}/.well-known/openid-configuration"
        status, document = await self._in_thread(ask, url, self.issuer)
        if status != 200:
            raise RequestFailed(f"{url} answered with status {status}")
        named = document.get("issuer")
        if named != self.issuer:
            raise RequestFailed(f"consoleOidcIssuer={self.issuer}, but {url} names the issuer {str(named)[:200]!r}")
        methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Metadata(
            self._endpoint(document, "authorization_endpoint"),
            self._endpoint(document, "token_endpoint"),
            self._endpoint(document, "jwks_uri"),
            isinstance(methods, list) and "client_secret_basic" in methods,
            document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _read_keys(self) -> KeySet:
        metadata = await self._metadata.get()
        status, document = await self._in_thread(ask, metadata.keys_endpoint, self.issuer)
        if status != 200:
            raise RequestFailed(f"{metadata.keys_endpoint} answered with status {status}")
        return await self._in_thread(import_keys, document)

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        """An endpoint to which the console may connect: as safe as the issuer, and named by a host name unless it is the issuer's host."""
        url, own = document.get(name), urlsplit(self.issuer)
        if isinstance(url, str) and is_provider_url(url):
            parts = urlsplit(url)
            host = parts.hostname or ""
            is_named = parse_address(host) is None and not is_loopback_host(host)
            if parts.scheme == own.scheme and (
                host == own.hostname or is_named or is_loopback_host(own.hostname or "")
            ):
                return url
        raise RequestFailed(f"the discovery document of {self.issuer} has no {name} that can be used")

    def _read_secret(self) -> str:
        try:
            with Path(self._secret_file).open("rb") as file:
                secret = file.read(_LARGEST_SECRET).decode().strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise RequestFailed(f"consoleOidcClientSecretFile={self._secret_file}: {reason}") from error
        if not secret or not secret.isprintable():
            raise RequestFailed(f"consoleOidcClientSecretFile={self._secret_file}: expected one line with the secret")
        return secret

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


class Kept(Generic[T]):
    """A document of the provider, read when it is needed. All who need it meanwhile wait for one request, and share its failure for RETRY_S."""

    def __init__(
        self,
        read: Callable[[], Awaitable[T]],
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log`: takes why a document could not be read again that is still used."""
        self._read = read
        self._log = log
        self._clock = clock
        self._turn = asyncio.Lock()
        self._known: T | None = None
        self._failure = ""
        """Why the last request failed; empty if it did not."""
        self._read_s = self._tried_s = -math.inf

    async def get(self, *, again: bool = False) -> T:
        """The document. `again`: a new one, unless it was read a moment ago. Raises RequestFailed."""
        async with self._turn:
            now_s = self._clock()
            is_wanted = again or bool(self._failure) or now_s - self._read_s > KEPT_S
            if is_wanted and now_s - self._tried_s > RETRY_S:
                await self._try()
            is_old = self._clock() - self._read_s > LONGEST_KEPT_S
            if self._known is None or (self._failure and (again or is_old)):
                raise RequestFailed(self._failure)
            return self._known

    async def _try(self) -> None:
        try:
            self._known, self._failure = await self._read(), ""
            self._read_s = self._clock()
        except RequestFailed as error:
            self._failure = str(error)
            if self._known is not None:
                self._log(self._failure)
        # Not before: a request may take longer than RETRY_S.
        self._tried_s = self._clock()


def _error_code(code: object) -> str:
    """An error code of OAuth; empty if it is something else, which must not reach the log."""
    is_code = isinstance(code, str) and len(code) <= 60 and code.isascii() and code.replace("_", "").isalnum()
    return str(code) if is_code else ""
