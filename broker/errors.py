# ruff: noqa: N818  (names say what is wrong; the tree below says that they are errors)
"""What the broker raises when a promise is broken.

    BrokerProcessError          the root
    ├── ConfigFileUnreadable    a file under config/ (and its .bak) cannot be read: the broker does not start
    └── BadRequest              a request lacks a field or carries one that cannot be read: answered with code 1

Outcomes that a client may cause and that the protocol has a code for are values, not exceptions. `BadRequest` is the exception to
that: it is raised where a field is read and answered in one place, `broker.admin.fields`.
"""

from pathlib import Path


class BrokerProcessError(Exception):
    """Anything that the broker package raises on purpose."""


class ConfigFileUnreadable(BrokerProcessError):
    """A configuration file and its backup are both unreadable; starting without them would forget topics or offsets."""

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(
            f"{path} and {path.name}.bak are both unreadable ({cause}): restore one of them from a copy, or move both away"
            f" to start without what they held"
        )


class BadRequest(BrokerProcessError):
    """A request cannot be understood; the message is the remark of its refusal (code 1) and says cause and cure."""
