"""What is counted for which request, and how tools are told of it (admin spec 6.1, 6.3)."""

import asyncio
from collections.abc import Callable

import pytest

from broker.admin.stats_admin import StatsAdmin
from broker.config import BrokerConfig
from broker.statistics.broker_stats import BrokerStats
from broker.statistics.stats_item import MINUTE
from headrace.protocol.bodies.stats import BrokerStatsData, BrokerStatsTotals
from headrace.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from support.small_broker import Peer, SmallBroker

MakeBroker = Callable[..., SmallBroker]


def view(stats: BrokerStats, name: str, key: str) -> RemotingCommand:
    header = ViewBrokerStatsDataRequestHeader(name, key)
    return StatsAdmin(stats).view(create_request(RequestCode.VIEW_BROKER_STATS_DATA, header.to_ext()))


def counted(stats: BrokerStats, name: str, key: str) -> tuple[int, int] | None:
    """(value, times); None for what does not exist."""
    item = stats.find(name, key)
    return (item.value, item.times) if item is not None else None


def test_send_counts_for_its_topic_and_the_cluster(broker: SmallBroker, client: Peer) -> None:
    broker.topic("T")
    client.send(b"one", "T")
    client.send(b"two", "T")
    stats = broker.stats
    size = broker.control.wrote_offset
    assert counted(stats, "TOPIC_PUT_NUMS", "T") == (2, 2)
    assert counted(stats, "TOPIC_PUT_SIZE", "T") == (size, 2)
    assert counted(stats, "BROKER_PUT_NUMS", "DefaultCluster") == (2, 0)
    assert (stats.messages_in, stats.bytes_in) == (2, size)
    assert counted(stats, "QUEUE_PUT_NUMS", "T@0") is None


def test_delayed_message_counts_for_the_schedule_topic(broker: SmallBroker, client: Peer) -> None:
    broker.topic("T")
    client.send(b"later", "T", i="DELAY\x013")
    assert counted(broker.stats, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") == (1, 1)
    assert counted(broker.stats, "QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2") == (1, 1)
    assert counted(broker.stats, "TOPIC_PUT_NUMS", "T") is None


def test_pull_with_messages_counts_for_the_group_and_its_queue(broker: SmallBroker, client: Peer) -> None:
    broker.topic("T")
    for _ in range(3):
        client.send(b"x", "T")
    broker.dispatch()
    answer = client.pull(0)
    assert answer.code == 0
    stats = broker.stats
    assert counted(stats, "GROUP_GET_NUMS", "T@CG") == (3, 1)
    assert counted(stats, "GROUP_GET_SIZE", "T@CG") == (len(answer.body), 1)
    assert counted(stats, "BROKER_GET_NUMS", "DefaultCluster") == (3, 0)
    latency = counted(stats, "GROUP_GET_LATENCY", "0@T@CG")
    assert latency is not None
    assert latency[1] == 1
    assert (stats.messages_out, stats.bytes_out, stats.pulls_found, stats.pulls_missed) == (3, len(answer.body), 1, 0)


def test_key_of_all_returns_totals_by_key(broker: SmallBroker, client: Peer) -> None:
    for topic in ("T", "U", "T"):
        broker.topic(topic)
        client.send(b"x", topic)
    answer = view(broker.stats, "TOPIC_PUT_NUMS", "*")
    assert BrokerStatsTotals.decode(answer.body).totals == {"T": 2, "U": 1}
    assert BrokerStatsTotals.decode(view(broker.stats, "NO_SUCH_SET", "*").body).totals == {}


def test_empty_pull_is_not_counted(broker: SmallBroker, client: Peer) -> None:
    broker.topic("T")
    assert client.pull(0).code == 19
    assert counted(broker.stats, "GROUP_GET_NUMS", "T@CG") is None
    assert broker.stats.pulls_missed == 1


def test_pulls_are_timed_by_topic_and_group_if_detail_statistics_are_disabled(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"enable_detail_stat": False})
    broker.stats.got("T", "CG", {0: 2, 5: 1}, 10, 1000, 7)
    assert counted(broker.stats, "GROUP_GET_LATENCY", "T@CG") == (7, 3)
    assert counted(broker.stats, "GROUP_GET_LATENCY", "5@T@CG") is None


