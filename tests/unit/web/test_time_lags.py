"""Time lags: the age of the oldest message that waits, with a bounded number of requests, and what is reported of the others."""

import asyncio
import time
from collections.abc import Iterable, Mapping

import pytest

from headrace.errors import RequestTimeout
from headrace.protocol.bodies.stats import QueueTimeSpan
from web.sampling import time_lags
from web.sampling.time_lags import MOST_REQUESTS, Pair, TimeLags, Waiting, delay_of

HOUR_MS = 3_600_000
NIGHT_MS = 8 * HOUR_MS
ORDERS = ("Orders", "billing")


class Broker:
    """Answers with the age of the message that waits, by its store time, and counts requests."""

    def __init__(self) -> None:
        self.now_ms = 100 * HOUR_MS
        self.stored_ms: dict[Pair, int] = {}
        self.asked: list[Pair] = []
        self.lags = TimeLags(self.ask, lambda: self.now_ms)

    async def ask(self, topic: str, group: str) -> int:
        self.asked.append((topic, group))
        if (topic, group) not in self.stored_ms:
            raise RequestTimeout("no answer")
        return self.now_ms - self.stored_ms[topic, group]

    def sample(self, waiting: Iterable[Waiting], idle: Iterable[Pair] = ()) -> Mapping[Pair, int | None]:
        """The time lags ten seconds later."""
        self.now_ms += 10_000
        return asyncio.run(self.lags.read(idle, waiting))


def many(count: int, consumed_ms: int) -> list[Waiting]:
    return [Waiting((f"T{number:03}", "billing"), consumed_ms) for number in range(count)]


def test_new_message_after_a_quiet_night_is_not_late() -> None:
    broker = Broker()
    evening_ms = broker.now_ms - NIGHT_MS
    broker.stored_ms[ORDERS] = broker.now_ms + 9_000
    assert broker.sample([Waiting(ORDERS, evening_ms)]) == {ORDERS: 1_000}


def test_group_that_never_consumed_is_as_late_as_the_oldest_message() -> None:
    broker = Broker()
    broker.stored_ms[ORDERS] = broker.now_ms - HOUR_MS
    assert broker.sample([Waiting(ORDERS, 0)]) == {ORDERS: HOUR_MS + 10_000}


def test_group_without_waiting_messages_costs_nothing() -> None:
    broker = Broker()
    assert broker.sample([], [ORDERS]) == {ORDERS: 0}
    assert not broker.asked


def test_group_that_consumed_a_moment_ago_costs_nothing() -> None:
    broker = Broker()
    assert broker.sample([Waiting(ORDERS, broker.now_ms + 9_500)]) == {ORDERS: 500}
    assert not broker.asked


def test_requests_of_a_sample_are_bounded_and_every_topic_has_its_turn() -> None:
    broker = Broker()
    waiting = many(3 * MOST_REQUESTS, broker.now_ms - NIGHT_MS)
    broker.stored_ms = {one.pair: broker.now_ms - HOUR_MS for one in waiting}
    first = broker.sample(waiting)
    assert len(broker.asked) == MOST_REQUESTS
    assert sum(lag == HOUR_MS + 10_000 for lag in first.values()) == MOST_REQUESTS
    # Those that were not asked for are unknown: the age of what was consumed last, a night, would be far too much.
    assert sum(lag is None for lag in first.values()) == 2 * MOST_REQUESTS
    broker.sample(waiting)
    third = broker.sample(waiting)
    assert sorted(broker.asked) == sorted(one.pair for one in waiting)
    assert set(third.values()) == {HOUR_MS + 30_000}


def test_lag_that_was_not_asked_for_is_the_time_since_the_last_sample_without_one() -> None:
    broker = Broker()
    waiting = many(2 * MOST_REQUESTS, broker.now_ms - NIGHT_MS)
    assert set(broker.sample([], [one.pair for one in waiting]).values()) == {0}
    broker.stored_ms = {one.pair: broker.now_ms + 8_000 for one in waiting}
    assert set(broker.sample(waiting).values()) == {2_000, 10_000}


def test_broker_that_does_not_answer_leaves_the_lag_unknown_but_not_the_sample() -> None:
    broker = Broker()
    assert broker.sample([Waiting(ORDERS, broker.now_ms - NIGHT_MS)]) == {ORDERS: None}


def test_requests_of_a_slow_broker_are_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_topic: str, _group: str) -> int:
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(time_lags, "DEADLINE_S", 0.01)
    assert asyncio.run(TimeLags(never).read([], [Waiting(ORDERS, 0)])) == {ORDERS: None}


def test_next_message_that_was_deleted_is_replaced_by_the_oldest() -> None:
    now_ms = time.time_ns() // 1_000_000
    apache = QueueTimeSpan(None, now_ms - HOUR_MS, now_ms, -1, now_ms + 1)
    assert HOUR_MS <= delay_of(apache) < 2 * HOUR_MS
    assert delay_of(QueueTimeSpan(None, now_ms - HOUR_MS, now_ms, now_ms, 5_000)) == 5_000
    assert delay_of(QueueTimeSpan(None, -1, -1, -1, -1)) == 0
