"""Finding: a problem of a consumer group that operators should know about."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` and `about` say which it is, whatever its words become."""

    group: str
    kind: str
    about: str
    """What of the group: a topic, a client id; empty for all of it."""
    what: str
    """What is wrong, in a sentence."""
    members: tuple[str, ...]
    """Who it is about, as `client id at address`, each with what it does."""
    queues: tuple[int, ...]
    """Which queues of the topic."""
    advice: str
    """What to do, in a sentence."""
    count: int = 0
    """How many messages it is about, where it is about messages."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The same while it lasts."""
        return self.group, self.kind, self.about

    def as_json(self) -> dict[str, Any]:
        """For the page that `headrace status` reads."""
        return asdict(self)
