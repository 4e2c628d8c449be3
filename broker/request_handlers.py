"""RequestHandlers: maps requests to processors. A function for each package registers its processors on the ports and creates the hot paths."""

import time
from functools import partial

from broker.admin.admin_handler import AdminProcessor
from broker.admin.admin_handler import register as register_admin
from broker.clients.client_processor import ClientProcessor
from broker.clients.lock_processor import LockProcessor
from broker.clients.offset_processor import OffsetProcessor
from broker.clients.rebalance_locks import RebalanceLocks
from broker.connections.hot_requests import HotRequests
from broker.connections.hot_round import HotRound
from broker.delivery_services import DeliveryServices
from broker.filtering.pull_filters import PullFilters
from broker.live_config import LiveConfig
from broker.offset_waiters import OffsetWaiters
from broker.pulling.hot_pull import PullPath
from broker.pulling.long_polling import LongPolling
from broker.pulling.pull_answers import PullAnswers
from broker.pulling.pull_checks import PullChecks
from broker.pulling.pull_processor import PullProcessor
from broker.pulling.query_processor import QueryProcessor
from broker.pulling.selectors import FunctionReader, Selectors
from broker.pulling.store_reader import StoreReader
from broker.sending.reply_processor import ReplyProcessor
from broker.sending.send_back_processor import SendBackProcessor
from broker.sending.send_processor import HotTopics, SendProcessor
from broker.sending.store_writer import StoreWriter
from broker.settings import Settings
from broker.slave_handler_table import SlaveHandlerTable
from broker.tables import Tables
from broker.timers.recall_processor import RecallProcessor
from broker.transactions.end_transaction_processor import EndTransactionProcessor
from headrace.protocol.version import CURRENT_VERSION
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from ipc.current_client import CurrentClient


class RequestHandlers:
    """`main` and `fast` are what the ports serve."""

    def __init__(
        self,
        settings: Settings,
        live: LiveConfig,
        tables: Tables,
        waiters: OffsetWaiters,
        writing: StoreWriter,
        reading: StoreReader,
        services: DeliveryServices,
        admin_processors: list[AdminProcessor],
        mark: CurrentClient,
    ) -> None:
        make_table = HandlerTable if settings.may_append else SlaveHandlerTable
        self.main, self.fast = make_table(), make_table()
        self._writing = writing
        self._mark = mark
        self.hot_round = HotRound(writing.appender)
        self._pull_path = _make_pull_path(settings, live, tables, reading)
        ports = self.main, self.fast
        filters = PullFilters(tables.filters, settings.broker, tables.functions)
        _serve_sends(ports, settings, tables, writing, reading, services)
        _serve_pulls(ports, settings, tables, waiters, writing, reading, filters, self._pull_path)
        _serve_clients(ports, settings, tables, reading, filters)
        for port in ports:
            register_admin(port, admin_processors)
        _follow(settings, live, tables, writing)

    def main_hot_path(self, connection: Connection) -> HotRequests:
        """For a new connection to the main port."""
        return self._hot_path(connection, self._pull_path)

    def fast_hot_path(self, connection: Connection) -> HotRequests:
        """For a new connection to the fast port, which serves no pulls."""
        return self._hot_path(connection, None)

    def _hot_path(self, connection: Connection, pulls: PullPath | None) -> HotRequests:
        writing = self._writing
        return HotRequests(connection, writing.path, pulls, writing.appender, self.hot_round, self._mark)


_Ports = tuple[HandlerTable, HandlerTable]
"""The handlers of the main port and of the fast one."""


def _serve_sends(
    ports: _Ports,
    settings: Settings,
    tables: Tables,
    writing: StoreWriter,
    reading: StoreReader,
    services: DeliveryServices,
) -> None:
    """Sends, replies, messages sent back, cancelled timers, ends of transactions."""
    config, store_config, store_host = settings.broker, settings.store, settings.store_host
    appender, stats = writing.appender, tables.stats
    topics, groups, delays, timers = tables.topics, tables.groups, services.delays, services.timers
    sends = SendProcessor(
        config, store_config, topics, groups, appender, writing.path, store_host, delays, timers, stats
    )
    sends.register(*ports)
    ReplyProcessor(config, tables.clients, sends, appender, store_host, stats).register(*ports)
    SendBackProcessor(config, topics, groups, appender, delays, reading.view, stats).register(*ports)
    RecallProcessor(config, topics, appender, timers, store_host).register(*ports)
    EndTransactionProcessor(appender, delays, timers, reading.view, store_host, stats).register(*ports)


