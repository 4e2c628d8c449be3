"""A broker's processors over a real store in a directory, with clients whose socket is a list of bytes.

Log, queues, index, shared memory and tables are the real ones; dispatch runs when a test calls `dispatch`. Everything
happens on the broker's own event loop, inside `ask`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker.appending.ack_gate import AckGate
from broker.appending.appender import Appender
from broker.clients.client_processor import ClientProcessor, MembersNotifier
from broker.clients.clients import ClientTable
from broker.clients.groups import GroupTable
from broker.clients.lock_processor import LockProcessor
from broker.clients.offset_processor import OffsetProcessor
from broker.clients.offsets import OffsetTable
from broker.clients.queue_visits import QueueVisits
from broker.clients.rebalance_locks import RebalanceLocks
from broker.config import BrokerConfig
from broker.connections.hot_requests import HotRequests
from broker.connections.hot_round import HotRound
from broker.delays.delay_redirect import DelayRedirect
from broker.filtering.consumer_filter_table import ConsumerFilterTable
from broker.filtering.pull_filters import PullFilters
from broker.json_file import JsonFile
from broker.pulling.held_pulls import HeldPulls
from broker.pulling.hot_pull import PullPath
from broker.pulling.long_polling import LongPolling
from broker.pulling.pull_answers import PullAnswers
from broker.pulling.pull_checks import PullChecks
from broker.pulling.pull_processor import PullProcessor
from broker.pulling.query_processor import QueryProcessor
from broker.pulling.selectors import FunctionReader, Selectors
from broker.sending.hot_send import SendPath
from broker.sending.reply_processor import ReplyProcessor
from broker.sending.send_back_processor import SendBackProcessor
from broker.sending.send_processor import SendProcessor
from broker.slave_handler_table import SlaveHandlerTable
from broker.statistics.broker_stats import BrokerStats
from broker.timers.recall_processor import RecallProcessor
from broker.timers.timer_redirect import TimerRedirect, TimerRules
from broker.topics.creation_limit import CreationLimit
from broker.topics.topics import TopicTable
from broker.transactions.end_transaction_processor import EndTransactionProcessor
from headrace.model.delay_level import parse_delay_levels
from headrace.model.host import encode_host, parse_host
from headrace.model.message import MessageExt
from headrace.model.names import TIMER_TOPIC
from headrace.model.topic_config import TopicConfig
from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import ONEWAY_FLAG, RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from headrace.protocol.version import CURRENT_VERSION
from headrace.remoting.connection import Connection, make_channel
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.turns import Turns
from ipc.control_layout import ALLOCATED_OFFSET
from ipc.current_client import CLIENT_CELLS, CurrentClient
from ipc.instance import Instance
from ipc.publish.housekeeper import HousekeeperPublisher
from ipc.publish.log import LogPublisher
from ipc.publish.recover import RecoverPublisher
from store.commit_log.append import CommitLogAppender
from store.commit_log.appended_files import AppendedFiles
from store.commit_log.reader import CommitLogReader
from store.commit_log.staged_files import StagedFiles
from store.config import SLAVE, StoreConfig
from store.consume_queue.reader import ConsumeQueueReader
from store.dispatch.dispatcher import COUNTERS, Dispatcher
from store.mapped_file import reserve_file
from store.paths import StorePaths, file_name
from store.query.by_key import KeyQuery
from store.query.by_time import TimeQuery
from store.query.filtered import FilteredGetter
from store.query.get import MessageGetter, warm
from store.query.sources import PullSources

MAX_MESSAGE_SIZE = 65536
MEMORY = 1 << 40
"""So much that no message counts as far behind."""


class SmallBroker:
    """The parts of a broker, assembled as in production, without processes and sockets."""

    def __init__(
        self,
        root: Path,
        broker: dict[str, Any] | None = None,
        store: dict[str, Any] | None = None,
        memory_bytes: int = MEMORY,
        files: int = 4,
    ) -> None:
        sizes: dict[str, Any] = {
            "mapped_file_size_commit_log": 1 << 18,
            "mapped_file_size_consume_queue": 1000 * ENTRY_SIZE,
            "max_hash_slot_num": 1000,
            "max_index_num": 4000,
            "max_message_size": MAX_MESSAGE_SIZE,
        }
        self.loop = asyncio.new_event_loop()
        self.store_config = StoreConfig(store_path_root_dir=str(root), **(sizes | (store or {})))
        names: dict[str, Any] = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "listen_port": 10911}
        self.config = BrokerConfig(**(names | (broker or {})))
        self.paths = StorePaths(root)
        self.paths.make_directories()
        self.instance = Instance.create(root, queue_table_capacity=256)
        control = self.control = self.instance.control
        self.file_size = self.store_config.mapped_file_size_commit_log
        RecoverPublisher(control).first_values(min_offset=0, wrote_offset=0, allocated_offset=0, reput_offset=0)
        self.reserve(files)
        self.reput = Dispatcher(
            self.instance,
            self.instance.counters("dispatch", COUNTERS),
            self.store_config,
            self.paths,
            is_log_copied=False,
        )
        self.reput.open()

        creations = CreationLimit(self.config.max_topics_created_per_minute)
        self.topics = TopicTable(JsonFile(self.paths.config_file("topics.json")), self.config, creations)
        self.groups = GroupTable(JsonFile(self.paths.config_file("subscriptionGroup.json")), self.config, creations)
        self.offsets = OffsetTable(JsonFile(self.paths.config_file("consumerOffset.json")))
        self.clients = ClientTable(MembersNotifier(self.config, self.groups))
        self.now = 0.0
        self.stats = BrokerStats(self.config, self.clock_ms)
        self.visits = QueueVisits(lambda: self.now)
        self.locks = RebalanceLocks(lambda: int(self.now * 1000))
        self.held = HeldPulls()
        self.executor = ThreadPoolExecutor(1)
        may_append = self.is_writeable = self.store_config.broker_role != SLAVE
        self.gate = AckGate(
            control,
            lambda: self.now,
            self.store_config,
        )
        self.rings = 0
        self.appender = Appender(
            self._make_log(),
            self.gate,
            self.store_config,
            lambda: "" if self.is_writeable else "the disk is too full",
            self._ring,
            stats=self.stats.store,
        )
        self.path = SendPath(
            self.appender.log,
            encode_host(parse_host(self.config.address)),
            self.config.broker_cluster_name,
            self.config.region_id,
            self.config.trace_on,
            CURRENT_VERSION,
            self.store_config.effective_max_message_size,
            not self.gate.is_open,
        )
        self.path.limit(
            self.config.max_header_size, self.config.max_message_properties, self.config.max_message_properties_size
        )
        reader = self.reader = CommitLogReader(self.paths, self.store_config, control)
        queues = self.queues = ConsumeQueueReader(self.paths, self.store_config, self.instance.queue_table())
        self.sources = PullSources(queues, reader, control, self.store_config, memory_bytes)
        self.getter = MessageGetter(self.sources)
        by_time = TimeQuery(queues, reader)
        self.by_key = KeyQuery(self.paths, self.store_config, reader)
        self.delays = DelayRedirect(parse_delay_levels(self.store_config.message_delay_level))
        self.ahead_ms = 0
        self.stands_at_ms: int | None = None
        """What the clock of timers says but for `ahead_ms`; None: it goes."""
        self.timers = TimerRedirect(
            lambda: TimerRules(self.config.timer_wheel_enable, self.config.timer_max_delay_sec * 1000),
            lambda: self.topics.create_on_send_back(TIMER_TOPIC, 1),
            self.clock_ms,
        )
        self.sends = SendProcessor(
            self.config, self.store_config, self.topics, self.groups, self.appender, self.path, parse_host(self.config.address),
            self.delays, self.timers, self.stats,
        )  # fmt: skip
        self.filters = ConsumerFilterTable(JsonFile(self.paths.config_file("consumerFilter.json")), self.config)
        self.clients.on_change(lambda: self.filters.forget_groups_beyond(self.clients.consumer_groups()))
        filters = PullFilters(self.filters, self.config)
        self.pull_path = self._make_pull_path()
        self.pulls = self.make_pulls(filters)
        make_table = HandlerTable if may_append else SlaveHandlerTable
        main, fast = make_table(), make_table()
        self.sends.register(main, fast)
        EndTransactionProcessor(
            self.appender, self.delays, self.timers, reader.copy_record, parse_host(self.config.address), self.stats
        ).register(main, fast)  # fmt: skip
        RecallProcessor(self.config, self.topics, self.appender, self.timers, parse_host(self.config.address)).register(
            main, fast
        )
        ReplyProcessor(
            self.config, self.clients, self.sends, self.appender, parse_host(self.config.address), self.stats
        ).register(main, fast)
        SendBackProcessor(
            self.config,
            self.topics,
            self.groups,
            self.appender,
            self.delays,
            reader.copy_record,
            self.stats,
        ).register(main, fast)
        self.pulls.register(main)
        ClientProcessor(self.config, self.topics, self.groups, self.clients, filters).register(main, fast)
        LockProcessor(self.locks, self.visits).register(main, fast)
        OffsetProcessor(
            self.offsets, self.getter, queues.bounds, by_time.offset_at, by_time.earliest_timestamp, self.visits
        ).register(main, fast)
        QueryProcessor(self.by_key.query, reader.copy_record, self.store_config, self.topics.all).register(main, fast)
        self.hot_round = HotRound(self.appender)
        self._deadlines = Deadlines(self.loop)
        self.handlers = main
        self.handlers = main
        self._main = Endpoint(self.loop, main, self._deadlines, on_close=self._closed)
        self._fast = Endpoint(self.loop, fast, self._deadlines, on_close=self._closed)

    def close(self) -> None:
        """Lets go of everything."""
        self._deadlines.close()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self.executor.shutdown()
        self.reput.close()
        self.by_key.close()
        self.queues.close()
        self.reader.close()
        self.instance.unlink()
        self.instance.close()

    def make_pulls(self, filters: PullFilters, functions: FunctionReader | None = None) -> PullProcessor:
        """Pulls over the broker's tables."""
        filtered = FilteredGetter(self.sources, self.paths)
        checks = PullChecks(
            self.config,
            self.topics,
            self.groups,
            self.clients,
            Selectors(filters, self.getter, filtered, self.warm, functions),
        )
        answers = PullAnswers(self.config, self.store_config, self.stats, self.appender.append)
        polling = LongPolling(self.config, checks, answers, self.held, self.queues.bounds)
        commit = None if self.store_config.broker_role == SLAVE else self.offsets.commit
        return PullProcessor(checks, answers, polling, self.visits, commit, self.pull_path)

    def _make_pull_path(self) -> PullPath:
        getter = self.getter

        commits = self.store_config.broker_role != SLAVE
        path = PullPath(getter.gatherer, getter.try_gather, self.offsets.commit, commits, CURRENT_VERSION)
        self.topics.on_change(lambda _: path.forget_plans())
        self.groups.on_change(lambda _: path.forget_plans())
        self.clients.on_change(path.forget_plans)
        return path

    def warm(self, plan: list[tuple[int, int, int]]) -> Awaitable[None]:
        """Reads parts of files on a thread."""
        return asyncio.get_running_loop().run_in_executor(self.executor, warm, plan)

    # -- the store --------------------------------------------------------------------------------------------------------

    def _make_log(self) -> CommitLogAppender:
        is_staged = self.store_config.is_sync_flush
        files = (
            StagedFiles(self.paths, self.store_config) if is_staged else AppendedFiles(self.paths, self.store_config)
        )
        return CommitLogAppender(
            LogPublisher(self.control), files.open, self.control.words[:], ALLOCATED_OFFSET, self.file_size, 0, 0, files.populate,
            stage=files.stage,
        )  # fmt: skip

    def clock_ms(self) -> int:
        """The clock of timers: `ahead_ms` before the store's."""
        return (time.time_ns() // 1_000_000 if self.stands_at_ms is None else self.stands_at_ms) + self.ahead_ms

    def _ring(self) -> None:
        self.rings += 1

    def reserve(self, files: int) -> None:
        """What the housekeeper does: there are `files` CommitLog files."""
        for number in range(files):
            reserve_file(self.paths.commit_log / file_name(number * self.file_size), self.file_size)
        HousekeeperPublisher(self.control).allocated_offset(files * self.file_size)

    def dispatch(self) -> None:
        """What dispatch does with all that was written."""
        while self.reput.try_batch():
            pass
        assert self.reput.failure is None

    def raise_min_offset(self, physical_offset: int) -> None:
        """What the housekeeper does before it deletes files."""
        HousekeeperPublisher(self.control).min_offset(physical_offset)

    def records(self) -> list[MessageExt]:
        """All messages in the log's first file."""
        data = self.reader.read(0, min(self.control.wrote_offset, self.file_size))
        return decode_records(bytes(data or b""))

    def record(self) -> MessageExt:
        """The last of them."""
        return self.records()[-1]

    # -- clients ----------------------------------------------------------------------------------------------------------

    def topic(self, name: str = "T", queues: int = 4, **settings: Any) -> None:
        """Makes a topic, or sets it."""
        self.topics.put(TopicConfig(name, queues, queues, **settings))

    def connect(self, port: int = 40000, address: str = "10.1.2.3", *, fast: bool = False) -> "Peer":
        """A client."""
        return Peer(self, self._fast if fast else self._main, (address, port))

    def connect_hot(self, port: int = 40000, turns: Turns | None = None) -> "Peer":
        """A client whose sends and pulls take the hot paths, which are prepared for topic T; as in a server if there are `turns`."""
        self.path.prepare_topic(b"T", 4, 0)
        return Peer(self, replace(self._main, make_hot_path=self.hot_path, turns=turns), ("10.1.2.3", port))

    def hot_path(self, connection: Connection) -> HotRequests:
        """Lets the sends and pulls of a connection take the hot paths."""
        mark = CurrentClient(memoryview(bytearray(8 * CLIENT_CELLS)).cast("q"))
        return HotRequests(connection, self.path, self.pull_path, self.appender, self.hot_round, mark)

    def run(self, work: Callable[[], object]) -> None:
        """Calls `work` on the loop, as a bell or a tick would, and lets what it set off come to its end."""

        async def within() -> None:
            work()
            await asyncio.sleep(0)

        self.loop.run_until_complete(within())

    def _closed(self, connection: Connection, _reason: str) -> None:
        self.clients.connection_closed(connection)
        self.held.drop(connection)


class _Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self.written = bytearray()
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class Peer:
    """A client's end of a connection."""

    def __init__(self, broker: SmallBroker, endpoint: Endpoint, address: tuple[str, int]) -> None:
        self._broker = broker
        self._channel = make_channel(endpoint)
        self.connection = self._channel.handler
        self.faults = endpoint.faults
        self._wire = _Wire(address)
        self._decoder = FrameDecoder()
        self._opaque = 0
        self._channel.connection_made(self._wire)

    def tell(
        self,
        code: int,
        ext: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
        version: int = 409,
        binary: bool = False,
    ) -> RemotingCommand:
        """Sends a request and lets the broker work at it until it waits for something; returns the request."""
        self._opaque += 1
        fields = None if ext is None else {key: str(value) for key, value in ext.items()}
        command = RemotingCommand(code, version=version, opaque=self._opaque, flag=flag, ext_fields=fields, body=body)
        if binary:
            command.serialize_type = SerializeType.ROCKETMQ
        self.handle(command.encode())
        return command

    def handle(self, data: bytes) -> None:
        """Sends bytes."""

        async def within() -> None:
            self._channel.data_received(data)
            for _ in range(10):
                await asyncio.sleep(0)

        self._broker.loop.run_until_complete(within())

    def receive(self, data: bytes) -> None:
        """The broker reads these bytes, within the loop's turn."""
        self._channel.data_received(data)

    def take_bytes(self) -> bytes:
        """What has come since the last look, undecoded."""
        data = bytes(self._wire.written)
        self._wire.written.clear()
        return data

    def received(self) -> list[RemotingCommand]:
        """What has come since the last look."""
        return list(self._decoder.feed(self.take_bytes()))

    def ask(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", **options: Any) -> RemotingCommand:
        """Sends a request; its answer, which must come at once."""
        command = self.tell(code, ext, body, **options)
        answers = [one for one in self.received() if one.is_response]
        assert len(answers) == 1, answers
        assert answers[0].opaque == command.opaque
        return answers[0]

    def told(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> list[RemotingCommand]:
        """Sends a one-way request; whatever comes of it."""
        self.tell(code, ext, body, flag=ONEWAY_FLAG)
        return self.received()

    def close(self) -> None:
        """The connection breaks."""
        self._wire.closing = True
        self._channel.connection_lost(None)

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._wire.closing

    # -- requests as clients make them ------------------------------------------------------------------------------------

    def send(self, body: bytes = b"hello", topic: str = "T", queue_id: int = 0, **fields: Any) -> RemotingCommand:
        """SEND_MESSAGE_V2; `fields` replace its letters, None takes one away."""
        return self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic, queue_id, **fields), body)

    def pull(self, offset: int = 0, topic: str = "T", queue_id: int = 0, **fields: Any) -> RemotingCommand:
        """PULL_MESSAGE with all messages wanted and no hold; `fields` replace others."""
        return self.ask(RequestCode.PULL_MESSAGE, pull_fields(offset, topic, queue_id, **fields))


def send_fields(topic: str = "T", queue_id: int = 0, **fields: Any) -> dict[str, Any]:
    """The ext fields of SEND_MESSAGE_V2."""
    ext = {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": 1700000000123,
        "h": 0,
        "m": "false",
    }
    return {key: value for key, value in (ext | fields).items() if value is not None}


def pull_fields(offset: int = 0, topic: str = "T", queue_id: int = 0, **fields: Any) -> dict[str, Any]:
    """The ext fields of PULL_MESSAGE."""
    ext = {
        "consumerGroup": "CG",
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
    }
    return {key: value for key, value in (ext | fields).items() if value is not None}
