"""The limit on the memory of all connections of a role (`headrace.remoting.buffer_budget`): its default, and its minimum.

Separate from the budget itself because processes without an event loop check configurations too.
"""

from typing import Final

DEFAULT_LIMIT: Final = 256 << 20
LEAST_LIMIT: Final = 64 << 20  # limit: room for a few of the largest frames (16 MiB) at a time


def check_limit(limit: int, name: str) -> None:
    """Raises ValueError, which names the option, if the limit leaves no room for the largest frames."""
    if limit < LEAST_LIMIT:
        raise ValueError(f"{name}={limit}: expected at least {LEAST_LIMIT} bytes, enough for a few 16 MiB frames")
