"""Who answers which request: the processors, the hot path of pulls, and the tables of handlers of both ports."""

import time
from functools import partial

from broker.admin.handling import AdminFamily
from broker.admin.handling import register as register_admin
from broker.clients.client_processor import ClientProcessor
from broker.clients.lock_processor import LockProcessor
from broker.clients.offset_processor import OffsetProcessor
from broker.clients.queue_visits import QueueVisits
from broker.clients.rebalance_locks import RebalanceLocks
from broker.connections.broker_connection import BrokerConnection
from broker.deliveries import Deliveries
from broker.filtering.filters import PullFilters
from broker.live_config import LiveConfig
from broker.pulling.hot_pull import PullPath, PullPlan
from broker.pulling.pull_processor import PullProcessor
from broker.pulling.query_processor import QueryProcessor
from broker.pulling.store_reader import StoreReader
from broker.sending.hot_send import SendPath
from broker.sending.reply_processor import ReplyProcessor
from broker.sending.send_back_processor import SendBackProcessor
from broker.sending.send_processor import HotTopics, SendProcessor
from broker.sending.store_writer import StoreWriter
from broker.settings import Settings
from broker.statistics.broker_stats import BrokerStats
from broker.tables import Tables
from broker.timers.recall_processor import RecallProcessor
from broker.transactions.end_transaction_processor import EndTransactionProcessor
from broker.waiting import Waiting
from headrace.protocol.version import CURRENT_VERSION
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.handlers import HandlerTable
from ipc.client_mark import ClientMark


class Requests:
    """`main` and `fast` are what the ports serve."""

    def __init__(
        self,
        settings: Settings,
        live: LiveConfig,
        tables: Tables,
        waiting: Waiting,
        writing: StoreWriter,
        reading: StoreReader,
        deliveries: Deliveries,
        families: list[AdminFamily],
        mark: ClientMark,
    ) -> None:
        config, store_config, store_host = settings.broker, settings.store, settings.store_host
        topics, groups, offsets, clients = tables.topics, tables.groups, tables.offsets, tables.clients
        appender, delays, timers, view = writing.appender, deliveries.delays, deliveries.timers, reading.view
        stats, visits = tables.stats, tables.visits
        by_time, is_slave = reading.by_time, store_config.is_slave
        filters = PullFilters(tables.filters, config, tables.functions)
        self._appender = appender
        self._mark = mark
        self.send_path = writing.path
        self.pull_path = _make_pull_path(reading, tables, live, commits=not is_slave)
        self.sends = SendProcessor(
            config, store_config, topics, groups, appender, writing.path, store_host, delays, timers, stats
        )
        self.pulls = PullProcessor(
            config,
            topics,
            groups,
            clients,
            offsets,
            reading.getter,
            waiting.held,
            appender.append,
            reading.executor,
            store_config,
            self.pull_path,
            filters,
            reading.filtered,
            tables.functions,
            reading.judged,
            stats=stats,
            visits=visits,
        )
        self.main, self.fast = main, fast = HandlerTable(), HandlerTable()
        self.sends.register(main, fast)
        ReplyProcessor(config, clients, self.sends, appender, store_host, stats).register(main, fast)
        RecallProcessor(config, topics, appender, timers, store_host, is_slave=is_slave).register(main, fast)
        EndTransactionProcessor(appender, delays, timers, view, store_host, is_slave=is_slave).register(main, fast)
        SendBackProcessor(config, topics, groups, appender, delays, view, stats).register(main, fast)
        self.pulls.register(main)
        ClientProcessor(config, topics, groups, clients, filters).register(main, fast)
        LockProcessor(RebalanceLocks(lambda: time.monotonic_ns() // 1_000_000), visits).register(main, fast)
        OffsetProcessor(
            offsets, reading.getter, reading.queues.bounds, by_time.offset_at, by_time.earliest_timestamp, visits
        ).register(main, fast)
        QueryProcessor(reading.by_key.query, view, store_config, topics.all).register(main, fast)
        register_admin(main, families)
        register_admin(fast, families)
        stats.follow(partial(_bring_counts, self.send_path, self.pull_path, stats, visits))
        self._follow_options(settings, live, HotTopics(config, topics, self.send_path))

    def connection(self, endpoint: Endpoint) -> BrokerConnection:
        """What serves a new connection: the fast port has no pulls."""
        serves_pulls = endpoint.handlers is self.main
        pulls = self.pull_path if serves_pulls else None
        return BrokerConnection(endpoint, self.send_path, pulls, self._appender, self._mark)

    def _follow_options(self, settings: Settings, live: LiveConfig, hot_topics: HotTopics) -> None:
        def changed(_keys: frozenset[str]) -> None:
            self.send_path.body_limit = settings.store.effective_max_message_size
            hot_topics.follow(None)

        live.on_change(changed)


def _bring_counts(sends: SendPath, pulls: PullPath, stats: BrokerStats, visits: QueueVisits) -> None:
    """What the hot paths have counted since the last time."""
    for topic, requests, messages, size_bytes in sends.take_counts():
        stats.sent(topic, 0, messages, size_bytes, requests)
        stats.store.stored(messages, size_bytes)
    for group, topic, messages, size_bytes, by_queue in pulls.take_counts():
        stats.got(topic, group, by_queue, messages, size_bytes)
        visits.visited(group, topic, by_queue)


def _make_pull_path(reading: StoreReader, tables: Tables, live: LiveConfig, *, commits: bool) -> PullPath:
    """The hot path of pulls, which forgets what it was told whenever that may no longer be true."""
    getter = reading.getter

    def read(plan: PullPlan, queue_id: int, offset: int, max_count: int) -> tuple[int, int, int, bool] | None:
        return getter.try_gather(plan.topic, queue_id, offset, max_count, plan.codes)

    path = PullPath(getter.gatherer, read, tables.offsets.commit, commits, CURRENT_VERSION)
    tables.topics.on_change(lambda _: path.forget_plans())
    tables.groups.on_change(lambda _: path.forget_plans())
    live.on_change(lambda _: path.forget_plans())
    tables.clients.on_change(path.forget_plans)
    return path
