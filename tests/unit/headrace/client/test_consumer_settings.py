"""Settings and subscriptions of consumers: invalid ones raise at once and name the field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import (
    ConfigError,
    ConsistentHash,
    FilterFunction,
    LitePullConsumer,
    LitePullSettings,
    MessageModel,
    PullSettings,
    PushConsumer,
    PushSettings,
    Sql,
    StartFrom,
    StateError,
    Tags,
)
from headrace.client.consuming.subscriptions import Subscriptions, subscription_of
from headrace.model.java_hash import string_hash
from support.sdk import run


def test_defaults_are_rocketmqs() -> None:
    push = PushSettings()
    assert (push.workers, push.batch_size, push.pull_batch_size, push.pull_interval) == (20, 1, 32, 0)
    assert (push.queue_threshold, push.queue_threshold_mib, push.max_span) == (1000, 100, 2000)
    assert (push.model, push.start_from, push.suspend_time) == (MessageModel.CLUSTERING, StartFrom.LAST, 1.0)
    assert push.consume_timeout == 15 * 60
    lite = LitePullSettings()
    assert (lite.auto_commit, lite.auto_commit_interval, lite.poll_timeout, lite.total_threshold) == (
        True,
        5.0,
        5.0,
        10_000,
    )


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        (PushSettings, "workers", 0), (PushSettings, "workers", 1001), (PushSettings, "batch_size", 1025), (PushSettings, "batch_size", 0),
        (PushSettings, "pull_batch_size", 0), (PushSettings, "queue_threshold", 70000), (PushSettings, "queue_threshold_mib", 1025),
        (PushSettings, "max_span", 0), (PushSettings, "topic_threshold", 0), (PushSettings, "consume_timeout", 0),
        (PushSettings, "close_timeout", -1), (PushSettings, "pull_interval", -1), (PushSettings, "model", "CLUSTERING"), (PushSettings, "start_from", 3),
        (PushSettings, "allocator", "averagely"), (PushSettings, "max_reconsume_times", -2), (PushSettings, "suspend_time", "long"),
        (LitePullSettings, "poll_timeout", 0), (LitePullSettings, "total_threshold", 0), (LitePullSettings, "auto_commit_interval", 0),
        (PullSettings, "pull_timeout", 0), (PullSettings, "max_reconsume_times", -2), (PullSettings, "model", None),
    ],
)  # fmt: skip
def test_invalid_setting_is_named_in_the_error(settings: Any, field: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**{field: value})
    assert caught.value.field == field


def test_times_may_be_timedeltas() -> None:
    assert PushSettings(consume_timeout=timedelta(minutes=2)).consume_timeout == 120.0


def test_start_position_can_be_a_time_or_an_end() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert StartFrom.at(moment).timestamp_ms == 1767323045000
    assert StartFrom.at(1767323045000) == StartFrom.at(moment)
    assert len(StartFrom.LAST.timestamp_text) == len("20260102030405")
    with pytest.raises(ConfigError, match="time zone"):
        StartFrom.at(datetime(2026, 1, 1))  # noqa: DTZ001


def test_subscription_expressions_are_converted() -> None:
    both = subscription_of("T", " paid ||shipped|| ")
    assert both.tags_set == {"paid", "shipped"}
    assert both.code_set == {string_hash("paid"), string_hash("shipped")}
    assert subscription_of("T", Tags("paid", "shipped")).tags_set == both.tags_set
    assert subscription_of("T", None).is_all
    assert subscription_of("T", "*").tags_set == set()
    sql = subscription_of("T", Sql("a > 3"))
    assert (sql.expression_type, sql.sub_string, sql.tags_set) == ("SQL92", "a > 3", frozenset())
    function = subscription_of("T", FilterFunction("large-orders"))
    assert (function.expression_type, function.sub_string, function.is_all) == ("PYTHON", "large-orders", False)
    for wrong in ("||", Sql("  "), FilterFunction(" ")):
        with pytest.raises(ConfigError):
            subscription_of("T", wrong)
    with pytest.raises(ConfigError):
        subscription_of("no topic!", "*")
    with pytest.raises(ConfigError):
        Tags("a || b")
    with pytest.raises(ConfigError):
        Tags()


def test_subscription_that_changes_has_a_greater_version() -> None:
    subscriptions = Subscriptions()
    versions = []
    for expression in ("a", "b", "c"):
        subscriptions.put(subscription_of("T", expression))
        versions.append(subscriptions.all()[0].sub_version)
    subscriptions.touch("T")
    versions.append(subscriptions.all()[0].sub_version)
    assert versions == sorted(set(versions))
    subscriptions.remove("T")
    assert "T" not in subscriptions
    assert not subscriptions


def test_consumer_without_a_subscription_does_not_start() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="no subscription"):
            await PushConsumer("g", "127.0.0.1:1").start()
        with pytest.raises(ConfigError, match="DEFAULT_CONSUMER"):
            PushConsumer("DEFAULT_CONSUMER", "127.0.0.1:1")
        with pytest.raises(StateError):
            await LitePullConsumer("g", "127.0.0.1:1").poll()

    run(main())


def test_invalid_allocation_strategy_is_rejected() -> None:
    with pytest.raises(ConfigError):
        ConsistentHash(-1)
