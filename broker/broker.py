"""The broker process: creates its parts, starts them, and stops them in order.

The composition root, with `settings`, `tables`, `delivery_services`, `offset_waiters` and `request_handlers` beside it: nobody else knows all of the broker's parts; each of them is given what it uses and no more.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from ssl import SSLContext

import uvloop

from broker.access.access_control import AccessControl
from broker.access.acl_folder import AclFolder
from broker.admin.admin_processors import make_admin_processors
from broker.admin.fixed_values import fixed_values
from broker.broker_conf import BrokerConf
from broker.config import BrokerConfig
from broker.connections.acl_admission import AclAdmission
from broker.connections.hot_round import HotRound
from broker.delivery_services import DeliveryServices
from broker.errors import PortTaken
from broker.findings.board import make_finding_board
from broker.findings.lost_messages import LostMessages
from broker.live_config import LiveConfig
from broker.offset_waiters import OffsetWaiters
from broker.pulling.store_reader import StoreReader
from broker.registration import Registration
from broker.request_handlers import RequestHandlers
from broker.role_notifier import RoleNotifier
from broker.sending.store_writer import StoreWriter
from broker.settings import Settings
from broker.statistics.counters import LIMITS, Counters
from broker.statistics.traffic import Traffic
from broker.tables import Tables
from headrace.remoting.admin_gate import AdminGate
from headrace.remoting.connection import Connection
from headrace.remoting.endpoint import Admit, MakeHotPath
from headrace.remoting.fault_log import FaultLog
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.open_files import limits_of_process
from headrace.remoting.server import RemotingServer
from headrace.remoting.server_tls import ServerTls
from ipc.role_context import RoleContext
from store.abort_file import note_dispatched
from store.config import StoreConfig
from store.paths import StorePaths

logger = logging.getLogger(__name__)

FAST_PORT_OFFSET = -2
_TICK_S = 0.1  # limit: how long after its deadline a held pull or a response may be answered
_CATCH_UP_POLL_S = 0.002
_EXPIRE_CLIENTS_S = 10.0


def run(
    context: RoleContext,
    config: BrokerConfig,
    store_config: StoreConfig,
    paths: StorePaths,
    host: str,
    port: int,
    namesrv_addresses: list[str],
    broker_conf: Path | None = None,
    filter_workers: Sequence[Path] = (),
    tls: ServerTls | None = None,
    tls_to_name_servers: SSLContext | None = None,
    *,
    may_append: bool,
) -> None:
    """Runs the broker until it is stopped. Raises PortTaken, ConfigFileUnreadable, BadAclFile, OSError.

    Options that are changed by request are written to the file `broker_conf`, if there is one. `filter_workers`: where processes of
    filter functions wait for a call. `tls`: TLS of the listeners; `tls_to_name_servers`: connect to name servers by TLS.
    `may_append`: the broker writes the log, as on a master.
    """
    settings = Settings(
        config, store_config, paths, host, port, namesrv_addresses, broker_conf, may_append, tuple(filter_workers)
    )
    uvloop.run(_Broker(context, settings, tls, tls_to_name_servers).main())


def deliver_timers(
    context: RoleContext, config: BrokerConfig, store_config: StoreConfig, paths: StorePaths, *, may_append: bool
) -> int:
    """Delivers all pending timer messages at once, without serving requests. Returns their number. For a store that will be moved.

    Raises ConfigFileUnreadable, OSError.
    """
    settings = Settings(config, store_config, paths, "", 0, [], None, may_append)
    return asyncio.run(_Broker(context, settings).deliver_timers())


class _Broker:
    """The parts of the broker, and the order of their start and stop."""

    def __init__(
        self,
        context: RoleContext,
        settings: Settings,
        tls: ServerTls | None = None,
        tls_to_name_servers: SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._context = context
        self._control = context.control
        self._settings = settings
        self._role_notifier = RoleNotifier(context, settings)
        # order: before the parts, which may depend on options that a predecessor had changed.
        self._live = LiveConfig(
            settings.broker,
            settings.store,
            self._role_notifier.options_changed,
            BrokerConf(settings.broker_conf) if settings.broker_conf else None,
            self._role_notifier.changed_before,
            fixed_values(context.instance.queue_table().capacity),
        )
        self._tables = Tables(settings)
        self._tables.deleted_topics.on_change(self._role_notifier.clean_topics)
        self._registration = Registration(
            settings.broker, self._tables.topics, settings.namesrv_addresses, tls=tls_to_name_servers
        )
        self._live.on_change(self._registration.options_changed)
        self._live.on_change(self._tables.topics.options_changed)
        self._traffic = Traffic(context.counters.read)
        self._access: AccessControl | None = None

    # -- life -------------------------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """Starts, serves until stopped, stops."""
        context, settings, loop = self._context, self._settings, asyncio.get_running_loop()
        stopped = asyncio.Event()
        loop.add_reader(context.stop_fd, stopped.set)
        await self._wait_for_dispatch(stopped)
        if not stopped.is_set():
            note_dispatched(settings.paths.abort)
        self._make_parts()
        if settings.broker.acl_enable:
            self._access = AccessControl(AclFolder(Path(settings.broker.rocketmq_home), settings.broker.acl_plain_file))
        requests = self._make_requests()
        server = RemotingServer(
            requests.main,
            on_close=self._connection_closed,
            admit=self._make_admit(),
            idle_timeout_s=settings.broker.server_channel_max_idle_time_seconds,
            limits=limits_of_process(settings.broker),
            faults=FaultLog(limits=LIMITS),
            buffer_limit=settings.broker.max_connection_buffer_bytes,
            tls=self._tls,
        )
        await self._listen(server, settings.port, requests.main, requests.main_hot_path)
        if settings.port + FAST_PORT_OFFSET > 0:
            await self._listen(server, settings.port + FAST_PORT_OFFSET, requests.fast, requests.fast_hot_path)
        self._waiters.wakeups.attach(loop)
        await self._registration.start()
        functions = self._tables.functions
        lost = LostMessages(
            self._control,
            self._reading.queues,
            self._tables.offsets,
            self._tables.delay_offsets.table,
            self._role_notifier.losses_counted,
            context.instance.findings_page().read(),
        )
        tasks = [
            asyncio.create_task(
                self._tick(
                    Counters(
                        context.counters,
                        self._tables.stats,
                        lambda: self._waiters.held.size,
                        server,
                        self._reading.unreadable,
                    )
                )
            ),
            asyncio.create_task(self._traffic.keep()),
            asyncio.create_task(self._tables.stats.keep()),
            asyncio.create_task(lost.keep()),
            asyncio.create_task(
                make_finding_board(settings, self._tables, context.instance.findings_page(), lost).keep()
            ),
            asyncio.create_task(self._tables.filters.keep()),
            asyncio.create_task(self._tables.offsets.keep(settings.broker.flush_consumer_offset_interval / 1000)),
            *self._services.start(),
            *([asyncio.create_task(functions.keep())] if functions is not None else []),
            *([asyncio.create_task(self._access.keep())] if self._access is not None else []),
        ]
        context.running()
        logger.info("broker running broker=%s address=%s", settings.broker.broker_name, settings.broker.address)
        await stopped.wait()
        context.take_stop_order()
        await self._stop(server, requests.hot_round, tasks)

    async def deliver_timers(self) -> int:
        """Delivers all timers. Returns how many."""
        await self._wait_for_dispatch(asyncio.Event())
        self._make_parts()
        self._context.running()
        beating = asyncio.create_task(self._beat())
        try:
            return await self._services.deliver_timers()
        finally:
            beating.cancel()
            self._release()

    async def _beat(self) -> None:
        while True:
            self._context.beat()
            await asyncio.sleep(_TICK_S)

    async def _wait_for_dispatch(self, stopped: asyncio.Event) -> None:
        while self._control.reput_offset < self._control.wrote_offset and not stopped.is_set():
            self._context.beat()
            await asyncio.sleep(_CATCH_UP_POLL_S)

    async def _listen(self, server: RemotingServer, port: int, table: HandlerTable, make_hot_path: MakeHotPath) -> None:
        try:
            await server.listen(self._settings.host, port, table, make_hot_path)
        except OSError as error:
            raise PortTaken(self._settings.host, port, error) from error

    async def _stop(self, server: RemotingServer, hot_round: HotRound, tasks: list[asyncio.Task[None]]) -> None:
        """Unregisters from the name servers, answers waiting requests, stores committed offsets."""
        logger.info("broker stopping connections=%d", len(server.connections))
        await self._registration.stop()
        self._writing.refuse()
        # order: before the check of the gate, which does not know of appends that are not published yet.
        hot_round.end()
        loop, wakeups = asyncio.get_running_loop(), self._waiters.wakeups
        deadline = loop.time() + self._settings.store.sync_flush_timeout / 1000
        while self._writing.gate.has_waiting and loop.time() < deadline:
            self._context.beat()
            wakeups.look()
            await asyncio.sleep(_CATCH_UP_POLL_S)
        await server.stop(2.0)
        wakeups.detach(loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._tables.functions is not None:
            self._tables.functions.close()
        self._services.persist()
        self._tables.filters.persist()
        self._release()

    def _release(self) -> None:
        self._reading.executor.shutdown(wait=False, cancel_futures=True)
        self._writing.appender.publish()

    # -- parts ------------------------------------------------------------------------------------------------------------

    def _make_parts(self) -> None:
        """Creates the store's reader and writer. Dispatch must have caught up."""
        context, settings, control = self._context, self._settings, self._control
        queue_table = context.instance.queue_table()
        self._waiters = waiters = OffsetWaiters(context, queue_table)
        clock = asyncio.get_running_loop().time
        # order: before anything is appended, and before the queue offsets are read.
        self._tables.deleted_topics.recover(control.min_offset, control.wrote_offset)
        self._writing = writing = StoreWriter(
            context,
            settings,
            queue_table,
            self._tables.deleted_topics.offset_of,
            self._role_notifier.appended,
            waiters.ask,
            clock,
            self._tables.stats.store,
        )
        waiters.join(writing.appender)
        self._reading = StoreReader(settings, control, queue_table)
        self._services = DeliveryServices(settings, control, self._tables, self._reading, writing.appender)

    def _make_requests(self) -> RequestHandlers:
        """Creates the request handlers."""
        context, settings, live, tables, writing, reading = (
            self._context,
            self._settings,
            self._live,
            self._tables,
            self._writing,
            self._reading,
        )
        admin_processors = make_admin_processors(
            settings,
            self._control,
            live,
            tables,
            self._registration,
            self._role_notifier,
            reading,
            writing.appender,
            context.instance.queue_table(),
            tables.stats,
            self._traffic,
            self._access,
            self._services.waiting_timers,
        )
        mark = self._context.current_client
        return RequestHandlers(
            settings, live, tables, self._waiters, writing, reading, self._services, admin_processors, mark
        )

    def _make_admit(self) -> Admit:
        """Creates the admission of connections."""
        config = self._settings.broker
        gate = AdminGate.from_options("broker", config, ", or use an admin account" if config.acl_enable else "")
        return gate.admit if self._access is None else AclAdmission(self._access, gate).admit

    def _connection_closed(self, connection: Connection, _reason: str) -> None:
        self._tables.clients.connection_closed(connection)
        self._waiters.held.drop(connection)

    # -- the clock --------------------------------------------------------------------------------------------------------

    async def _tick(self, counters: Counters) -> None:
        """Periodic work: deadlines, heartbeats, counters, silent clients."""
        loop = asyncio.get_running_loop()
        next_expiry = loop.time() + _EXPIRE_CLIENTS_S
        while True:
            await asyncio.sleep(_TICK_S)
            self._context.beat()
            if reloaded := self._context.take_reloaded_options():
                self._live.reload(reloaded)
            self._writing.look()
            self._reading.release_deleted()
            self._waiters.wakeups.look()
            self._waiters.held.expire(loop.time())
            counters.add()
            if loop.time() >= next_expiry:
                next_expiry = loop.time() + _EXPIRE_CLIENTS_S
                self._tables.clients.expire()
