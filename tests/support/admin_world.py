"""A broker's tables without a broker: the state from which administrative requests are answered, set up by hand.

Queues are dictionaries of store times. Clients are registered in the real table, on connections that have only an
address.
"""

import asyncio
import inspect
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.access.access_control import AccessControl
from broker.admin.acl_admin import AclAdmin
from broker.admin.admin_handler import AdminProcessor, register
from broker.admin.cleaning_admin import CleaningAdmin
from broker.admin.client_admin import ClientAdmin
from broker.admin.config_admin import ConfigAdmin
from broker.admin.consume_progress import ConsumeProgress
from broker.admin.consume_queue_admin import ConsumeQueueAdmin
from broker.admin.fixed_values import fixed_values
from broker.admin.group_admin import GroupAdmin
from broker.admin.offset_admin import OffsetAdmin
from broker.admin.queue_facts import QueueFacts
from broker.admin.relays import Relays
from broker.admin.runtime_info import RuntimeInfo
from broker.admin.stats_admin import StatsAdmin
from broker.admin.topic_admin import TopicAdmin
from broker.broker_conf import BrokerConf
from broker.clients.clients import Client, ClientTable
from broker.clients.groups import GroupTable
from broker.clients.offsets import OffsetTable
from broker.config import BrokerConfig
from broker.json_file import JsonFile
from broker.live_config import LiveConfig
from broker.registration import Registration
from broker.slave_handler_table import SlaveHandlerTable
from broker.statistics.broker_stats import BrokerStats
from broker.statistics.traffic import Traffic
from broker.topics.topics import TopicTable
from headrace.model.subscription import SubscriptionData
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import HandlerTable
from store.config import StoreConfig

ENTRY = struct.Struct(">qiq")
RECORD_SIZE = 200


@dataclass(eq=False)
class Peer:
    """A connection as the table of clients sees it."""

    remote: str


@dataclass
class Log:
    """The folder of the log."""

    min_offset: int = 0
    wrote_offset: int = 27665
    flushed_offset: int = 27415
    reput_offset: int = 27665
    slave_count: int = 0

    def running_flags(self) -> int:
        return 0


@dataclass
class NameServer:
    """Accepts everything and records the requests."""

    asked: list[RemotingCommand] = field(default_factory=list)

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Accepts a request."""
        assert address
        assert timeout_ms
        self.asked.append(command)
        return response_to(command, ResponseCode.SUCCESS, ext={})

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Records a one-way request."""
        assert address
        self.asked.append(command)

    async def close(self) -> None:
        """Does nothing."""


