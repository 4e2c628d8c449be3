"""Recorder: takes a sample every ten seconds and stores it. A sample that failed is a gap."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Final

from web.history.history_file import HistoryFile
from web.history.series import series_of
from web.history.tiers import TIERS
from web.sampling.sample import Sample
from web.sampling.sampler import Sampler

EVERY_S: Final = TIERS[0].step_s
_MAX_AGE_S: Final = 2.0
_EARLY_S: Final = 0.5
"""Timers may fire this long before their time: they count in milliseconds, and the clock may be corrected meanwhile."""
_LONGEST_S: Final = 3 * EVERY_S
"""Rates are not computed over longer times: what came in a burst after a pause would look steady."""

logger = logging.getLogger(__name__)

Follower = Callable[[Sample, Mapping[str, float]], None]


class Recorder:
    """Runs until it is cancelled. Followers, such as alerts, get every sample with its values."""

    def __init__(self, sampler: Sampler, file: HistoryFile) -> None:
        self._sampler = sampler
        self._file = file
        self._before: Sample | None = None
        self._is_failing = False
        self.followers: list[Follower] = []

    async def run(self) -> None:
        """Records at every full ten seconds."""
        try:
            while True:
                await asyncio.sleep(wait_s(time.time()))
                await self.record()
        finally:
            await self._sampler.close()

    async def record(self) -> None:
        """Takes and stores one sample, as that of the next full ten seconds if it was taken shortly before: for a page, or because a timer fired early."""
        sample = await self._sampler.latest(_MAX_AGE_S)
        before = self._before
        if before is not None and not 0 < sample.time_s - before.time_s <= _LONGEST_S:
            before = None
        self._before = sample
        values = series_of(before, sample)
        try:
            await asyncio.to_thread(self._file.add, sample.time_s + _EARLY_S + _MAX_AGE_S, values)
        except sqlite3.Error as error:
            if not self._is_failing:
                logger.error("history not written error=%r", str(error))
            self._is_failing = True
        else:
            self._is_failing = False
        for follow in self.followers:
            follow(sample, values)


def wait_s(now_s: float) -> float:
    """How long it is to the next full ten seconds; just before them, to those after them: the timer has fired early."""
    return EVERY_S + _EARLY_S - (now_s + _EARLY_S) % EVERY_S
