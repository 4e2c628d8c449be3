"""The link with which the first administrator is made: valid once, in a file that only the console's user can read."""

import hmac
import os
import secrets
from pathlib import Path
from typing import Final

NAME: Final = "first-login"
_LENGTH: Final = 43
"""Characters of 32 random bytes."""


class FirstLogin:
    """The link of a console without users. It stays the same when the console is restarted."""

    def __init__(self, folder: Path, url: str) -> None:
        """`url`: the console's address, with a slash at its end."""
        self.path = folder / NAME
        self._url = url
        self._token = ""

    def make(self) -> str:
        """The link; writes the file if there is none. Raises OSError."""
        known = self.path.read_text(encoding="ascii", errors="replace").strip() if self.path.exists() else ""
        self._token = known.rpartition("token=")[2]
        if len(self._token) < _LENGTH:  # no file, or its writer was killed
            self._token = secrets.token_urlsafe(32)
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
        """Whether the token is the link's, and it was not used."""
        return bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())

    def use(self) -> None:
        """Makes the link invalid and removes the file."""
        self._token = ""
        self.path.unlink(missing_ok=True)
