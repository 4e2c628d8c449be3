"""AlertService: evaluates the rules on every sample of the recorder, keeps the record, and notifies.

The recorder hands samples over and goes on. Delivery runs beside the evaluation, so a webhook that hangs delays no rule.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace import Admin
from headrace.errors import HeadraceError
from web.alerts.alert_book import AlertBook
from web.alerts.channels import LOG, Channel, NotDelivered, log_event
from web.alerts.evaluator import AlertEvent, Evaluator
from web.alerts.observations import Observations, Observed
from web.alerts.rules import Rule, problem_of
from web.cluster.runtime_figures import REFUSES
from web.errors import Invalid, NotFound
from web.history.disk_forecast import DiskForecast
from web.history.disk_outlook import DAY_S, ReadChart, disk_outlook
from web.sampling.sample import Sample

DISK_EVERY_S: Final = 300.0
NEVER_DAYS: Final = 10_000.0
"""In place of *never*, for a disk that does not fill up."""
TRIES: Final = 3
_PAUSE_S: Final = 5.0
_MOST_DELIVERIES: Final = 50  # limit: deliveries in progress; further ones are dropped, and logged
_MOST_CHANNELS: Final = 20
_THREADS: Final = 4  # limit: deliveries at once; apart from the threads for passwords and the history, which must not wait for webhooks

logger = logging.getLogger(__name__)


class AlertService:
    """Runs until it is cancelled."""

    def __init__(
        self,
        book: AlertBook,
        admin: Admin,
        read_chart: ReadChart,
        may_send_to: Callable[[str], bool] = lambda _: True,
        pause_s: float = _PAUSE_S,
    ) -> None:
        """`may_send_to`: whether channels may connect to a host."""
        self._book = book
        self._admin = admin
        self._read_chart = read_chart
        self._may_send_to = may_send_to
        self._pause_s = pause_s
        self._observations = Observations()
        firing = book.firing()
        self._evaluator = Evaluator(firing)
        self._firing = {(event.rule, event.subject): event for event in firing}
        """Apart from the book, which cannot be written while the console's own disk is full."""
        self._observed: Observed = {}
        """Of the latest sample."""
        self._rules, self._channels = book.rules(), book.channels()
        self._next: tuple[Sample, Mapping[str, float]] | None = None
        self._has_next = asyncio.Event()
        self._disk_days: dict[str, float] = {}
        self._disk_due_s = 0.0
        self._deliveries: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "alerts")

    # ---- what pages use

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that apply."""
        return self._rules

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels besides `log`. They contain secrets: do not show them."""
        return self._channels

    @property
    def firing_count(self) -> int:
        """How many alerts have begun and not ended."""
        return len(self._evaluator.firing)

    def firing(self) -> list[AlertEvent]:
        """The alerts that have begun and not ended."""
        return [self._firing[key] for key in sorted(self._firing)]

    def present_value(self, event: AlertEvent) -> float | None:
        """The value of an alert that fires, as of the latest sample; None if unknown."""
        return None if event.what is None else self._observed.get(event.what, {}).get(event.subject)

    def ends_at_s(self, event: AlertEvent) -> float | None:
        """When a firing alert resolves if its value stays within the threshold; None while its value passes the threshold."""
        return self._evaluator.ends_at_s(event.rule, event.subject)

    async def events(self, rule: str | None = None) -> list[AlertEvent]:
        """What began and ended, of all rules or of one, newest first."""
        return await asyncio.to_thread(self._book.events, rule)

    def has_dropped_events(self) -> bool:
        """Whether old events were deleted."""
        return self._book.has_dropped()

    def change_rules(self, rules: Sequence[Rule]) -> None:
        """Replaces all rules. Raises Invalid."""
        problem = problem_of(tuple(rules), frozenset({LOG, *(channel.name for channel in self._channels)}))
        if problem is not None:
            raise problem
        self._book.store_rules(rules)
        self._rules = tuple(rules)

    def change_channels(self, channels: Sequence[Channel]) -> None:
        """Replaces all channels. Raises Invalid."""
        names = [channel.name for channel in channels]
        if len(set(names)) < len(names) or LOG in names or not all(0 < len(name) <= 80 for name in names):
            raise Invalid("a channel name must be unique, have 1 to 80 characters and differ from {log}", log=repr(LOG))
        if len(channels) > _MOST_CHANNELS:
            raise Invalid("too many channels: {count}; the maximum is {most}", count=len(channels), most=_MOST_CHANNELS)
        for channel in channels:
            problem = channel.problem()
            if problem is not None:
                raise problem
            if not self._may_send_to(channel.target_host):
                raise Invalid(
                    "channel {name}: alerts may not be sent to {host}",
                    "Add the host to consoleAlertHosts in the console's configuration, then restart the console.",
                    name=repr(channel.name),
                    host=channel.target_host,
                )
        used = {name for rule in self._rules for name in rule.channels} - {LOG}
        if used - set(names):
            raise Invalid(
                "rules still use the channel {channels}",
                "Remove the channel from all rules first.",
                channels=", ".join(sorted(used - set(names))),
            )
        self._book.store_channels(channels)
        self._channels = tuple(channels)

    async def test_channel(self, name: str) -> None:
        """Sends a test message. Raises NotFound, NotDelivered."""
        event = AlertEvent(
            time.time(), "test", "console", firing=True, value=0.0, text="This is a test message from the console."
        )
        if name == LOG:
            log_event(event)
            return
        channel = next((one for one in self._channels if one.name == name), None)
        if channel is None:
            raise NotFound(
                "the channel {name} does not exist", "Choose one from the list of channels.", name=repr(name[:80])
            )
        await self._send(channel, [event])

    # ---- evaluating

    def follow(self, sample: Sample, values: Mapping[str, float]) -> None:
        """Takes a sample over; one that was not evaluated yet is skipped."""
        self._next = (sample, values)
        self._has_next.set()

    async def run(self) -> None:
        """Evaluates each sample."""
        try:
            while True:
                await self._has_next.wait()
                self._has_next.clear()
                assert self._next is not None
                await self.evaluate(*self._next)
        finally:
            for task in self._deliveries:
                task.cancel()
            await asyncio.gather(*self._deliveries, return_exceptions=True)
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def evaluate(self, sample: Sample, values: Mapping[str, float]) -> None:
        """Evaluates one sample and begins to notify."""
        if sample.time_s >= self._disk_due_s:
            self._disk_due_s = sample.time_s + DISK_EVERY_S
            self._disk_days = await self._forecast(sample)
        self._observed = self._observations.observe(sample, values, self._disk_days)
        rules = self._rules
        events = self._evaluator.step(sample.time_s, rules, self._observed)
        if not events:
            return
        for event in events:
            self._firing.pop((event.rule, event.subject), None)
            if event.firing:
                self._firing[event.rule, event.subject] = event
        try:
            await asyncio.to_thread(self._book.record, events)
        except sqlite3.Error as error:
            logger.error("alerts not recorded error=%r", str(error))
        self._notify(events, {rule.name: rule.channels for rule in rules})

    async def _forecast(self, sample: Sample) -> dict[str, float]:
        days: dict[str, float] = {}
        for broker in sample.brokers:
            if broker.problem is not None or not broker.is_master:
                continue
            try:
                config = await self._admin.broker_config(broker.address)
            except HeadraceError as error:
                logger.info("disk forecast not possible broker=%s error=%r", broker.key, str(error))
                continue
            outlook = await asyncio.to_thread(disk_outlook, broker, config, self._read_chart, sample.time_s)
            if isinstance(outlook, DiskForecast):
                reached_s = outlook.reaches(REFUSES)
                days[broker.key] = NEVER_DAYS if reached_s is None else reached_s / DAY_S
        return days

    # ---- notifying

    def _notify(self, events: Sequence[AlertEvent], channels_of: Mapping[str, Sequence[str]]) -> None:
        by_channel: dict[str, list[AlertEvent]] = {}
        for event in events:
            # The end of an alert whose rule was removed is for the log.
            for name in channels_of.get(event.rule, (LOG,)):
                by_channel.setdefault(name, []).append(event)
        for event in by_channel.pop(LOG, []):
            log_event(event)
        for channel in self._channels:
            if channel.name in by_channel:
                self._start_delivery(channel, by_channel[channel.name])

    def _start_delivery(self, channel: Channel, events: list[AlertEvent]) -> None:
        if len(self._deliveries) >= _MOST_DELIVERIES:
            logger.error(
                "alerts not delivered channel=%r count=%d error='too many deliveries'", channel.name, len(events)
            )
            return
        task = asyncio.create_task(self._deliver(channel, events))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def _deliver(self, channel: Channel, events: list[AlertEvent]) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._send(channel, events)
            except NotDelivered as error:
                if attempt == TRIES:
                    logger.error(
                        "alerts not delivered channel=%r count=%d error=%r", channel.name, len(events), str(error)
                    )
                else:
                    await asyncio.sleep(self._pause_s * attempt)
            else:
                return

    async def _send(self, channel: Channel, events: list[AlertEvent]) -> None:
        if not self._may_send_to(channel.target_host):
            raise NotDelivered(f"alerts may not be sent to {channel.target_host} (consoleAlertHosts)")
        await asyncio.get_running_loop().run_in_executor(self._threads, channel.send, events)
