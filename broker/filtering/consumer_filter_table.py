"""ConsumerFilterTable: the SQL92 filters of consumer groups by topic, stored in `config/consumerFilter.json`.

Heartbeats register a group's expressions. Filters of a group without consumers become inactive and are removed after a day. The file
has RocketMQ's format (store/filter/consumer_filter.py) and is written every ten seconds and at the stop.

With `enableCalcFilterBitMap` dispatch reads the file and stores bitmaps of the filters in it. A bitmap is valid only for
messages stored after dispatch knew the filter. So the `bornTime` of a filter is a second after its registration, the file is
written at once, and if that took longer, `bornTime` is set again. Until the file is written, bitmaps are not used for the filter.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Generator, Iterable
from typing import Final

from msgspec.structs import replace

from broker.config import BrokerConfig
from broker.json_file import JsonFile
from headrace.model.subscription import PYTHON, SubscriptionData, is_tag_type
from store.filter.bloom import BloomFilter
from store.filter.consumer_filter import ConsumerFilterData, FilterTable, compile_filter, decode_filters, encode_filters
from store.filter.message_filter import ExpressionFilter
from store.filter.program import Program
from store.filter.refusal import Refusal

logger = logging.getLogger(__name__)

SAVE_INTERVAL_S = 10.0
_LOADED_DEAD_MS = 30_000  # compat: loaded filters count as inactive for half a minute, the interval of heartbeats
_LEAD_MS = 1000  # limit: writing a small file takes a few milliseconds, on a busy disk perhaps 0.1 s
_ATTEMPTS = 3

MAX_LENGTH: Final = "maxFilterLength"
MAX_TERMS: Final = "maxFilterTerms"
MAX_FILTERS: Final = "maxFilters"
"""The options that limit expressions."""

LimitReached = Callable[[str, str], object]
"""Counts that a client has reached a limit: the name of its option, and the reason in one line."""


def ignore_limit(_limit: str, _reason: str) -> None:
    """Does not count the limit."""


class LimitRefusal(Refusal):
    """An expression is rejected because of a limit, which was counted and logged."""

    __slots__ = ()


class ConsumerFilterTable:
    """Filters by topic and group. Used only in the broker's event loop."""

    def __init__(
        self, json_file: JsonFile, config: BrokerConfig, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """Reads the file. Raises ConfigFileUnreadable; ValueError for invalid options of the Bloom filter."""
        self._file = json_file
        self._config = config
        self._now_ms = now_ms
        self._bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._table: FilterTable = {}
        self._ready: dict[tuple[str, str], ExpressionFilter] = {}
        self._unwritten: set[tuple[str, str]] = set()
        self._count = 0
        self._is_changed = False
        self._load()

    # -- what heartbeats say ----------------------------------------------------------------------------------------------

    def register(
        self, group: str, subscriptions: Collection[SubscriptionData], limit_reached: LimitReached = ignore_limit
    ) -> None:
        """Registers the group's expressions; its filters for other topics become inactive. (Functions are not kept here.)"""
        for _ in self.register_steps(group, subscriptions, limit_reached):
            pass

    def register_steps(
        self, group: str, subscriptions: Collection[SubscriptionData], limit_reached: LimitReached = ignore_limit
    ) -> Generator[str, None, None]:
        """As `register`, one expression per step. Yields why the expression is rejected, empty if it is not or if a limit was reached."""
        subscriptions = [one for one in subscriptions if one.expression_type != PYTHON]
        for subscription in subscriptions:
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                yield self._register_one(group, subscription, limit_reached)
        listed = {subscription.topic for subscription in subscriptions}
        for data in self._of_group(group):
            if data.topic not in listed:
                self._let_die(data)
        self._write_if_dispatch_reads()

    def forget_groups_beyond(self, connected: Collection[str]) -> None:
        """Deactivates the filters of a group without consumers."""
        for groups in self._table.values():
            for group, data in groups.items():
                if group not in connected:
                    self._let_die(data)

    def _register_one(self, group: str, subscription: SubscriptionData, limit_reached: LimitReached) -> str:
        topic, version = subscription.topic, subscription.sub_version
        known = self._table.get(topic, {}).get(group)
        if known is not None and version <= known.client_version:
            # compat: only a newer subscription changes a filter; the same one activates it again.
            if version == known.client_version and known.is_dead:
                self._put(replace(known, dead_time=0))
            return ""
        bits = self._bloom.data_of(group, topic)
        data = ConsumerFilterData(
            group, topic, subscription.sub_string, subscription.expression_type, bits, self._birth(), version
        )
        if known is not None and (known.expression, known.expression_type, known.bloom_filter_data) == (
            data.expression, data.expression_type, bits,
        ):  # fmt: skip
            self._put(replace(known, client_version=version, dead_time=0))
            return ""
        compiled = compile_within_limits(data.expression, data.expression_type, self._config, limit_reached)
        if isinstance(compiled, Refusal):
            if known is not None:
                self._remove(known)
            return (
                "" if isinstance(compiled, LimitRefusal) else f"filter of group {group} for topic {topic}: {compiled}"
            )
        if known is None and self._count >= self._config.max_filters and not self._make_room():
            limit_reached(
                MAX_FILTERS,
                f"the filter of group {group} for topic {topic} is not kept: {self._count} filters are kept already",
            )
            return ""
        self._unwritten.add((topic, group))
        self._put(data)
        logger.info("filter registered group=%s topic=%s expression=%r", group, topic, data.expression)
        return ""

    def _birth(self) -> int:
        return self._now_ms() + (_LEAD_MS if self._config.enable_calc_filter_bit_map else 0)

    def _make_room(self) -> bool:
        """Forgets the filter that has been dead for longest; returns whether there was one."""
        dead = [data for groups in self._table.values() for data in groups.values() if data.is_dead]
        if dead:
            self._remove(min(dead, key=lambda data: data.dead_time))
        return bool(dead)

    def _remove(self, data: ConsumerFilterData) -> None:
        groups = self._table[data.topic]
        del groups[data.consumer_group]
        if not groups:
            del self._table[data.topic]
        self._ready.pop((data.topic, data.consumer_group), None)
        self._unwritten.discard((data.topic, data.consumer_group))
        self._count -= 1
        self._is_changed = True

    def _put(self, data: ConsumerFilterData) -> None:
        groups = self._table.setdefault(data.topic, {})
        self._count += data.consumer_group not in groups
        groups[data.consumer_group] = data
        self._ready.pop((data.topic, data.consumer_group), None)
        self._is_changed = True

    def _let_die(self, data: ConsumerFilterData) -> None:
        if not data.is_dead:
            data.dead_time = max(self._now_ms(), data.born_time)
            self._is_changed = True
            logger.info("filter deactivated, no consumer uses it group=%s topic=%s", data.consumer_group, data.topic)

    # -- asking -----------------------------------------------------------------------------------------------------------

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        """The group's filter of the topic, active or not."""
        return self._table.get(topic, {}).get(group)

    def filter_of(self, topic: str, group: str) -> ExpressionFilter | None:
        """The same, compiled."""
        key = topic, group
        ready = self._ready.get(key)
        if ready is None:
            data = self.find(topic, group)
            program = data.program() if data is not None else None
            if data is None or program is None:
                return None
            counts = key not in self._unwritten and self._bloom.is_valid(data.bloom_filter_data)
            ready = ExpressionFilter(program, data.bloom_filter_data if counts else None, data.born_time)
            self._ready[key] = ready
        return ready

    def _of_group(self, group: str) -> Iterable[ConsumerFilterData]:
        return [groups[group] for groups in self._table.values() if group in groups]

    # -- the file ---------------------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Removes filters that have been inactive for long, and writes the file if anything has changed. Raises OSError; call it again then."""
        self._purge()
        if not self._is_changed:
            return
        for _ in range(_ATTEMPTS):
            if self._config.enable_calc_filter_bit_map:
                self._bear_late_ones()
            self._file.save(encode_filters(self._table))
            self._is_changed = False
            if self._config.enable_calc_filter_bit_map and self._has_late_ones():
                continue
            for key in self._unwritten:
                self._ready.pop(key, None)
            self._unwritten.clear()
            return
        # The disk is too slow: expressions are evaluated without bitmaps, and the next call tries again.
        self._is_changed = True

    async def keep(self, interval_s: float = SAVE_INTERVAL_S) -> None:
        """Persists every `interval_s` seconds until it is cancelled; a failed write is logged and retried."""
        while True:
            await asyncio.sleep(interval_s)
            self._try_persist()

    def _write_if_dispatch_reads(self) -> None:
        if self._unwritten and self._config.enable_calc_filter_bit_map:
            self._try_persist()

    def _try_persist(self) -> None:
        try:
            self.persist()
        except OSError as error:
            logger.warning("consumer filters not saved, will retry error=%r", str(error))

    def _bear_late_ones(self) -> None:
        """Sets the `bornTime` of filters written for the first time to a second from now."""
        for topic, group in self._unwritten:
            data = self.find(topic, group)
            if data is not None:
                was_dead = data.is_dead
                data.born_time = self._birth()
                data.dead_time = data.born_time if was_dead else 0

    def _has_late_ones(self) -> bool:
        now = self._now_ms()
        found = (self.find(topic, group) for topic, group in self._unwritten)
        return any(data.born_time <= now for data in found if data is not None)

    def _purge(self) -> None:
        now, span = self._now_ms(), self._config.filter_data_clean_time_span
        for data in [data for groups in self._table.values() for data in groups.values()]:
            if data.is_dead and now - data.dead_time >= span:
                self._remove(data)
                logger.info("filter removed group=%s topic=%s", data.consumer_group, data.topic)

    def _load(self) -> None:
        table = self._file.load(decode_filters) or {}
        everyone = [data for groups in table.values() for data in groups.values()]
        if not all(self._bloom.is_valid(data.bloom_filter_data) for data in everyone):
            # compat: RocketMQ discards the whole file too; the groups' next heartbeats register current filters again.
            logger.warning("consumer filters discarded, the Bloom filter parameters have changed")
            return
        dead_since = self._now_ms() - _LOADED_DEAD_MS
        for data in everyone:
            if data.dead_time == 0:
                data.dead_time = max(dead_since, data.born_time)
        self._table = table
        self._count = len(everyone)


def compile_within_limits(
    expression: str, expression_type: str, config: BrokerConfig, limit_reached: LimitReached = ignore_limit
) -> Program | Refusal:
    """The program of an expression that a client has sent, or why there is none, such as a limit of the broker's options."""
    length, most = len(expression), config.max_filter_length
    if length > most:
        refusal = f"expression of {length} characters exceeds the limit of {most} ({MAX_LENGTH})"
        limit_reached(MAX_LENGTH, refusal)
        return LimitRefusal(refusal, 1, most + 1, "")
    compiled = compile_filter(expression, expression_type)
    if isinstance(compiled, Program) and compiled.term_count > config.max_filter_terms:
        refusal = (
            f"expression of {compiled.term_count} terms exceeds the limit of {config.max_filter_terms} ({MAX_TERMS})"
        )
        limit_reached(MAX_TERMS, refusal)
        return LimitRefusal(refusal, 1, 1, expression[:24])
    return compiled
