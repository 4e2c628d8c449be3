"""ConsumeStatistics: the rates at which each topic is pulled and consumed, for administration tools (client spec 3.16).

Sums only grow. They are sampled every ten seconds and every ten minutes; a rate is the difference of two samples.
"""

import asyncio
import time
from collections import deque
from typing import Final

from headrace.protocol.bodies import ConsumeStatus

MINUTE_SAMPLE_S: Final = 10.0
MINUTE_SAMPLES: Final = 7
HOUR_SAMPLES: Final = 7
_TURNS_AN_HOUR_SAMPLE: Final = 60


class TopicSums:
    """A topic's sums since the consumer started. Times are seconds."""

    __slots__ = ("calls", "failed", "hour", "minute", "ok", "pull_s", "pulled", "pulls", "work_s")

    def __init__(self) -> None:
        self.pulls = self.pulled = self.calls = self.ok = self.failed = 0
        self.pull_s = self.work_s = 0.0
        self.minute: deque[tuple[float, ...]] = deque([self._sample()], maxlen=MINUTE_SAMPLES)
        self.hour: deque[tuple[float, ...]] = deque([self._sample()], maxlen=HOUR_SAMPLES)

    def _sample(self) -> tuple[float, ...]:
        return (time.monotonic(), self.pulls, self.pull_s, self.pulled, self.calls, self.work_s, self.ok, self.failed)

    def sample(self, *, is_hour: bool) -> None:
        """Takes a sample."""
        self.minute.append(self._sample())
        if is_hour:
            self.hour.append(self._sample())

    def status(self) -> ConsumeStatus:
        """Returns the rates of the last minute. Without calls in it, the time of a call is that of the last hour; failures are always those of the last hour."""
        last = self._sample()
        elapsed, pulls, pull_s, pulled, calls, work_s, ok, failed = (
            now - then for now, then in zip(last, self.minute[0], strict=True)
        )
        hour = [now - then for now, then in zip(last, self.hour[0], strict=True)]
        if not calls:
            calls, work_s = hour[4], hour[5]
        elapsed = max(elapsed, 0.001)
        return ConsumeStatus(
            pull_rt=1000 * pull_s / pulls if pulls else 0.0,
            pull_tps=pulled / elapsed,
            consume_rt=1000 * work_s / calls if calls else 0.0,
            consume_ok_tps=ok / elapsed,
            consume_failed_tps=failed / elapsed,
            consume_failed_msgs=int(hour[7]),
        )


class ConsumeStatistics:
    """The sums of a consumer's topics."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicSums] = {}

    def of(self, topic: str) -> TopicSums:
        """Returns the sums of a topic, to add to."""
        sums = self._topics.get(topic)
        if sums is None:
            sums = self._topics[topic] = TopicSums()
        return sums

    def table(self) -> dict[str, ConsumeStatus]:
        """Returns the rates by topic."""
        return {topic: sums.status() for topic, sums in self._topics.items()}

    async def run(self) -> None:
        """Samples until it is cancelled."""
        turn = 0
        while True:
            await asyncio.sleep(MINUTE_SAMPLE_S)
            turn += 1
            for sums in self._topics.values():
                sums.sample(is_hour=turn % _TURNS_AN_HOUR_SAMPLE == 0)
