"""The broker process: puts its parts together, starts them, and stops them in order.

The composition root, and the only file that knows all of the broker's parts; each of them is given what it uses and no
more. On a master this process is the log's writer: what its predecessor copied and never published is wiped before
anything is appended, and the next queue offsets are read from the queue table, which is why dispatch must have caught up.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
from isal import isal_zlib

from broker.ack_gate import AckGate
from broker.admin.cleaning_admin import CleaningAdmin
from broker.admin.client_admin import ClientAdmin
from broker.admin.config_admin import ConfigAdmin
from broker.admin.consume_progress import ConsumeProgress
from broker.admin.consume_queue_admin import ConsumeQueueAdmin
from broker.admin.group_admin import GroupAdmin
from broker.admin.handling import AdminFamily
from broker.admin.handling import register as register_admin
from broker.admin.offset_admin import OffsetAdmin
from broker.admin.queue_facts import QueueFacts
from broker.admin.relays import Relays
from broker.admin.runtime_info import RuntimeInfo
from broker.admin.topic_admin import TopicAdmin
from broker.appender import Appender
from broker.broker_conf import BrokerConf
from broker.clients import ClientTable
from broker.config import BrokerConfig
from broker.errors import PortTaken
from broker.filters import ConsumerFilterTable, PullFilters
from broker.groups import GroupTable
from broker.held_pulls import HeldPulls, QueueKey
from broker.hot.connection import BrokerConnection
from broker.hot.pull import PullPath, PullPlan
from broker.hot.send import SendPath
from broker.json_file import JsonFile
from broker.live_config import LiveConfig
from broker.offsets import OffsetTable
from broker.processors.client import ClientProcessor, MembersNotice
from broker.processors.end_transaction import EndTransactionProcessor
from broker.processors.lock import LockProcessor
from broker.processors.offset import OffsetProcessor
from broker.processors.pull import PullProcessor
from broker.processors.query import QueryProcessor
from broker.processors.recall import RecallProcessor
from broker.processors.reply import ReplyProcessor
from broker.processors.send import HotTopics, SendProcessor
from broker.processors.send_back import SendBackProcessor
from broker.rebalance_locks import RebalanceLocks
from broker.registration import Registration
from broker.schedule.delay_offsets import DelayOffsets
from broker.schedule.delays import Delays
from broker.schedule.delivered_copies import LevelsFile
from broker.schedule.delivery import DelayDelivery
from broker.timer.bucket_files import BucketFiles
from broker.timer.checkpoint import CheckpointFile
from broker.timer.delivery import TimerDelivery
from broker.timer.timers import TimerRules, Timers
from broker.timer.warming import plan_warming
from broker.topics import TopicTable
from broker.traffic import Traffic
from broker.transaction.asking import ProducerAsking
from broker.transaction.check import TransactionCheck
from broker.transaction.verdict import Rules
from broker.wakeups import Wakeups
from headrace.model.delay_level import parse_delay_levels
from headrace.model.host import encode_host, parse_host
from headrace.model.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_HALF_TOPIC,
)
from headrace.protocol.version import CURRENT_VERSION
from headrace.remoting.connection import Connection
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.server import RemotingServer
from ipc.control_layout import ALLOCATED_OFFSET
from ipc.publish.broker import BrokerPublisher
from ipc.publish.log import LogPublisher
from ipc.queue_table import QueueTable
from ipc.role_context import RoleContext
from store.commit_log.append import CommitLogAppender
from store.commit_log.appended_files import AppendedFiles
from store.commit_log.reader import CommitLogReader
from store.commit_log.tail import wipe
from store.config import SYNC_MASTER, StoreConfig
from store.consume_queue.layout import ENTRY_SIZE
from store.consume_queue.reader import ConsumeQueueReader
from store.paths import StorePaths
from store.query.by_key import KeyQuery
from store.query.by_offset import view_by_offset
from store.query.by_time import TimeQuery
from store.query.filtered import FilteredGetter
from store.query.get import MessageGetter, warm

logger = logging.getLogger(__name__)

FAST_PORT_OFFSET = -2
_TICK_S = 0.1  # limit: how much later than its deadline a held pull or an answer may be told
_CATCH_UP_POLL_S = 0.002
_EXPIRE_CLIENTS_S = 10.0
_DROP_QUEUES_S = 5.0  # limit: mqadmin waits that long for an answer; a dispatch that is being restarted does it afterwards


def run(
    context: RoleContext,
    config: BrokerConfig,
    store_config: StoreConfig,
    paths: StorePaths,
    host: str,
    port: int,
    namesrv_addresses: list[str],
    broker_conf: Path | None = None,
) -> None:
    """Runs the broker until it is told to stop. Raises PortTaken, ConfigFileUnreadable, OSError.

    Options that are changed by request are written to the file `broker_conf`, if there is one.
    """
    main = _Broker(context, config, store_config, paths, host, port, namesrv_addresses, broker_conf).main()
    try:
        import uvloop  # noqa: PLC0415  (not there on every platform)
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def deliver_timers(context: RoleContext, config: BrokerConfig, store_config: StoreConfig, paths: StorePaths) -> int:
    """Delivers at once all that waits for a given time, and serves nobody; how many messages. For a store that is to be moved.

    Raises ConfigFileUnreadable, OSError.
    """
    return asyncio.run(_Broker(context, config, store_config, paths, "", 0, [], None).deliver_timers())


class _Broker:
    """The parts, and the order in which they come and go."""

    def __init__(
        self,
        context: RoleContext,
        config: BrokerConfig,
        store_config: StoreConfig,
        paths: StorePaths,
        host: str,
        port: int,
        namesrv_addresses: list[str],
        broker_conf: Path | None,
    ) -> None:
        self._context = context
        self._control = context.control
        self._config = config
        self._store_config = store_config
        self._paths = paths
        self._host = host
        self._port = port
        self._store_host = parse_host(config.address)
        instance = context.instance
        self._queue_table = instance.queue_table()
        self._changed_rows = instance.changed_rows_reader()
        self._queue_keys = _QueueKeys(self._queue_table)
        self._publisher = BrokerPublisher(self._control)
        self._is_writeable = not store_config.is_slave
        # order: before the parts, which may work something out of an option that a predecessor had changed.
        self._changed_options = instance.changed_options_writer()
        self._live = LiveConfig(
            config,
            store_config,
            self._announce_change,
            BrokerConf(broker_conf) if broker_conf else None,
            instance.changed_options().read()[1],
        )

        self._topics = TopicTable(JsonFile(paths.config_file("topics.json")), config)
        self._groups = GroupTable(JsonFile(paths.config_file("subscriptionGroup.json")), config)
        self._offsets = OffsetTable(JsonFile(paths.config_file("consumerOffset.json")))
        self._delay_offsets = DelayOffsets(
            JsonFile(paths.config_file("delayOffset.json")), LevelsFile(paths.root / "timer" / "levels")
        )
        self._registration = Registration(config, self._topics, namesrv_addresses)
        self._clients = ClientTable(MembersNotice(config, self._groups))
        self._filters = ConsumerFilterTable(JsonFile(paths.config_file("consumerFilter.json")), config)
        self._clients.on_change(lambda: self._filters.forget_groups_beyond(self._clients.consumer_groups()))
        self._held = HeldPulls(self._somebody_waits)
        self._executor = ThreadPoolExecutor(4, "cold-read")
        # How many there are now, unlike all else on the page, did not outlive a predecessor that was killed.
        self._counted = {name: context.counters.read().get(name, 0) for name in ("held_pulls", "connections")}
        self._traffic = Traffic(context.counters.read)
        self._live.on_change(self._registration.options_changed)
        self._live.on_change(self._options_changed)

    # -- life -------------------------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """Starts, serves until told to stop, stops."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        loop.add_reader(self._context.stop_fd, stopped.set)
        await self._wait_for_dispatch(stopped)
        self._make_parts(loop)
        server = RemotingServer(
            self._main_table,
            connection_class=self._connection,
            on_close=self._connection_closed,
            idle_timeout_s=self._config.server_channel_max_idle_time_seconds,
        )
        self._server = server
        await self._listen(server, self._port, self._main_table)
        if self._port + FAST_PORT_OFFSET > 0:
            await self._listen(server, self._port + FAST_PORT_OFFSET, self._fast_table)
        self._wakeups.attach(loop)
        await self._registration.start()
        tasks = [
            asyncio.create_task(self._tick()),
            asyncio.create_task(self._traffic.keep()),
            asyncio.create_task(self._filters.keep()),
            asyncio.create_task(self._offsets.keep(self._config.flush_consumer_offset_interval / 1000)),
        ]
        if not self._store_config.is_slave:
            tasks += self._start_delivery()
        self._context.running()
        logger.info("broker running name=%s address=%s", self._config.broker_name, self._config.address)
        await stopped.wait()
        _ = self._context.stopping
        await self._stop(server, tasks)

    async def deliver_timers(self) -> int:
        """Delivers all timers; how many."""
        await self._wait_for_dispatch(asyncio.Event())
        self._make_parts(asyncio.get_running_loop())
        self._context.running()
        beating = asyncio.create_task(self._beat())
        try:
            return await self._timer_delivery.deliver_all()
        finally:
            beating.cancel()
            self._appender.publish()
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _beat(self) -> None:
        while True:
            self._context.beat()
            await asyncio.sleep(_TICK_S)

    def _start_delivery(self) -> list[asyncio.Task[None]]:
        """What a master does by itself: delivers messages when they are due, and asks about transactions."""
        return [
            asyncio.create_task(self._delay_delivery.run()),
            asyncio.create_task(
                self._delay_offsets.keep(
                    self._store_config.flush_delay_offset_interval / 1000,
                    self._delay_delivery.unknown_since,
                    lambda: self._control.wrote_offset,
                    lambda: self._control.flushed_offset,
                )
            ),
            asyncio.create_task(self._timer_delivery.run()),
            asyncio.create_task(self._transaction_check.run(lambda: self._config.transaction_check_interval)),
        ]

    async def _wait_for_dispatch(self, stopped: asyncio.Event) -> None:
        while self._control.reput_offset < self._control.wrote_offset and not stopped.is_set():
            self._context.beat()
            await asyncio.sleep(_CATCH_UP_POLL_S)

    async def _listen(self, server: RemotingServer, port: int, table: HandlerTable) -> None:
        try:
            await server.listen(self._host, port, table)
        except OSError as error:
            raise PortTaken(self._host, port, error) from error

    async def _stop(self, server: RemotingServer, tasks: list[asyncio.Task[None]]) -> None:
        """Takes leave of the name servers, answers what waits, writes what consumers have committed."""
        logger.info("broker stopping connections=%d", len(server.connections))
        await self._registration.stop()
        self._is_writeable = False
        self._path.writeable = False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._store_config.sync_flush_timeout / 1000
        while self._gate.has_waiting and loop.time() < deadline:
            self._context.beat()
            self._wakeups.look()
            await asyncio.sleep(_CATCH_UP_POLL_S)
        await server.stop(2.0)
        self._wakeups.detach(loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._transaction_check.save(all_of_it=True)
        self._offsets.persist()
        self._filters.persist()
        self._delay_offsets.persist(self._delay_delivery.unknown_since())
        self._timer_delivery.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._appender.publish()

    # -- parts ------------------------------------------------------------------------------------------------------------

    def _make_parts(self, loop: asyncio.AbstractEventLoop) -> None:
        config, store_config, paths, control = self._config, self._store_config, self._paths, self._control
        self._gate = AckGate(
            control,
            loop.time,
            sync_flush=store_config.is_sync_flush,
            sync_slave=store_config.broker_role == SYNC_MASTER,
            sync_flush_timeout_ms=store_config.sync_flush_timeout,
            slave_timeout_ms=store_config.slave_timeout,
            slave_fall_behind_bytes=store_config.ha_slave_fallbehind_max,
            on_wait=self._somebody_waits,
        )
        self._wakeups = Wakeups(self._context.bell, control, self._is_anyone_waiting, self._look)  # type: ignore[arg-type]
        log = self._make_log()
        self._appender = Appender(log, self._gate, store_config, self._may_write, self._ring, self._somebody_waits)
        self._path = SendPath(
            log,
            isal_zlib.crc32,
            encode_host(self._store_host),
            config.broker_cluster_name,
            config.region_id,
            config.trace_on,
            CURRENT_VERSION,
            store_config.effective_max_message_size,
            not self._gate.is_open,
        )
        self._path.writeable = self._is_writeable
        self._hot_topics = HotTopics(config, self._topics, self._path)

        reader = CommitLogReader(paths, store_config, control)
        queues = ConsumeQueueReader(paths, store_config, self._queue_table)
        memory = psutil.virtual_memory().total
        entries_per_file = store_config.consume_queue_file_size // ENTRY_SIZE
        self._getter = MessageGetter(queues, reader, control, store_config, entries_per_file, memory)
        self._pull_path = self._make_pull_path(self._getter)
        by_time = TimeQuery(queues, reader)
        by_key = KeyQuery(paths, store_config, reader)

        self._make_delays(queues, reader)
        self._make_timers(queues, reader)
        self._transaction_check = self._make_transaction_check(queues)
        self._sends = SendProcessor(
            config, store_config, self._topics, self._groups, self._appender, self._store_host, self._delays, self._timers
        )
        filters = PullFilters(self._filters, config)
        self._pulls = PullProcessor(
            config,
            self._topics,
            self._groups,
            self._clients,
            self._offsets,
            self._getter,
            self._held,
            self._appender.append,
            self._executor,
            store_config.is_slave,
            not store_config.is_slave or store_config.offset_check_in_slave,
            self._pull_path,
            filters,
            FilteredGetter(queues, reader, control, store_config, paths, entries_per_file, memory),
        )
        main, fast = HandlerTable(), HandlerTable()
        self._main_table, self._fast_table = main, fast
        self._sends.register(main, fast)
        ReplyProcessor(config, self._clients, self._sends, self._appender, self._store_host).register(main, fast)
        RecallProcessor(
            config, self._topics, self._appender, self._timers, self._store_host, is_slave=store_config.is_slave
        ).register(main, fast)
        EndTransactionProcessor(
            self._appender,
            self._delays,
            self._timers,
            partial(view_by_offset, reader),
            self._store_host,
            is_slave=store_config.is_slave,
        ).register(main, fast)
        SendBackProcessor(
            config, self._topics, self._groups, self._appender, self._delays, partial(view_by_offset, reader)
        ).register(main, fast)
        self._pulls.register(main)
        ClientProcessor(config, self._topics, self._groups, self._clients, filters).register(main, fast)
        LockProcessor(RebalanceLocks(lambda: time.monotonic_ns() // 1_000_000)).register(main, fast)
        OffsetProcessor(
            self._offsets, self._getter, queues.bounds, by_time.offset_at, by_time.earliest_timestamp
        ).register(main, fast)
        QueryProcessor(
            by_key.query, partial(view_by_offset, reader), store_config.default_query_max_num
        ).register(main, fast)
        families = self._admin_families(queues, by_time, reader)
        register_admin(main, families)
        register_admin(fast, families)

    def _make_delays(self, queues: ConsumeQueueReader, reader: CommitLogReader) -> None:
        """Delay levels: what redirects messages, and what delivers them."""
        levels_ms = parse_delay_levels(self._store_config.message_delay_level)
        appender, getter, loop = self._appender, self._getter, asyncio.get_running_loop()
        self._delays = Delays(levels_ms)
        if not self._store_config.is_slave:
            self._delay_offsets.clamp(queues.bounds)

        def warm_old(queue_id: int, offset: int, count: int) -> Awaitable[None] | None:
            if not getter.is_cold(SCHEDULE_TOPIC, queue_id, offset):
                return None
            plan = getter.plan_warming(SCHEDULE_TOPIC, queue_id, offset, count)
            return loop.run_in_executor(self._executor, warm, plan)

        self._delay_delivery = delivery = DelayDelivery(
            levels_ms,
            self._delay_offsets,
            queues,
            appender.append,
            appender.log.queues_of(SCHEDULE_TOPIC.encode()).next_offset,
            reader,
            lambda: self._control.wrote_offset,
            warm_old,
        )
        appender.on_append(SCHEDULE_TOPIC, lambda message, _: delivery.appended(message.queue_id))

    def _make_timers(self, queues: ConsumeQueueReader, reader: CommitLogReader) -> None:
        """Messages at any time: what redirects them, and what delivers them."""
        config, store_config, control = self._config, self._store_config, self._control
        appender, loop, directory = self._appender, asyncio.get_running_loop(), self._paths.root / "timer"

        def rules() -> TimerRules:
            # What waits has to be there still when it is due.
            longest_s = min(config.timer_max_delay_sec, store_config.file_reserved_time * 3600)
            return TimerRules(config.timer_wheel_enable, longest_s * 1000)

        def warm_old(entries: list[bytes]) -> Awaitable[None] | None:
            plan = plan_warming(entries, reader, control.wrote_offset)
            return loop.run_in_executor(self._executor, warm, plan) if plan else None

        self._timers = Timers(rules, lambda: self._topics.create_on_send_back(TIMER_TOPIC, 1))
        self._timer_delivery = TimerDelivery(
            BucketFiles(directory),
            CheckpointFile(directory),
            queues,
            reader,
            control,
            appender.append,
            lambda: appender.log.queues_of(TIMER_TOPIC.encode()).next_offset(0),
            warm_old,
        )
        appender.on_append(TIMER_TOPIC, self._timer_delivery.appended)

    def _make_transaction_check(self, queues: ConsumeQueueReader) -> TransactionCheck:
        """What asks producers about messages that they have neither committed nor rolled back."""
        config, store_config, topics = self._config, self._store_config, self._topics
        return TransactionCheck(
            self._offsets,
            lambda topic, queue_id, offset, most: self._getter.get(topic, queue_id, offset, most, None),
            lambda topic, queue_id: queues.bounds(topic, queue_id)[0],
            self._appender.append,
            ProducerAsking(self._clients.producers).ask,
            lambda: Rules(
                config.transaction_time_out, config.transaction_check_max, store_config.file_reserved_time * 3_600_000
            ),
            lambda: topics.create_on_send_back(TRANSACTION_HALF_TOPIC, 1).read_queue_count,
            lambda: topics.create_on_send_back(TRANSACTION_CHECK_MAX_TIME_TOPIC, 1),
            self._control,
        )

    def _make_pull_path(self, getter: MessageGetter) -> PullPath:
        """The hot path of pulls, which forgets what it was told whenever that may no longer be true."""

        def read(plan: PullPlan, queue_id: int, offset: int, max_count: int) -> tuple[int, int, int, bool] | None:
            return getter.try_gather(plan.topic, queue_id, offset, max_count, plan.codes)

        path = PullPath(getter.gatherer, read, self._offsets.commit, not self._store_config.is_slave, CURRENT_VERSION)
        self._topics.on_change(lambda _: path.forget_plans())
        self._groups.on_change(lambda _: path.forget_plans())
        self._live.on_change(lambda _: path.forget_plans())
        self._clients.on_change(path.forget_plans)
        return path

    def _admin_families(
        self, queues: ConsumeQueueReader, by_time: TimeQuery, reader: CommitLogReader
    ) -> list[AdminFamily]:
        config, topics, groups = self._config, self._topics, self._groups
        offsets, clients, publisher = self._offsets, self._clients, self._publisher
        is_slave = self._store_config.is_slave
        facts = QueueFacts(config.broker_name, queues.bounds, by_time.timestamp_at)

        def clean_topics() -> int:
            request = publisher.clean_topics_requests()
            self._context.instance.bells["dispatch"].ring()
            return request

        async def drop_queues(topic: str) -> None:
            # Made again before its queues are gone, a topic would still hold the old messages.
            request = clean_topics()
            end = time.monotonic() + _DROP_QUEUES_S
            while self._control.clean_topics_handled < request and time.monotonic() < end:  # noqa: ASYNC110  (another process moves the cell)
                await asyncio.sleep(_CATCH_UP_POLL_S)
            if topics.find(topic) is None:
                self._appender.log.forget_topic(topic.encode())

        def delete_expired() -> None:
            publisher.delete_expired_requests()
            self._context.instance.bells["housekeeper"].ring()

        def earliest_time() -> int:
            first = self._control.min_offset
            return reader.store_timestamp_at(first, reader.record_size_at(first) or 0)

        return [
            ConfigAdmin(self._live),
            RuntimeInfo(config, self._paths, self._control, self._traffic, earliest_time, self._delay_offsets.table, queues.bounds),
            TopicAdmin(topics, self._registration.register_topic, drop_queues, is_slave=is_slave),
            GroupAdmin(groups, offsets, is_slave=is_slave),
            OffsetAdmin(topics, offsets, clients, queues.bounds, self._delay_offsets.table),
            ClientAdmin(clients, offsets),
            Relays(
                config.broker_name,
                topics,
                clients,
                offsets,
                queues.bounds,
                by_time.offset_at,
                partial(view_by_offset, reader),
            ),
            ConsumeProgress(topics, groups, offsets, clients, facts, config.address),
            ConsumeQueueAdmin(queues.bounds, queues.entries, clients),
            CleaningAdmin(delete_expired, clean_topics),
        ]

    def _make_log(self) -> CommitLogAppender:
        """The writing end of the log, beginning where everybody knows that it ends."""
        control, config = self._control, self._store_config
        wrote_offset, append_limit = control.wrote_offset, control.append_limit
        if append_limit > wrote_offset and not config.is_slave:
            # What a killed predecessor has copied and never published must not come back to life.
            with self._context.long_call("wiping what was never published", 60_000):
                wipe(self._paths, config, wrote_offset, append_limit)
        files = AppendedFiles(self._paths, config)
        log = CommitLogAppender(
            LogPublisher(control),
            files.open,
            control.words,
            ALLOCATED_OFFSET,
            config.mapped_file_size_commit_log,
            wrote_offset,
            append_limit,
            files.populate,
        )
        for _, topic, queue_id, _, max_queue_offset, _ in self._queue_table.rows():
            log.queues_of(topic).advance(queue_id, max_queue_offset)
        return log

    # -- what the parts ask -----------------------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        return self._is_writeable and self._control.running_flags() & ~1 == 0

    def _announce_change(self, changed: Mapping[str, str]) -> None:
        """Tells the other processes which options have been changed so far."""
        self._changed_options.store(changed)
        self._publisher.config_version()  # order: after the page, of which it says what counts
        for bell in self._context.instance.bells.values():
            bell.ring()

    def _options_changed(self, _keys: frozenset[str]) -> None:
        self._path.body_limit = self._store_config.effective_max_message_size
        self._hot_topics.follow(None)

    def _ring(self) -> None:
        """Wakes those who work on behind the log's end, if they sleep."""
        bells = self._context.instance.bells
        bells["dispatch"].ring()
        bells["flush"].ring()
        bells["ha"].ring()
        if self._control.allocated_offset - self._control.wrote_offset < self._store_config.mapped_file_size_commit_log:
            bells["housekeeper"].ring()

    def _somebody_waits(self) -> None:
        self._wakeups.ask()

    def _is_anyone_waiting(self) -> bool:
        return bool(len(self._held)) or self._gate.has_waiting or self._appender.is_waiting_for_file

    def _look(self) -> None:
        """Goes on with whatever waited for another process's offset."""
        self._gate.release()
        self._appender.file_reserved()
        if len(self._held):
            rows = self._changed_rows.take()
            self._held.arrived(self._held.queues() if rows is None else self._queue_keys.of(rows))

    def _connection(self, endpoint: Endpoint) -> BrokerConnection:
        serves_pulls = endpoint.handlers is self._main_table
        return BrokerConnection(endpoint, self._path, self._pull_path if serves_pulls else None, self._appender)

    def _connection_closed(self, connection: Connection, _reason: str) -> None:
        self._clients.connection_closed(connection)

    # -- the clock --------------------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        """What goes by the clock: deadlines, signs of life, counters, silent clients."""
        loop = asyncio.get_running_loop()
        next_expiry = loop.time() + _EXPIRE_CLIENTS_S
        while True:
            await asyncio.sleep(_TICK_S)
            self._context.beat()
            self._path.writeable = self._may_write()
            self._wakeups.look()
            self._held.expire(loop.time())
            self._count()
            if loop.time() >= next_expiry:
                next_expiry = loop.time() + _EXPIRE_CLIENTS_S
                self._clients.expire()

    def _count(self) -> None:
        now = {
            "messages_in": self._sends.messages_in + self._path.messages_in,
            "bytes_in": self._sends.bytes_in + self._path.bytes_in,
            "messages_out": self._pulls.messages_out + self._pull_path.messages_out,
            "bytes_out": self._pulls.bytes_out + self._pull_path.bytes_out,
            "held_pulls": len(self._held),
            "connections": len(self._server.connections),
        }
        counters = self._context.counters
        for name, value in now.items():
            counters.add(name, value - self._counted.get(name, 0))
        self._counted = now


class _QueueKeys:
    """Names the queues of rows of the queue table."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._keys: dict[int, QueueKey] = {}
        self._seen_changes = -1

    def of(self, rows: list[int]) -> list[QueueKey]:
        """The queues of these rows, each once; rows freed meanwhile are left out."""
        if self._table.changes != self._seen_changes:
            self._seen_changes = self._table.changes
            self._keys = {row: (topic.decode(), queue_id) for row, topic, queue_id, *_ in self._table.rows()}
        return [self._keys[row] for row in dict.fromkeys(rows) if row in self._keys]
