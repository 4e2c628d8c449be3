"""Attempts: logins that were begun and have not come back from the provider, bound to the browser by a cookie.

Nothing is stored for an attempt, so that strangers who begin many take no memory and drive nobody's out. State, nonce and PKCE verifier are
derived from the cookie with a key that only this process has: a browser can neither choose them nor compute those of another.
"""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from web.errors import Refused

LIFETIME_MS: Final = 10 * 60_000
"""How long a user may take at the provider."""
_LONGEST_THEN: Final = 1_000  # limit: cookies have 4 KiB; the start page is shown in place of a longer address
_MOST_USED: Final = (
    10_000  # limit: memory; what is forgotten is bounded by its lifetime, and the provider accepts a code once
)
_AGAIN: Final = "Log in again, in one window, and within 10 minutes."


class Attempt(Struct, frozen=True):
    """One attempt."""

    cookie: str
    then: str
    """The page that was asked for."""
    state: str
    nonce: str
    verifier: str
    until_ms: int
    """When it ends, ms since 1970."""

    @property
    def challenge(self) -> str:
        """Of PKCE, method S256."""
        return _encode(hashlib.sha256(self.verifier.encode()).digest())


class Attempts:
    """Begins attempts, and accepts each once."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._key = secrets.token_bytes(32)
        self._used: OrderedDict[str, int] = OrderedDict()

    def begin(self, then: str) -> Attempt:
        """A new attempt."""
        then = then if len(then.encode("utf-8", "replace")) <= _LONGEST_THEN else "/"
        until_ms = self._now_ms() + LIFETIME_MS
        parts = (secrets.token_urlsafe(32), str(until_ms), _encode(then.encode("utf-8", "replace")))
        return self._attempt(".".join(parts), then, until_ms)

    def find(self, cookie: str, state: str) -> Attempt:
        """The attempt that this browser began with this state, even if it has ended. Raises Refused."""
        parts = cookie.split(".")
        if len(parts) != 3 or not cookie.isascii():
            raise Refused("the login was started in another browser, or it timed out", _AGAIN)
        expected = self._derive("state", cookie)
        if not hmac.compare_digest(expected.encode(), state.encode("utf-8", "replace")):
            raise Refused("the provider's response belongs to another login", _AGAIN)
        # From here on the cookie is one that this process has made.
        return self._attempt(cookie, _decode(parts[2]), int(parts[1]))

    def finish(self, attempt: Attempt) -> None:
        """Ends an attempt, which cannot be finished again. Raises Refused."""
        now_ms = self._now_ms()
        if attempt.until_ms < now_ms:
            raise Refused("the login took too long", _AGAIN)
        if attempt.state in self._used:
            raise Refused("the provider's response was already used", _AGAIN)
        self._used[attempt.state] = attempt.until_ms
        while len(self._used) > _MOST_USED or next(iter(self._used.values())) < now_ms:
            self._used.popitem(last=False)

    def _attempt(self, cookie: str, then: str, until_ms: int) -> Attempt:
        state, nonce, verifier = (self._derive(label, cookie) for label in ("state", "nonce", "verifier"))
        return Attempt(cookie, then, state, nonce, verifier, until_ms)

    def _derive(self, label: str, cookie: str) -> str:
        return _encode(hmac.digest(self._key, f"{label}:{cookie}".encode(), "sha256"))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