class AdminWorld:
    """Everything that administration needs, and `ask`, which sends it a request."""

    def __init__(
        self,
        root: Path,
        *,
        is_slave: bool = False,
        broker_conf: Path | None = None,
        access: AccessControl | None = None,
        **options: Any,
    ) -> None:
        given = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "listen_port": 21011, "namesrv_addr": "n:1"}
        self.config = BrokerConfig(**{**given, **options})
        role = "SLAVE" if is_slave else "ASYNC_MASTER"
        self.store_config = StoreConfig(store_path_root_dir=str(root), broker_role=role)
        self.topics = TopicTable(JsonFile(root / "config" / "topics.json"), self.config)
        self.groups = GroupTable(JsonFile(root / "config" / "subscriptionGroup.json"), self.config)
        self.offsets = OffsetTable(JsonFile(root / "config" / "consumerOffset.json"))
        self.clients = ClientTable(lambda _group: None)
        self.name_server = NameServer()
        self.cleaned = self.deleted = self.announced = 0
        self.changed_options: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.delay_offsets: dict[int, int] = {}
        self.stats = BrokerStats(self.config)
        self.store_times: dict[tuple[str, int], list[int]] = {}
        self.first_offsets: dict[tuple[str, int], int] = {}
        self.handlers = SlaveHandlerTable() if is_slave else HandlerTable()
        registration = Registration(self.config, self.topics, (), self.name_server)
        conf = BrokerConf(broker_conf) if broker_conf is not None else None
        live = LiveConfig(self.config, self.store_config, self.announce, conf, fixed=fixed_values(65536))
        live.on_change(registration.options_changed)
        facts = QueueFacts(self.config.broker_name, self.bounds, self.store_time)
        topics, groups, offsets, clients = self.topics, self.groups, self.offsets, self.clients
        self.processors: list[AdminProcessor] = [
            TopicAdmin(topics, registration.register_topic, topics.delete, self.queues_dropped),
            GroupAdmin(groups, offsets),
            ClientAdmin(clients, offsets),
            Relays(
                self.config.broker_name,
                topics,
                ClientTable(lambda _: None),
                offsets,
                self.bounds,
                lambda _topic, _queue, _time: 0,
                lambda _offset: None,
            ),
            ConsumeProgress(topics, groups, offsets, clients, facts, self.config.address),
            ConsumeQueueAdmin(self.bounds, self.entries, clients),
            OffsetAdmin(topics, offsets, clients, self.bounds, lambda: self.delay_offsets),
            StatsAdmin(self.stats),
            CleaningAdmin(self.delete_expired, self.clean_topics),
            ConfigAdmin(live),
            AclAdmin(self.config, access),
            RuntimeInfo(
                self.config,
                self.store_config.paths(),
                Log(),
                Traffic(lambda: self.counts),
                self.stats.store,
                lambda: -1,
                lambda: self.delay_offsets,
                self.bounds,
                lambda: 3,
            ),
        ]
        register(self.handlers, self.processors)

    # -- requests to other processes ---------------------------------------------------------------------------------

    def clean_topics(self) -> None:
        """Records the request to dispatch."""
        self.cleaned += 1

    async def queues_dropped(self) -> None:
        """Records the request to dispatch and waits for it."""
        self.clean_topics()

    def delete_expired(self) -> None:
        """Records the request to the housekeeper."""
        self.deleted += 1

    def announce(self, changed: Mapping[str, str]) -> None:
        """Notifies everyone of a changed option."""
        self.announced += 1
        self.changed_options = dict(changed)

    # -- queues -----------------------------------------------------------------------------------------------------------

    def fill(self, topic: str, queue_id: int, times_ms: list[int], first_offset: int = 0) -> None:
        """Fills a queue with one message per store time, starting at `first_offset`."""
        self.store_times[topic, queue_id] = times_ms
        self.first_offsets[topic, queue_id] = first_offset

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The queue's bounds."""
        first = self.first_offsets.get((topic, queue_id), 0)
        return first, first + len(self.store_times.get((topic, queue_id), ()))

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When the message was stored."""
        first, end = self.bounds(topic, queue_id)
        return self.store_times[topic, queue_id][queue_offset - first] if first <= queue_offset < end else -1

    def entries(self, topic: str, queue_id: int, queue_offset: int) -> memoryview | None:
        """Entries in pairs, as if files were that short."""
        first, end = self.bounds(topic, queue_id)
        if not first <= queue_offset < end:
            return None
        offsets = range(queue_offset, min(queue_offset + 2, end))
        return memoryview(b"".join(ENTRY.pack(offset * RECORD_SIZE, RECORD_SIZE, 7 + offset) for offset in offsets))

    # -- clients ----------------------------------------------------------------------------------------------------------

    def connect_consumer(self, group: str, *topics: str, remote: str = "127.0.0.1:49844") -> None:
        """Registers a member of the group by a heartbeat that subscribes to these topics."""
        subscriptions = [SubscriptionData.build(topic, "*", sub_version=1) for topic in topics]
        client = self._client(f"127.0.0.1@{group}", remote)
        words = ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET")
        self.clients.register_consumer(group, client, *words, subscriptions)

    def connect_producer(self, group: str, remote: str = "127.0.0.1:49820") -> None:
        """Registers a producer of the group by a heartbeat."""
        self.clients.register_producer(group, self._client(f"127.0.0.1@{group}", remote))

    @staticmethod
    def _client(client_id: str, remote: str) -> Client:
        return Client(Peer(remote), client_id, LanguageCode.JAVA, 407, 1795275553341)  # type: ignore[arg-type]

    # -- requests ---------------------------------------------------------------------------------------------------------

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        """The answer to a request."""

        async def answer() -> RemotingCommand:
            command = create_request(code, ext, body)
            result = self.handlers.handler_for(code)(None, command)
            found = await result if inspect.isawaitable(result) else result
            assert isinstance(found, RemotingCommand)
            assert found.opaque == command.opaque
            return found

        return asyncio.run(asyncio.wait_for(answer(), 10))
