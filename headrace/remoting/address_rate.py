"""AddressRate: limits how often each address does something per minute, such as opening a connection.

Addresses are named as in `client_usage`. All counts are dropped at the end of a minute, so no data is kept for addresses without connections.
"""

import time
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 60.0
MAX_ADDRESSES: Final = 100_000  # limit: 15 MB; other addresses are not limited until the next minute


class AddressRate:
    """Allows each address `limit` events per minute; 0: no limit. `clock` in seconds."""

    def __init__(self, limit: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._ends = 0.0
        self._counts: dict[str, int] = {}

    def allows(self, address: str) -> bool:
        """Counts one event, and returns whether it is within the limit."""
        if not self._limit:
            return True
        now = self._clock()
        if now >= self._ends:
            self._ends = now + PERIOD_S
            self._counts.clear()
        count = self._counts.get(address, 0)
        if count >= self._limit:
            return False
        if count or len(self._counts) < MAX_ADDRESSES:
            self._counts[address] = count + 1
        return True
