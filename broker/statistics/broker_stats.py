"""BrokerStats: the broker's statistics in sets of items by key, as tools request them (admin spec 6.1).

Processors report their work, a batch at a time; the hot paths count by themselves and are queried (`follow`) before statistics are read.
The totals of messages sent and received by clients, from which the broker's rates are computed (`broker.statistics.traffic`), are counted here too.

# compat: RocketMQ has more sets, which it never fills; as there, an item without counts does not exist.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from broker.config import BrokerConfig
from broker.statistics.stats_item import DAY, HOUR, MINUTE, StatsItem, Window
from broker.statistics.store_stats import StoreStats
from headrace.model.names import SCHEDULE_TOPIC

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
QUEUE_PUT_NUMS: Final = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE: Final = "QUEUE_PUT_SIZE"
QUEUE_GET_NUMS: Final = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE: Final = "QUEUE_GET_SIZE"
# Not in RocketMQ, which has these as metrics in release 5.
TRANSACTION_COMMIT_NUMS: Final = "TRANSACTION_COMMIT_NUMS"
TRANSACTION_ROLLBACK_NUMS: Final = "TRANSACTION_ROLLBACK_NUMS"
TIMER_ENQUEUE_NUMS: Final = "TIMER_ENQUEUE_NUMS"
TIMER_DEQUEUE_NUMS: Final = "TIMER_DEQUEUE_NUMS"

SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"
"""The group of RocketMQ's statistics for deliveries of delay levels."""

_WINDOWS: Final = (MINUTE, HOUR, DAY)
_ITEMS_AT_ONCE: Final = 512  # limit: half a millisecond of sampling, during which requests wait


