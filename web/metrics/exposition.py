"""Exposition: the text that Prometheus reads, from one sample that all scrapers share."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from web.metrics.broker_metrics import BrokerMetrics
from web.metrics.exporter_metrics import ExporterMetrics
from web.metrics.role_metrics import role_families
from web.sampling.sample import Sample
from web.sampling.sampler import Sampler

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
MAX_AGE_S: Final = 5.0
"""How old the figures of a scrape may be: two scrapers within this time cost the cluster as much as one."""
DEADLINE_S: Final = 9.0  # limit: Prometheus gives up after 10 s unless configured otherwise


class Exposition:
    """Formats samples."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._brokers = BrokerMetrics()
        self._exporter = ExporterMetrics()
        self._turn = asyncio.Lock()
        self._texts: dict[bool, tuple[Sample, bytes]] = {}
        """With the exporter's names or without: the latest sample, and its text."""

    async def scrape(self, *, exporter_names: bool = False) -> bytes:
        """The text. If the cluster does not answer in time, the appliance's own figures and `headrace_scrape_complete` 0."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                sample = await self._sampler.latest(MAX_AGE_S)
        except TimeoutError:
            sample = Sample(time.time(), problem=f"the cluster did not answer within {DEADLINE_S:g} s")
        async with self._turn:
            known = self._texts.get(exporter_names)
            if known is None or known[0] is not sample:
                # Thousands of topics take half a second, during which pages are served.
                text = await asyncio.to_thread(self._format, sample, exporter_names=exporter_names)
                known = self._texts[exporter_names] = (sample, text)
            return known[1]

    def _format(self, sample: Sample, *, exporter_names: bool) -> bytes:
        return format_families(self._families(sample, exporter_names=exporter_names))

    def _families(self, sample: Sample, *, exporter_names: bool) -> Iterator[Metric]:
        if exporter_names:
            yield from self._exporter.families(sample)
            return
        yield from self._brokers.families(sample)
        yield from role_families(sample)
        complete = GaugeMetricFamily("headrace_scrape_complete", "Whether every server answered.")
        problems = [sample.problem, sample.status_problem, *(broker.problem for broker in sample.brokers)]
        complete.add_metric((), 0 if any(problem is not None for problem in problems) else 1)
        yield complete
        took = GaugeMetricFamily("headrace_scrape_sample_seconds", "How long the sample took.")
        took.add_metric((), sample.took_s)
        yield took


class _Once(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def format_families(families: Iterable[Metric]) -> bytes:
    """Prometheus's text format, with the names and values escaped that clients chose."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(list(families)))
    return generate_latest(registry)
