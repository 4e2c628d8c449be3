"""The limit of what all connections of a role may hold together (`headrace.remoting.buffer_budget`): its default, and the least that is accepted.

Apart from the budget itself because configurations are checked by processes that have no event loop.
"""

from typing import Final

DEFAULT_LIMIT: Final = 256 << 20
LEAST_LIMIT: Final = 64 << 20  # limit: so that there is room for a few of the largest frames (16 MiB) at a time


def check_limit(limit: int, name: str) -> None:
    """Raises ValueError, in which the limit has this name, if it leaves no room for the largest frames."""
    if limit < LEAST_LIMIT:
        raise ValueError(
            f"{name}={limit}: at least {LEAST_LIMIT} bytes are needed, for a few frames of 16 MiB at a time"
        )