class BrokerStats:
    """All sets. Owned by the broker's event loop."""

    def __init__(self, config: BrokerConfig, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._config = config
        self._cluster = config.broker_cluster_name
        self._clock_ms = clock_ms
        self._sets: dict[str, dict[str, StatsItem]] = {}
        self.store = StoreStats()
        self._hot_paths: list[Callable[[], None]] = []
        self.messages_in = 0
        """Stored messages of clients."""
        self.bytes_in = 0
        self.puts_failed = 0
        self.messages_out = 0
        """Messages in responses to pulls."""
        self.bytes_out = 0
        self.pulls_found = 0
        self.pulls_missed = 0

    # -- counting ---------------------------------------------------------------------------------------------------------

    def follow(self, bring: Callable[[], None]) -> None:
        """`bring()` adds what a hot path has counted since the last time."""
        self._hot_paths.append(bring)

    def gather(self) -> None:
        """Collects the counts of the hot paths."""
        for bring in self._hot_paths:
            bring()

    def sent(self, topic: str, queue_id: int, messages: int, size_bytes: int, times: int = 1) -> None:
        """Counts stored messages of clients, `messages` in `times` requests."""
        self.messages_in += messages
        self.bytes_in += size_bytes
        self._put(topic, messages, size_bytes, times)
        if topic == SCHEDULE_TOPIC:
            self._queue_put(queue_id, messages, size_bytes)
        self._add(BROKER_PUT_NUMS, self._cluster, messages, 0)

    def sent_back(self, topic: str, group: str, stored_in: str, queue_id: int, size_bytes: int) -> None:
        """Counts a message of `topic` that a consumer has sent back."""
        if stored_in == SCHEDULE_TOPIC:
            # compat: messages sent directly to the retry topic or the dead letters are not counted as put.
            self._put(stored_in, 1, size_bytes, 1)
            self._queue_put(queue_id, 1, size_bytes)
        self._add(SNDBCK_PUT_NUMS, f"{topic}@{group}", 1)

    def delivered(self, topic: str, size_bytes: int) -> None:
        """Counts a delayed message stored at its destination."""
        self._put(topic, 1, size_bytes, 1)
        self._add(BROKER_PUT_NUMS, self._cluster, 1, 0)

    def got(
        self, topic: str, group: str, pulls: Mapping[int, int], messages: int, size_bytes: int, ms: int = 0
    ) -> None:
        """Counts messages in responses to pulls, by queue; the responses took `ms` milliseconds."""
        times = sum(pulls.values())
        self.messages_out += messages
        self.bytes_out += size_bytes
        self.pulls_found += times
        self.read(topic, group, messages, size_bytes, times)
        if self._config.enable_detail_stat:
            for queue_id, count in pulls.items():
                self._add(GROUP_GET_LATENCY, f"{queue_id}@{topic}@{group}", ms, count)
        else:
            self._add(GROUP_GET_LATENCY, f"{topic}@{group}", ms, times)

    def read(self, topic: str, group: str, messages: int, size_bytes: int, times: int = 1) -> None:
        """The broker itself has read messages, or a client has."""
        self.store.messages_read += messages
        key = f"{topic}@{group}"
        self._add(GROUP_GET_NUMS, key, messages, times)
        self._add(GROUP_GET_SIZE, key, size_bytes, times)
        self._add(BROKER_GET_NUMS, self._cluster, messages, 0)

    def taken_from_level(self, queue_id: int, size_bytes: int) -> None:
        """A message that was due was taken from a delay level's queue."""
        # compat: not included in the messages read from the broker.
        key = f"{SCHEDULE_TOPIC}@{SCHEDULE_CONSUMER}"
        self._add(GROUP_GET_NUMS, key, 1)
        self._add(GROUP_GET_SIZE, key, size_bytes)
        if self._config.enable_detail_stat:
            key = f"{SCHEDULE_TOPIC}@{queue_id}@{SCHEDULE_CONSUMER}"
            self._add(QUEUE_GET_NUMS, key, 1)
            self._add(QUEUE_GET_SIZE, key, size_bytes)

    def transaction_ended(self, topic: str, *, is_committed: bool) -> None:
        """Counts a half message of the topic that was committed or rolled back."""
        self._add(TRANSACTION_COMMIT_NUMS if is_committed else TRANSACTION_ROLLBACK_NUMS, topic, 1)

    def timer_stored(self, topic: str) -> None:
        """Counts a message that waits until it is due in the topic."""
        self._add(TIMER_ENQUEUE_NUMS, topic, 1)

    def timer_delivered(self, topic: str) -> None:
        """Counts a timer message that was delivered to the topic."""
        self._add(TIMER_DEQUEUE_NUMS, topic, 1)

    def _put(self, topic: str, messages: int, size_bytes: int, times: int) -> None:
        self._add(TOPIC_PUT_NUMS, topic, messages, times)
        self._add(TOPIC_PUT_SIZE, topic, size_bytes, times)

    def _queue_put(self, queue_id: int, messages: int, size_bytes: int) -> None:
        # compat: RocketMQ counts by queue only for delayed messages.
        if not self._config.enable_detail_stat:
            return
        key = f"{SCHEDULE_TOPIC}@{queue_id}"
        self._add(QUEUE_PUT_NUMS, key, messages)
        self._add(QUEUE_PUT_SIZE, key, size_bytes)

    def _add(self, name: str, key: str, value: int, times: int = 1) -> None:
        try:
            self._sets[name][key].add(value, times)
        except KeyError:
            self._sets.setdefault(name, {}).setdefault(key, StatsItem()).add(value, times)

    def forget_topic(self, topic: str) -> None:
        """With `autoDeleteUnusedStats`: removes the items of a deleted topic."""
        if self._config.auto_delete_unused_stats:
            self._forget(lambda key: key == topic or key.startswith(f"{topic}@") or f"@{topic}@" in key)

    def forget_group(self, group: str) -> None:
        """The same for a group."""
        if self._config.auto_delete_unused_stats:
            self._forget(lambda key: key.endswith(f"@{group}"))

    def _forget(self, is_meant: Callable[[str], bool]) -> None:
        for keys in self._sets.values():
            for key in [key for key in keys if is_meant(key)]:
                del keys[key]

    # -- looking ----------------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Samples every item when its windows are due, until it is cancelled."""
        loop = asyncio.get_running_loop()
        start, tick = loop.time(), 0
        while True:
            for window in _WINDOWS:
                if tick * MINUTE.tick_s % window.tick_s == 0:
                    await self.look(window)
            tick += 1
            await asyncio.sleep(start + tick * MINUTE.tick_s - loop.time())

    async def look(self, window: Window) -> None:
        """Samples every item once for a window, yielding to requests in between."""
        self.gather()
        now_ms = self._clock_ms()
        items = [item for keys in self._sets.values() for item in keys.values()]
        for at in range(0, len(items), _ITEMS_AT_ONCE):
            for item in items[at : at + _ITEMS_AT_ONCE]:
                item.look(window, now_ms)
            await asyncio.sleep(0)

    # -- asking -----------------------------------------------------------------------------------------------------------

    def find(self, name: str, key: str) -> StatsItem | None:
        """The item of this set and key, if anything was counted."""
        self.gather()
        return self._sets.get(name, {}).get(key)

    def totals(self, name: str) -> dict[str, int]:
        """What this set has counted since the start, by key; empty for an unknown set."""
        self.gather()
        return {key: item.value for key, item in self._sets.get(name, {}).items()}

    def group_tps(self, topic: str, group: str) -> float:
        """Messages per second that the group received from the topic in the last minute."""
        item = self._sets.get(GROUP_GET_NUMS, {}).get(f"{topic}@{group}")
        return item.figures(MINUTE).tps if item is not None else 0.0
