"""Which topics were deleted, and where in the log: `config/deletedTopics.json`, a file of ours that RocketMQ does not read.

    {"deletedTopics": {"Orders": 47110}, "beingDeleted": {}}

A record of a topic in `deletedTopics` that is below the topic's physical offset belongs to no ConsumeQueue: not when it is
dispatched, not after recovery, not when all queues are rebuilt. The log keeps such records until their files expire. `beingDeleted`
is of interest to the broker alone, which writes the file (`broker.topics.deleted_topics`): those deletions may not have happened.
"""

import json
import os
from collections.abc import Mapping

from msgspec import Struct, field

from store.errors import StoreError
from store.paths import StorePaths

FILE = "deletedTopics.json"


class DeletedTopicsUnreadable(StoreError):  # noqa: N818  (named as those in store.errors)
    """Neither the file nor its backup can be read: which records belong to no queue is not known."""


class DeletedTopics(Struct, frozen=True):
    """The contents of the file: physical offsets by topic."""

    deleted: Mapping[str, int] = field(default_factory=dict)
    being_deleted: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes) -> "DeletedTopics":
        """Parses the file. Raises ValueError."""
        tables = json.loads(data)
        return cls(_offsets(tables, "deletedTopics"), _offsets(tables, "beingDeleted"))


def read_deleted_topics(paths: StorePaths) -> dict[bytes, int]:
    """The offset below which records belong to no queue, by topic. Raises DeletedTopicsUnreadable."""
    problems = []
    for name in (FILE, f"{FILE}.bak"):
        path = paths.config_file(name)
        try:
            deleted = DeletedTopics.decode(path.read_bytes()).deleted
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        return {os.fsencode(topic): offset for topic, offset in deleted.items()}
    if problems:
        raise DeletedTopicsUnreadable(
            f"cannot read the list of deleted topics ({'; '.join(problems)}); restore the file, or remove it "
            f"with its backup: messages of deleted topics may then reappear if a topic of the same name is created"
        )
    return {}


def _offsets(tables: object, name: str) -> dict[str, int]:
    table = tables.get(name, {}) if isinstance(tables, dict) else None
    if not isinstance(table, dict) or not all(
        isinstance(topic, str) and type(offset) is int and offset >= 0 for topic, offset in table.items()
    ):
        raise ValueError(f"{name} does not map topics to physical offsets")
    return table
