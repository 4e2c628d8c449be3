# ruff: noqa: N818  (names say what is wrong; the tree below says that they are errors)
"""What the broker raises when a promise is broken, and what ends a request that has reached a limit.

    BrokerProcessError          the root
    ├── ConfigFileUnreadable    a file under config/ (and its .bak) cannot be read: the broker does not start
    └── PortTaken               a listener cannot be opened: the broker does not start

    LimitReached                a request needs more than a limit allows: it is answered with SYSTEM_BUSY (`broker.handler_errors`)

Other outcomes that a client may cause are values, not exceptions: a response code with a remark.
"""

from pathlib import Path

from headrace.errors import RemoteProtocolError


class BrokerProcessError(Exception):
    """Anything that the broker package raises on purpose."""


class ConfigFileUnreadable(BrokerProcessError):
    """A configuration file and its backup are both unreadable; starting without them would forget topics or offsets."""

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(
            f"{path} and {path.name}.bak are both unreadable ({cause}); restore one of them from a backup, or move both away"
            f" to start without their contents"
        )


class LimitReached(RemoteProtocolError):
    """A request needs more than a limit allows; `limit` is the name of its option. The message says what to do."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class PortTaken(BrokerProcessError):
    """A port of the broker cannot be opened."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        self.host = host
        self.port = port
        super().__init__(
            f"cannot listen on {host}:{port} ({cause.strerror or cause}); stop the program that uses the port, or choose another listenPort"
            f" (the broker also uses the port 2 below it)"
        )
