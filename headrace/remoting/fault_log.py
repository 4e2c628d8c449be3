"""FaultLog: logs faults of clients in a bounded number of lines, and counts how often limits were reached.

The first faults of a kind are logged at once. Those that follow within a minute are counted and summarized in one line.
"""

import logging
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

logger = logging.getLogger(__name__)

PERIOD_S: Final = 60.0
IN_FULL: Final = 30  # limit: lines of one kind in a minute
LIMITS_IN_FULL: Final = 1  # limit: lines of one limit in a minute
MAX_KINDS: Final = 64  # limit: kinds that are counted separately; the others are counted together


class _Kind(Struct):
    since: float
    level: int
    logged: int = 0
    count: int = 0
    remote: str = ""
    reason: str = ""


class FaultLog:
    """One for each server or client. `clock` in seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, period_s: float = PERIOD_S, limits: Iterable[str] = ()
    ) -> None:
        """`limits`: the names of the limits whose counters exist from the start."""
        self.limits = dict.fromkeys(limits, 0)
        """How often each limit was reached, by the name of its option."""
        self._clock = clock
        self._period_s = period_s
        self._kinds: dict[str, _Kind] = {}

    def closed(self, remote: str, reason: str, level: int) -> None:
        """A connection was closed from this side. The text before the colon in `reason` is its kind."""
        self._note(reason.partition(":")[0], "connection closed", remote, reason, level)

    def failed(self, remote: str, code: int, error: BaseException) -> None:
        """Handling a request, or the bytes of a connection (code -1), raised an exception. The stack trace is logged at debug level only."""
        reason = f"{type(error).__name__}: {error} at {_place(error)}"
        self._note(
            f"failure {code} {type(error).__name__}", f"request failed code={code}", remote, reason, logging.ERROR
        )
        logger.debug("request failed remote=%s code=%d", remote, code, exc_info=error)

    def refused(self, remote: str, code: int, reason: str) -> None:
        """A request was refused because the peer may not send it."""
        self._note(f"refused {code}", f"request refused code={code}", remote, reason, logging.WARNING)

    def limit_reached(self, limit: str, remote: str, reason: str) -> None:
        """A client has reached a limit; `limit` is the name of its option. Counted each time, logged once a minute."""
        self.limits[limit] = self.limits.get(limit, 0) + 1
        self._note(f"limit {limit}", f"limit reached limit={limit}", remote, reason, logging.WARNING, LIMITS_IN_FULL)

    def sum_up(self) -> None:
        """Logs the counts of the kinds whose minute is over. Called from time to time."""
        now = self._clock()
        for name, kind in list(self._kinds.items()):
            if now - kind.since >= self._period_s:
                del self._kinds[name]
                if kind.count:
                    logger.log(
                        kind.level, "repeated client errors suppressed kind=%r count=%d period_s=%d last_remote=%s last_reason=%r",
                        name, kind.count, now - kind.since, kind.remote, kind.reason,
                    )  # fmt: skip

    def _note(self, name: str, event: str, remote: str, reason: str, level: int, in_full: int = IN_FULL) -> None:
        kind = self._kinds.get(name)
        if kind is None and len(self._kinds) >= MAX_KINDS:
            name = "other"
            kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(self._clock(), level)
        if kind.logged < in_full:
            kind.logged += 1
            logger.log(level, "%s remote=%s reason=%r", event, remote, reason)
            return
        kind.count += 1
        kind.level = max(kind.level, level)
        kind.remote, kind.reason = remote, reason


def _place(error: BaseException) -> str:
    """The file and line of the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
