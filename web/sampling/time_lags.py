"""TimeLags: how long ago the oldest message was stored that each group has not consumed, as RocketMQ 5 defines the time lag.

The progress of all groups (one request) has only the store time of what a group consumed last. That is no measure of the lag: after a quiet night one new
message would look hours late, and a group that never consumed would have no lag. RocketMQ 4.9 has one request for the time of the next message,
QUERY_CONSUME_TIME_SPAN, for one group and topic. It is made only where messages wait, for a bounded number of them.

For the others the lag is known within a bound: the oldest waiting message was stored after the last sample without a lag, after the last consumed
message, and not before the one that an earlier request found.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.protocol.bodies.stats import QueueTimeSpan

MOST_REQUESTS: Final = 50  # limit: for each sample of a broker. The broker reads up to four messages for each queue of the topic, also from disk
DEADLINE_S: Final = 2.0  # limit: a quarter of the time for a broker's sample; what was not answered by then is bounded as described above
CLOSE_MS: Final = 1_000
"""A group that consumed something so recently is not asked for: its lag is at most this, and so are those of most groups in use."""

Pair = tuple[str, str]
"""Topic and group."""


class Waiting(Struct, frozen=True):
    """A topic in which messages wait for a group."""

    pair: Pair
    consumed_ms: int
    """When the message was stored that the group consumed last, in the queue in which that is longest ago; 0 if it has not consumed any there."""


def delay_of(span: QueueTimeSpan) -> int:
    """How long ago the group's next message of a queue was stored, ms; 0 if there is none.

    If that message was deleted, Apache's broker counts from 1970. The oldest message of the queue is the next one then.
    """
    delay_ms = max(span.delay_time, 0)
    return min(delay_ms, max(_now_ms() - span.min_time_stamp, 0)) if span.min_time_stamp > 0 else delay_ms


class TimeLags:
    """Those of one broker. Remembers what earlier samples found."""

    def __init__(self, ask: Callable[[str, str], Awaitable[int]], clock_ms: Callable[[], int] | None = None) -> None:
        """`ask(topic, group)`: a request for the time lag, ms. Raises HeadraceError."""
        self._ask = ask
        self._clock_ms = clock_ms or _now_ms
        self._stored_ms: dict[Pair, int] = {}
        """A time before which no waiting message was stored."""
        self._asked_ms: dict[Pair, int] = {}

    async def read(self, idle: Iterable[Pair], waiting: Iterable[Waiting]) -> Mapping[Pair, int | None]:
        """The time lags, ms, of the topics in which no messages wait, and of those in which some do; None: unknown."""
        now_ms = self._clock_ms()
        late = {one.pair: one.consumed_ms for one in waiting}
        none_waits = list(idle)
        self._stored_ms = {pair: at for pair, at in self._stored_ms.items() if pair in late}
        self._stored_ms.update(dict.fromkeys(none_waits, now_ms))
        self._asked_ms = {pair: at for pair, at in self._asked_ms.items() if pair in late}
        wanted = [pair for pair, consumed_ms in late.items() if now_ms - consumed_ms > CLOSE_MS]
        wanted.sort(key=lambda pair: (self._asked_ms.get(pair, 0), self._stored_ms.get(pair, 0), late[pair]))
        found: dict[Pair, int] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.gather(*(self._ask_into(found, pair, now_ms) for pair in wanted[:MOST_REQUESTS]))
        return {
            **dict.fromkeys(none_waits, 0),
            **{pair: found.get(pair, self._bound(pair, consumed_ms, now_ms)) for pair, consumed_ms in late.items()},
        }

    async def _ask_into(self, found: dict[Pair, int], pair: Pair, now_ms: int) -> None:
        self._asked_ms[pair] = now_ms  # also without an answer, so that the others have their turn
        with suppress(HeadraceError):  # such as a topic that was deleted meanwhile
            found[pair] = await self._ask(*pair)
            self._stored_ms[pair] = now_ms - found[pair]

    def _bound(self, pair: Pair, consumed_ms: int, now_ms: int) -> int | None:
        """The largest that the lag may be; None if no earlier sample has anything to compare with: what was consumed last may be far too long ago."""
        if now_ms - consumed_ms <= CLOSE_MS:
            return max(now_ms - consumed_ms, 0)
        stored_ms = self._stored_ms.get(pair)
        return None if stored_ms is None else max(now_ms - max(stored_ms, consumed_ms), 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