def _serve_pulls(
    ports: _Ports,
    settings: Settings,
    tables: Tables,
    waiters: OffsetWaiters,
    writing: StoreWriter,
    reading: StoreReader,
    filters: PullFilters,
    path: PullPath,
) -> None:
    """Pulls, on the main port, and queries."""
    config, store_config = settings.broker, settings.store
    functions = None
    if tables.functions is not None and reading.judged is not None:
        functions = FunctionReader(tables.functions, reading.judged, reading.warm)
    selectors = Selectors(filters, reading.getter, reading.filtered, reading.warm, functions)
    checks = PullChecks(config, tables.topics, tables.groups, tables.clients, selectors)
    answers = PullAnswers(config, store_config, tables.stats, writing.appender.append)
    polling = LongPolling(config, checks, answers, waiters.held, reading.queues.bounds)
    commit = tables.offsets.commit if settings.may_append else None
    PullProcessor(checks, answers, polling, tables.visits, commit, path).register(ports[0])
    QueryProcessor(reading.by_key.query, reading.view, store_config, tables.topics.all).register(*ports)


def _serve_clients(
    ports: _Ports, settings: Settings, tables: Tables, reading: StoreReader, filters: PullFilters
) -> None:
    """Heartbeats, locks of queues, offsets."""
    queues, by_time, visits = reading.queues, reading.by_time, tables.visits
    ClientProcessor(settings.broker, tables.topics, tables.groups, tables.clients, filters).register(*ports)
    LockProcessor(RebalanceLocks(lambda: time.monotonic_ns() // 1_000_000), visits).register(*ports)
    OffsetProcessor(
        tables.offsets, reading.getter, queues.bounds, by_time.offset_at, by_time.earliest_timestamp, visits
    ).register(*ports)


def _make_pull_path(settings: Settings, live: LiveConfig, tables: Tables, reading: StoreReader) -> PullPath:
    """The hot path of pulls. It discards its plans when anything changes on which they depend."""
    getter = reading.getter

    path = PullPath(getter.gatherer, getter.try_gather, tables.offsets.commit, settings.may_append, CURRENT_VERSION)
    path.limit(settings.broker.max_header_size)
    tables.topics.on_change(lambda _: path.forget_plans())
    tables.groups.on_change(lambda _: path.forget_plans())
    live.on_change(lambda _: path.forget_plans())
    tables.clients.on_change(path.forget_plans)
    tables.stats.follow(partial(_count_pulls, path, tables))
    return path


def _follow(settings: Settings, live: LiveConfig, tables: Tables, writing: StoreWriter) -> None:
    """Keeps the hot path of sends up to date with topics and options."""
    path = writing.path
    hot_topics = HotTopics(settings.broker, tables.topics, path)

    def changed(_keys: frozenset[str]) -> None:
        path.body_limit = settings.store.effective_max_message_size
        hot_topics.follow(None)

    live.on_change(changed)
    tables.stats.follow(partial(_count_sends, writing, tables))


def _count_sends(writing: StoreWriter, tables: Tables) -> None:
    """Adds what the hot path has counted since the last time."""
    for topic, requests, messages, size_bytes in writing.path.take_counts():
        tables.stats.sent(topic, 0, messages, size_bytes, requests)
        tables.stats.store.stored(messages, size_bytes)


def _count_pulls(path: PullPath, tables: Tables) -> None:
    """Adds what the hot path has counted since the last time."""
    for group, topic, messages, size_bytes, by_queue in path.take_counts():
        tables.stats.got(topic, group, by_queue, messages, size_bytes)
        tables.visits.visited(group, topic, by_queue)
