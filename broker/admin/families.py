"""All families of administrative requests, put together from what the broker has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from broker.admin.cleaning_admin import CleaningAdmin
from broker.admin.client_admin import ClientAdmin
from broker.admin.config_admin import ConfigAdmin
from broker.admin.consume_progress import ConsumeProgress, no_tps
from broker.admin.consume_queue_admin import ConsumeQueueAdmin
from broker.admin.group_admin import GroupAdmin
from broker.admin.handling import AdminFamily
from broker.admin.offset_admin import OffsetAdmin
from broker.admin.online import OnlineClients
from broker.admin.queue_facts import NO_TIME, QueueFacts
from broker.admin.runtime_info import LogOffsets, RuntimeInfo
from broker.admin.topic_admin import TopicAdmin
from broker.broker_conf import BrokerConf
from broker.config import BrokerConfig
from broker.groups import GroupTable
from broker.live_config import LiveConfig
from broker.offsets import OffsetTable
from broker.registration import Registration
from broker.topics import TopicTable
from broker.traffic import Traffic
from store.config import StoreConfig


class Wishes(Protocol):
    """Where an operator's wishes are passed on to other processes; `ipc.publish.broker.BrokerPublisher` is one."""

    def delete_expired_requests(self) -> int:
        """Asks the housekeeper to delete expired files."""

    def clean_topics_requests(self) -> int:
        """Asks dispatch to drop the queues of topics that are gone."""

    def config_version(self) -> int:
        """Says that the configuration has changed."""


def admin_families(
    *,
    config: BrokerConfig,
    store_config: StoreConfig,
    topics: TopicTable,
    groups: GroupTable,
    offsets: OffsetTable,
    clients: OnlineClients,
    registration: Registration,
    publisher: Wishes,
    control: LogOffsets,
    bounds: Callable[[str, int], tuple[int, int]],
    store_time: Callable[[str, int, int], int],
    entries: Callable[[str, int, int], memoryview | None] | None = None,
    earliest_time: Callable[[], int] = lambda: NO_TIME,
    delay_offsets: Callable[[], Mapping[int, int]] = dict,
    group_tps: Callable[[str, str], float] = no_tps,
    traffic: Traffic | None = None,
    live: LiveConfig | None = None,
    broker_conf: Path | None = None,
) -> list[AdminFamily]:
    """The families, ready for `handling.register`.

    Without `entries` QUERY_CONSUME_QUEUE is not served. `traffic` is sampled by whoever gives it. `broker_conf` is the file that options changed
    while running are written to.
    """
    if live is None:
        conf = BrokerConf(broker_conf) if broker_conf is not None else None
        live = LiveConfig(config, store_config, publisher.config_version, conf)
    live.on_change(registration.options_changed)
    is_slave = store_config.is_slave
    facts = QueueFacts(config.broker_name, bounds, store_time)
    families: list[AdminFamily] = [
        TopicAdmin(topics, registration.register_topic, publisher.clean_topics_requests, is_slave=is_slave),
        GroupAdmin(groups, offsets, is_slave=is_slave),
        ClientAdmin(clients, offsets),
        ConsumeProgress(topics, groups, offsets, clients, facts, config.address, group_tps),
        OffsetAdmin(topics, offsets, clients, bounds, delay_offsets),
        CleaningAdmin(publisher.delete_expired_requests, publisher.clean_topics_requests),
        ConfigAdmin(live),
        RuntimeInfo(
            config, store_config.paths(), control, traffic or Traffic(dict), earliest_time, delay_offsets, bounds
        ),
    ]
    if entries is not None:
        families.append(ConsumeQueueAdmin(bounds, entries, clients))
    return families
