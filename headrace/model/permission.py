"""Permission bits of brokers and topics."""

import functools
from typing import Final

PRIORITY: Final = 8
READ: Final = 4
WRITE: Final = 2
INHERIT: Final = 1


def is_readable(permission: int) -> bool:
    """Whether consumers may read."""
    return bool(permission & READ)


def is_writeable(permission: int) -> bool:
    """Whether producers may write."""
    return bool(permission & WRITE)


def is_inherited(permission: int) -> bool:
    """Whether a topic is a template from which others may be created."""
    return bool(permission & INHERIT)


@functools.lru_cache(maxsize=64)  # a table may have thousands of topics; permissions are a few bits
def permission_text(permission: int) -> str:
    """`RWX` with a dash for each right that is missing; X is inherit."""
    return "".join(letter if permission & bit else "-" for letter, bit in (("R", READ), ("W", WRITE), ("X", INHERIT)))