def test_message_sent_back_counts_for_its_original_topic() -> None:
    stats = BrokerStats(BrokerConfig())
    stats.sent_back("T", "CG", "SCHEDULE_TOPIC_XXXX", 2, 300)
    stats.sent_back("T", "CG", "%DLQ%CG", 0, 300)
    assert counted(stats, "SNDBCK_PUT_NUMS", "T@CG") == (2, 2)
    assert counted(stats, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") == (1, 1)
    assert counted(stats, "TOPIC_PUT_NUMS", "%DLQ%CG") is None
    assert counted(stats, "BROKER_PUT_NUMS", "DefaultCluster") is None


def test_statistics_include_counts_of_the_hot_path() -> None:
    stats = BrokerStats(BrokerConfig())
    waiting = [5]
    stats.follow(lambda: stats.sent("T", 0, waiting.pop(), 500, 5) if waiting else None)
    assert counted(stats, "TOPIC_PUT_NUMS", "T") == (5, 5)
    assert counted(stats, "TOPIC_PUT_NUMS", "T") == (5, 5)


def test_minute_is_available_after_the_first_sample() -> None:
    stats = BrokerStats(BrokerConfig(), lambda: 1_000_000)
    stats.sent("T", 0, 20, 4000, 2)
    data = BrokerStatsData.decode(view(stats, "TOPIC_PUT_NUMS", "T").body)
    assert (data.stats_minute.sum, data.stats_hour.sum, data.stats_day.sum) == (0, 0, 0)
    asyncio.run(stats.look(MINUTE))
    data = BrokerStatsData.decode(view(stats, "TOPIC_PUT_NUMS", "T").body)
    assert (data.stats_minute.sum, data.stats_minute.tps, data.stats_minute.avgpt) == (20, 2.0, 10.0)
    assert (data.stats_hour.sum, data.stats_day.sum) == (0, 0)


@pytest.mark.parametrize(
    ("name", "key"), [("TOPIC_PUT_NUMS", "X"), ("NO_SUCH_SET", "T"), ("GROUP_GET_FROM_DISK_NUMS", "T@CG")]
)
def test_item_that_was_never_counted_is_not_found(name: str, key: str) -> None:
    stats = BrokerStats(BrokerConfig())
    stats.sent("T", 0, 1, 100)
    answer = view(stats, name, key)
    assert answer.code == 1
    assert (answer.remark or "").startswith(f"The stats <{name}> <{key}> not exist")


def test_rate_of_a_group_is_that_of_the_last_minute() -> None:
    stats = BrokerStats(BrokerConfig(), lambda: 1_000_000)
    assert stats.group_tps("T", "CG") == 0.0
    stats.got("T", "CG", {0: 1}, 50, 5000)
    asyncio.run(stats.look(MINUTE))
    assert stats.group_tps("T", "CG") == 5.0


@pytest.mark.parametrize("deletes", [False, True])
def test_items_of_deleted_topics_are_removed_if_configured(deletes: bool) -> None:
    stats = BrokerStats(BrokerConfig(auto_delete_unused_stats=deletes))
    for topic in ("T", "T2"):
        for group in ("G", "TG"):
            stats.got(topic, group, {0: 1}, 1, 100)
        stats.sent(topic, 0, 1, 100)
    stats.forget_topic("T")
    stats.forget_group("G")
    kept = [
        key
        for name, key in [
            ("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@TG"), ("GROUP_GET_LATENCY", "0@T@TG"), ("GROUP_GET_NUMS", "T2@G"),
            ("TOPIC_PUT_NUMS", "T2"), ("GROUP_GET_NUMS", "T2@TG"),
        ]
        if stats.find(name, key) is not None
    ]  # fmt: skip
    assert kept == (["T2", "T2@TG"] if deletes else ["T", "T@TG", "0@T@TG", "T2@G", "T2", "T2@TG"])


def test_store_statistics_include_messages_appended_by_the_broker_itself(broker: SmallBroker, client: Peer) -> None:
    broker.topic("T")
    client.send(b"one", "T")
    client.send(b"later", "T", i="DELAY\x013")
    store = broker.stats.store
    assert (store.messages_stored, store.bytes_stored) == (2, broker.control.wrote_offset)
    broker.dispatch()
    back = {"offset": 0, "group": "g", "delayLevel": 1, "originTopic": "T"}
    assert client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    assert (store.messages_stored, store.bytes_stored) == (3, broker.control.wrote_offset)
    assert broker.stats.messages_in == 2
    assert store.puts.longest_ms >= 0
    assert sum(int(part.rsplit(":", 1)[1]) for part in store.puts.distribution().split()) == 3
    assert client.pull(0).code == 0
    assert store.messages_read == 1
    assert sum(int(part.rsplit(":", 1)[1]) for part in store.gets.distribution().split()) == 1
