# ruff: noqa: N818  (names say what is wrong; the tree below says that they are errors)
"""Errors of the name server.

NameServerError
├── PortTaken            its port is in use (also OSError)
├── KvConfigUnreadable   the file of keys and values cannot be read
└── SettingsRefused      an operator's settings, sent over the wire, cannot be taken
"""

import errno
from pathlib import Path


class NameServerError(Exception):
    """The root."""


class PortTaken(NameServerError, OSError):
    """The name server cannot listen: the address is in use."""

    def __init__(self, host: str, port: int) -> None:
        message = f"port {port} of {host or 'all addresses'} is in use; stop the program that uses it (another name server?), or choose another port"
        super().__init__(errno.EADDRINUSE, message)
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return str(self.args[1])


class KvConfigUnreadable(NameServerError):
    """The file exists but is invalid. Starting without it would overwrite what could still be repaired."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}; repair it, or move it away to start without keys")
        self.path = path


class SettingsRefused(NameServerError):
    """Settings that cannot be taken; `is_forbidden` when the key may not be changed over the wire at all."""

    def __init__(self, message: str, *, is_forbidden: bool = False) -> None:
        super().__init__(message)
        self.is_forbidden = is_forbidden
