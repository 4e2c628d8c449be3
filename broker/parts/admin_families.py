"""The families of admin requests, each with what it looks at and what it may do."""

from broker.admin.cleaning_admin import CleaningAdmin
from broker.admin.client_admin import ClientAdmin
from broker.admin.config_admin import ConfigAdmin
from broker.admin.consume_progress import ConsumeProgress
from broker.admin.consume_queue_admin import ConsumeQueueAdmin
from broker.admin.group_admin import GroupAdmin
from broker.admin.handling import AdminFamily
from broker.admin.offset_admin import OffsetAdmin
from broker.admin.queue_facts import QueueFacts
from broker.admin.relays import Relays
from broker.admin.runtime_info import RuntimeInfo
from broker.admin.stats_admin import StatsAdmin
from broker.admin.topic_admin import TopicAdmin
from broker.appender import Appender
from broker.live_config import LiveConfig
from broker.parts.other_roles import OtherRoles
from broker.parts.reading_end import ReadingEnd
from broker.parts.settings import Settings
from broker.parts.tables import Tables
from broker.registration import Registration
from broker.statistics.broker_stats import BrokerStats
from broker.traffic import Traffic
from ipc.control_block import ControlBlock


def admin_families(
    settings: Settings,
    control: ControlBlock,
    live: LiveConfig,
    tables: Tables,
    registration: Registration,
    other_roles: OtherRoles,
    reading: ReadingEnd,
    appender: Appender,
    stats: BrokerStats,
    traffic: Traffic,
) -> list[AdminFamily]:
    """All of them."""
    config, is_slave, bounds = settings.broker, settings.store.is_slave, reading.queues.bounds
    topics, groups, offsets, clients = tables.topics, tables.groups, tables.offsets, tables.clients
    delay_offsets, by_time = tables.delay_offsets.table, reading.by_time
    facts = QueueFacts(config.broker_name, bounds, by_time.timestamp_at)

    async def drop_queues(topic: str) -> None:
        # Made again before its queues are gone, a topic would still hold the old messages.
        await other_roles.topics_cleaned()
        if topics.find(topic) is None:
            appender.log.forget_topic(topic.encode())

    return [
        ConfigAdmin(live),
        RuntimeInfo(
            config, settings.paths, control, traffic, stats.store, reading.earliest_time, delay_offsets, bounds
        ),
        TopicAdmin(topics, registration.register_topic, drop_queues, is_slave=is_slave),
        GroupAdmin(groups, offsets, is_slave=is_slave),
        OffsetAdmin(topics, offsets, clients, bounds, delay_offsets),
        ClientAdmin(clients, offsets),
        Relays(config.broker_name, topics, clients, offsets, bounds, by_time.offset_at, reading.view),
        ConsumeProgress(topics, groups, offsets, clients, facts, config.address, stats.group_tps),
        ConsumeQueueAdmin(bounds, reading.queues.entries, clients),
        StatsAdmin(stats),
        CleaningAdmin(other_roles.delete_expired, other_roles.clean_topics),
    ]
