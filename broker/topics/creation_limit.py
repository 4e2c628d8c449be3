"""CreationLimit: how many topics and consumer groups clients may create per minute without an administrator.

Each one is written to a file that holds all of them, and costs queues, files and memory for good.
"""

import time
from collections.abc import Callable
from typing import Final

from broker.errors import LimitReached

OPTION: Final = "maxTopicsCreatedPerMinute"
_PERIOD_S: Final = 60.0


class CreationLimit:
    """A bucket that holds what may be created in a minute, and fills up again within a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._per_minute = per_minute
        self._clock = clock
        self._left = float(per_minute)
        self._filled_at = clock()

    def take(self, kind: str, name: str) -> None:
        """Counts a topic or group that is about to be created. Raises LimitReached."""
        now = self._clock()
        self._left = min(self._left + (now - self._filled_at) / _PERIOD_S * self._per_minute, float(self._per_minute))
        self._filled_at = now
        if self._left < 1:
            raise LimitReached(
                OPTION,
                f"{kind} {name} not created: {self._per_minute} topics and groups were created automatically within a minute"
                f" ({OPTION}); try again later, or have an administrator create it",
            )
        self._left -= 1
