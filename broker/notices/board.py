"""NoticeBoard: what was noticed of the groups, and has not ended.

Looked at every five seconds, in between requests. What has just begun may end by itself, as when a client subscribes to its topics one after
another: it is noticed when it lasts. It is logged then, once, and once more when it has ended; meanwhile it stands on the page that
`headrace status` reads (`ipc.noticed`). Nothing here changes what clients are told.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.notices.notice import Notice

_logger = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
_LASTS_S: Final = 5.0  # limit: a client that subscribes to topics one by one has said all of them by then


@dataclass(slots=True)
class _Posted:
    notice: Notice
    since_s: float
    since_ms: int
    is_noticed: bool = False


class NoticeBoard:
    """`find()` says what is the matter now; `publish(notices)` stores what stands on the board, and says how many it had no room for."""

    def __init__(
        self,
        find: Callable[[], Iterable[Notice]],
        publish: Callable[[Sequence[dict[str, Any]]], int],
        clock: Callable[[], float] = time.monotonic,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._find = find
        self._publish = publish
        self._clock = clock
        self._clock_ms = clock_ms
        self._posted: dict[tuple[str, str, str], _Posted] = {}
        self._published: list[dict[str, Any]] | None = None

    async def keep(self) -> None:
        """Looks every few seconds until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Looks once."""
        now_s = self._clock()
        found = {notice.key: notice for notice in self._find()}
        for key in [key for key in self._posted if key not in found]:
            self._end(self._posted.pop(key))
        for key, notice in found.items():
            posted = self._posted.setdefault(key, _Posted(notice, now_s, self._clock_ms()))
            posted.notice = notice
            if not posted.is_noticed and now_s - posted.since_s >= _LASTS_S:
                posted.is_noticed = True
                _logger.warning(
                    "noticed group=%s: %s%s; %s", notice.group, notice.what, _listed(notice.members), notice.advice
                )
        self._show()

    def _end(self, posted: _Posted) -> None:
        if posted.is_noticed:
            _logger.info("no longer so group=%s: %s", posted.notice.group, posted.notice.what)

    def _show(self) -> None:
        shown = [
            {"since": posted.since_ms, **posted.notice.as_json()}
            for posted in self._posted.values()
            if posted.is_noticed
        ]
        if shown != self._published:
            self._published = shown
            left_out = self._publish(shown)
            if left_out:
                _logger.warning("more is noticed than can be shown left_out=%d", left_out)


def _listed(members: tuple[str, ...]) -> str:
    return f" ({'; '.join(members)})" if members else ""
