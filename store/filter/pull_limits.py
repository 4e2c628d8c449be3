"""How much a pull may carry (store spec, 3.5)."""

from msgspec import Struct


class PullLimits(Struct, frozen=True):
    """Messages at most; and of records from `in_memory_from` on, and of those before, bytes and messages."""

    max_count: int
    in_memory_from: int
    memory_bytes: int
    memory_count: int
    disk_bytes: int
    disk_count: int
