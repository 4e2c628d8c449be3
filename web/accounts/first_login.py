"""The link with which the first administrator is made: valid once, in a file that only the console's user can read."""

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

NAME: Final = "first-login"
_LENGTH: Final = 43
"""Characters of 32 random bytes."""
LIFETIME_MS: Final = 24 * 3_600_000
"""How long the link is valid."""


class FirstLogin:
    """The link of a console without users. It stays the same when the console is restarted within its lifetime."""

    def __init__(self, folder: Path, url: str, now_ms: Callable[[], int]) -> None:
        """`url`: the console's address, with a slash at its end."""
        self.path = folder / NAME
        self._url = url
        self._now_ms = now_ms
        self._token = ""
        self._made_ms = 0
        self._is_claimed = False

    def make(self) -> str:
        """The link; writes the file if there is none. Raises OSError."""
        known = self.path.read_text(encoding="ascii", errors="replace").strip() if self.path.exists() else ""
        self._token = known.rpartition("token=")[2]
        self._made_ms = int(self.path.stat().st_mtime * 1000) if known else 0
        if len(self._token) < _LENGTH or self._is_old():  # no file, or its writer was killed
            self._token = secrets.token_urlsafe(32)
            self._made_ms = self._now_ms()
            self.path.unlink(missing_ok=True)
        if known != self.link:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self.path, flags, 0o600), "w", encoding="ascii") as file:
                file.write(f"{self.link}\n")
        return self.link

    @property
    def link(self) -> str:
        """The link."""
        return f"{self._url}first-login?token={self._token}"

    def is_right(self, token: str) -> bool:
        """Whether the token is the link's, and it was neither used nor is too old."""
        is_same = hmac.compare_digest(token.encode(), self._token.encode())
        return bool(self._token) and is_same and not self._is_old() and not self._is_claimed

    def claim(self) -> None:
        """Begins the use of the link: nobody else can use it until `release`."""
        self._is_claimed = True

    def release(self) -> None:
        """Ends a use that failed."""
        self._is_claimed = False

    def use(self) -> None:
        """Makes the link invalid and removes the file."""
        self._token = ""
        self.path.unlink(missing_ok=True)

    def _is_old(self) -> bool:
        return self._now_ms() - self._made_ms > LIFETIME_MS
