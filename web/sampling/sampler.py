"""Sampler: takes samples, one at a time, and shares the latest: ten scrapers cost the cluster as much as one."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headrace import Admin
from headrace.errors import HeadraceError
from web.sampling.broker_reader import BrokerReader
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import BrokerSample, Sample

BROKER_DEADLINE_S: Final = 8.0
"""For all requests to one broker."""
PAGE_AGE_S: Final = 60.0
PAGE_TIMEOUT_S: Final = 4.0  # limit: half of a page's deadline; the rest of the page does not need the sample
_FORGET_AFTER_S: Final = 86_400.0
"""How long a broker that is not registered any more is reported as down."""


class Sampler:
    """Takes samples through an Admin that is running."""

    def __init__(self, admin: Admin, own: OwnAppliance, clock: Callable[[], float] = time.time) -> None:
        self._admin = admin
        self._own = own
        self._clock = clock
        self._readers: dict[tuple[str, str, int, str], BrokerReader] = {}
        self._seen_s: dict[tuple[str, str, int], tuple[str, float]] = {}
        """By cluster, name and id of each broker: its address, and when it was registered last."""
        self._latest: Sample | None = None
        self._taking: asyncio.Task[Sample] | None = None

    async def latest(self, max_age_s: float) -> Sample:
        """A sample that is not older; takes one if necessary. Never raises for the cluster's sake: problems are part of the sample."""
        latest = self._latest
        if latest is not None and 0 <= self._clock() - latest.time_s <= max_age_s:
            return latest
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take())
        # A scraper that gives up must not take the sample from others.
        return await asyncio.shield(self._taking)

    async def for_page(self) -> Sample | None:
        """A sample of the last minute; None if none could be taken in the time that a page has."""
        try:
            async with asyncio.timeout(PAGE_TIMEOUT_S):
                return await self.latest(PAGE_AGE_S)
        except TimeoutError:
            return None

    async def close(self) -> None:
        """Abandons a sample that is being taken."""
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)

    async def _take(self) -> Sample:
        began_s = self._clock()
        (status, status_problem), (brokers, problem) = await asyncio.gather(self._own.read(), self._read_brokers())
        self._latest = Sample(began_s, brokers, problem, status, status_problem, self._clock() - began_s)
        return self._latest

    async def _read_brokers(self) -> tuple[tuple[BrokerSample, ...], str | None]:
        try:
            async with asyncio.timeout(BROKER_DEADLINE_S):
                info = await self._admin.cluster_info()
        except (HeadraceError, TimeoutError) as error:
            return (), str(error) or f"the name servers did not answer within {BROKER_DEADLINE_S:g} s"
        clusters = {name: cluster for cluster, members in info.cluster_addr_table.items() for name in members}
        registered = {
            (clusters.get(name, ""), name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        }
        for gone in self._readers.keys() - registered:
            del self._readers[gone]
        for who in registered - self._readers.keys():
            self._readers[who] = BrokerReader(self._admin, *who)
        found = await asyncio.gather(*(self._read(who) for who in sorted(registered)))
        return (*found, *self._missing(registered)), None

    async def _read(self, who: tuple[str, str, int, str]) -> BrokerSample:
        try:
            async with asyncio.timeout(BROKER_DEADLINE_S):
                return await self._readers[who].read()
        except HeadraceError as error:  # a RequestTimeout is a TimeoutError too, and says more
            return BrokerSample(*who, problem=str(error))
        except TimeoutError:
            return BrokerSample(*who, problem=f"the broker did not answer within {BROKER_DEADLINE_S:g} s")

    def _missing(self, registered: set[tuple[str, str, int, str]]) -> list[BrokerSample]:
        """Brokers that were registered before and are not now."""
        now_s = self._clock()
        for cluster, name, broker_id, address in registered:
            self._seen_s[cluster, name, broker_id] = (address, now_s)
        missing = []
        for (cluster, name, broker_id), (address, seen_s) in sorted(self._seen_s.items()):
            if seen_s >= now_s:
                continue
            if now_s - seen_s > _FORGET_AFTER_S:
                del self._seen_s[cluster, name, broker_id]
                continue
            gone = "the broker is no longer registered with the name servers"
            missing.append(BrokerSample(cluster, name, broker_id, address, problem=gone))
        return missing
