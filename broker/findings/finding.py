"""Finding: a problem of a consumer group that operators should know about."""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict


class Finding(Struct, frozen=True):
    """`kind` and `about` identify it, even if its text changes."""

    group: str
    kind: str
    about: str
    """The subject: a topic or a client id; empty for the whole group."""
    what: str
    """The problem, in a sentence."""
    members: tuple[str, ...]
    """The members, as `client id at address`, each with its description."""
    queues: tuple[int, ...]
    """Which queues of the topic."""
    advice: str
    """The remedy, in a sentence."""
    count: int = 0
    """The number of messages, if it is about messages."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the finding while it lasts."""
        return self.group, self.kind, self.about

    def as_json(self) -> dict[str, Any]:
        """For the page that `headrace status` reads."""
        return asdict(self)
