"""The unique ids that this process gives its messages; they contain this machine's address (client spec 2.11)."""

import os

from headrace.client.cluster.client_id import local_address
from headrace.model.message_id import UniqueIdGenerator

_generator: UniqueIdGenerator | None = None


def create_unique_id(now_ms: int | None = None) -> str:
    """Returns the next unique id, for the given time or now. May be called from any thread; a forked child has its own ids."""
    global _generator
    if _generator is None:
        _generator = UniqueIdGenerator(local_address().strip("[]"))
    return _generator.create(now_ms)


def _renew() -> None:
    global _generator
    _generator = None


os.register_at_fork(after_in_child=_renew)
