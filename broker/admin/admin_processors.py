"""Creates all processors of admin requests, each with what it uses."""

import os
from collections.abc import Callable

from broker.access.access_control import AccessControl
from broker.admin.acl_admin import AclAdmin
from broker.admin.admin_handler import AdminProcessor
from broker.admin.cleaning_admin import CleaningAdmin
from broker.admin.client_admin import ClientAdmin
from broker.admin.config_admin import ConfigAdmin
from broker.admin.consume_progress import ConsumeProgress
from broker.admin.consume_queue_admin import ConsumeQueueAdmin
from broker.admin.group_admin import GroupAdmin
from broker.admin.offset_admin import OffsetAdmin
from broker.admin.queue_facts import QueueFacts
from broker.admin.relays import Relays
from broker.admin.runtime_info import RuntimeInfo
from broker.admin.stats_admin import StatsAdmin
from broker.admin.topic_admin import TopicAdmin
from broker.appending.appender import Appender
from broker.live_config import LiveConfig
from broker.pulling.store_reader import StoreReader
from broker.registration import Registration
from broker.role_notifier import RoleNotifier
from broker.settings import Settings
from broker.statistics.broker_stats import BrokerStats
from broker.statistics.traffic import Traffic
from broker.tables import Tables
from broker.topics.topic_deletion import TopicDeletion
from ipc.control_block import ControlBlock
from ipc.queue_table import QueueTable


def make_admin_processors(
    settings: Settings,
    control: ControlBlock,
    live: LiveConfig,
    tables: Tables,
    registration: Registration,
    role_notifier: RoleNotifier,
    reading: StoreReader,
    appender: Appender,
    queue_table: QueueTable,
    stats: BrokerStats,
    traffic: Traffic,
    access: AccessControl | None,
    waiting_timers: Callable[[], int],
) -> list[AdminProcessor]:
    """All of them. `access`: None if ACL is disabled."""
    config, bounds = settings.broker, reading.queues.bounds
    topics, groups, offsets, clients = tables.topics, tables.groups, tables.offsets, tables.clients
    delay_offsets, by_time = tables.delay_offsets.table, reading.by_time
    facts = QueueFacts(config.broker_name, bounds, by_time.timestamp_at)

    def log_end() -> int:
        appender.publish()
        return control.wrote_offset

    def forget_offsets(topic: bytes) -> None:
        appender.log.forget_topic(topic)
        offsets.remove_topic(os.fsdecode(topic))

    deletion = TopicDeletion(
        topics,
        tables.deleted_topics,
        log_end,
        lambda: {row[1] for row in queue_table.rows()},
        forget_offsets,
    )

    def delete_topic(topic: str) -> bool:
        existed = deletion.delete(topic)
        offsets.persist()  # otherwise a kill would restore the groups' offsets
        return existed

    def clean_topics() -> None:
        deletion.delete_unused()
        role_notifier.clean_topics()

    return [
        ConfigAdmin(live),
        RuntimeInfo(
            config,
            settings.paths,
            control,
            traffic,
            stats.store,
            reading.earliest_time,
            delay_offsets,
            bounds,
            waiting_timers,
        ),
        TopicAdmin(topics, registration.register_topic, delete_topic, role_notifier.topics_cleaned),
        GroupAdmin(groups, offsets),
        OffsetAdmin(topics, offsets, clients, bounds, delay_offsets),
        ClientAdmin(clients, offsets),
        Relays(config.broker_name, topics, clients, offsets, bounds, by_time.offset_at, reading.view),
        ConsumeProgress(topics, groups, offsets, clients, facts, config.address, stats.group_tps),
        ConsumeQueueAdmin(bounds, reading.queues.entries, clients),
        StatsAdmin(stats),
        CleaningAdmin(role_notifier.delete_expired, clean_topics),
        AclAdmin(config, access),
    ]
