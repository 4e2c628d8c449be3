"""Errors of the console.

::

    ConsoleError
    ├── PortTaken          its port is in use (also OSError)
    ├── DatabaseUnusable   the file of users and audit log cannot be opened
    └── QueryFailed        a query or change failed: the cause, what to do, and the HTTP status
        ├── NotFound       what the address names does not exist (404)
        ├── Invalid        the request is invalid (400)
        ├── NotLoggedIn    nobody is logged in (401)
        ├── Refused        the user may not do this, or the login was refused (403)
        ├── TooOften       too many attempts (429)
        └── ProviderFailed the OpenID provider cannot be reached, or its answer cannot be used (502)
"""

# ruff: noqa: N818  (names say what is wrong)

import errno
from pathlib import Path
from typing import Any, ClassVar


class ConsoleError(Exception):
    """The root."""


class PortTaken(ConsoleError, OSError):
    """The console cannot listen: the address is in use."""

    def __init__(self, host: str, port: int) -> None:
        message = (
            f"port {port} of {host or 'all addresses'} is in use; stop the program that uses it, choose another port "
            "(--console-port or consolePort; headrace console: --port), or run without the console (--no-console)"
        )
        super().__init__(errno.EADDRINUSE, message)

    def __str__(self) -> str:
        return str(self.args[1])


class DatabaseUnusable(ConsoleError):
    """The file of users and audit log, or that of resent dead letters, cannot be opened. Without it everybody could log in, or messages be sent twice."""

    def __init__(self, path: Path, reason: str, without: str, remedy: str = "repair it") -> None:
        """`without`: what moving the file away means."""
        super().__init__(f"cannot open {path}: {reason}; {remedy}, or move it away: {without}")


class QueryFailed(ConsoleError):
    """A query or a change failed. The text is the cause, `advice` what to do about it; both are shown to the user.

    Both are keys of the translations, with `values` for their `{names}`: `QueryFailed("the topic {topic} does not exist", topic=topic)`.
    Without values they are taken as they are: the text of another error may contain braces.
    """

    status: ClassVar[int] = 502

    def __init__(
        self, cause: str, advice: str = "", /, *, before: Any = None, after: Any = None, **values: Any
    ) -> None:
        """`before` and `after`: for the audit log, what a change that failed had found and had done until then."""
        super().__init__(cause.format(**values) if values else cause)
        self.cause_key, self.advice_key, self.values = cause, advice, values
        self.before = before
        self.after = after

    @property
    def advice(self) -> str:
        """What to do about it, in English."""
        return self.advice_key.format(**self.values) if self.values else self.advice_key


class NotFound(QueryFailed):
    """What the address names does not exist."""

    status = 404


class Invalid(QueryFailed):
    """The request is invalid; the user can correct it."""

    status = 400


class NotLoggedIn(QueryFailed):
    """Nobody is logged in."""

    status = 401


class TooOften(QueryFailed):
    """Too many attempts."""

    status = 429


class Refused(QueryFailed):
    """The user may not do this: the role does not permit it, or a login was refused: a wrong password, state or token, or the provider's own refusal."""

    status = 403


class ProviderFailed(QueryFailed):
    """The OpenID provider cannot be reached, or its answer cannot be used. Local accounts still work."""

    status = 502
