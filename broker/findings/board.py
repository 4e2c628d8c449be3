"""FindingBoard: the current findings about consumer groups.

Checked every five seconds, between requests. A new problem may end by itself, for example while a client subscribes to its topics one after
another, so only lasting ones are posted. A finding is logged when it begins and when it is resolved; meanwhile it is on the page that
`headrace status` reads (`ipc.findings`). Findings do not change the behaviour of the broker.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from broker.findings.differing_members import differing_members
from broker.findings.finding import Finding
from broker.findings.lost_messages import LostMessages
from broker.findings.shared_client_ids import shared_client_ids
from broker.findings.unowned_queues import unowned_queues
from broker.settings import Settings
from broker.tables import Tables
from headrace.model import permission
from ipc.findings import FindingsPage

logger = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
_LASTS_S: Final = 5.0  # limit: by then a client that subscribes to topics one by one has finished


class _Posted(Struct):
    finding: Finding
    since_s: float
    since_ms: int
    is_reported: bool = False


class FindingBoard:
    """`find()` returns current problems; `publish(findings)` stores the board, and returns how many did not fit."""

    def __init__(
        self,
        find: Callable[[], Iterable[Finding]],
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
        """Checks every few seconds until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Checks once."""
        now_s = self._clock()
        found = {finding.key: finding for finding in self._find()}
        for key in [key for key in self._posted if key not in found]:
            self._end(self._posted.pop(key))
        for key, finding in found.items():
            posted = self._posted.setdefault(key, _Posted(finding, now_s, self._clock_ms()))
            posted.finding = finding
            if not posted.is_reported and now_s - posted.since_s >= _LASTS_S:
                posted.is_reported = True
                logger.warning(
                    "consumer problem found group=%s problem=%r members=%r advice=%r",
                    finding.group, finding.what, "; ".join(finding.members), finding.advice,
                )  # fmt: skip
        self._show()

    def _end(self, posted: _Posted) -> None:
        if posted.is_reported:
            logger.info("consumer problem resolved group=%s problem=%r", posted.finding.group, posted.finding.what)

    def _show(self) -> None:
        shown = [
            {"since": posted.since_ms, **posted.finding.as_json()}
            for posted in self._posted.values()
            if posted.is_reported
        ]
        if shown != self._published:
            self._published = shown
            left_out = self._publish(shown)
            if left_out:
                logger.warning("consumer problems omitted, shared-memory page is full omitted=%d", left_out)


def make_finding_board(settings: Settings, tables: Tables, page: FindingsPage, lost: LostMessages) -> FindingBoard:
    """The board for the tables and the shared-memory page."""
    topics, groups, clients, visits = tables.topics, tables.groups, tables.clients, tables.visits

    def read_queues(name: str) -> int:
        topic = topics.find(name)
        return topic.read_queue_count if topic is not None and permission.is_readable(topic.permission) else 0

    def find() -> Iterator[Finding]:
        online = clients.consumer_groups()
        tables.stats.gather()
        visits.keep_only(online)
        now_ms = time.time_ns() // 1_000_000
        yield from lost.findings()
        yield from differing_members(online.values(), now_ms)
        yield from shared_client_ids(online.values(), now_ms)
        # Members of a slave's groups consume from the master.
        if settings.may_append:
            known = groups.all()
            served = [group for group in online.values() if group.name not in known or known[group.name].consume_enable]
            yield from unowned_queues(served, read_queues, visits.of, time.monotonic())

    return FindingBoard(find, page.store)
