"""The tables of topics, groups, clients and offsets. Persistent tables are stored under `config/`."""

from broker.clients.client_processor import MembersNotifier
from broker.clients.clients import ClientTable
from broker.clients.groups import GroupTable
from broker.clients.offsets import OffsetTable
from broker.clients.queue_visits import QueueVisits
from broker.delays.delay_offsets import DelayOffsets
from broker.delays.delivered_copies import LevelsFile
from broker.filtering.consumer_filter_table import ConsumerFilterTable
from broker.filtering.filter_functions import FilterFunctions
from broker.json_file import JsonFile
from broker.settings import Settings
from broker.statistics.broker_stats import BrokerStats
from broker.topics.creation_limit import CreationLimit
from broker.topics.deleted_topics import DeletedTopicTable
from broker.topics.topics import TopicTable
from store.deleted_topics import FILE as DELETED_TOPICS
from store.filter.python.functions import FOLDER, REPORT, FunctionFolder


class Tables:
    """Reads the files. Raises ConfigFileUnreadable."""

    def __init__(self, settings: Settings) -> None:
        config, paths = settings.broker, settings.paths
        creations = CreationLimit(config.max_topics_created_per_minute)
        self.topics = TopicTable(JsonFile(paths.config_file("topics.json")), config, creations)
        self.deleted_topics = DeletedTopicTable(JsonFile(paths.config_file(DELETED_TOPICS)), self.topics)
        self.groups = GroupTable(JsonFile(paths.config_file("subscriptionGroup.json")), config, creations)
        self.offsets = OffsetTable(JsonFile(paths.config_file("consumerOffset.json")))
        self.delay_offsets = DelayOffsets(
            JsonFile(paths.config_file("delayOffset.json")), LevelsFile(paths.root / "timer" / "levels")
        )
        self.clients = ClientTable(MembersNotifier(config, self.groups))
        self.filters = ConsumerFilterTable(JsonFile(paths.config_file("consumerFilter.json")), config)
        self.stats = BrokerStats(config)
        self.topics.on_change(self._topic_changed)
        self.groups.on_change(self._group_changed)
        self.visits = QueueVisits()
        self.functions: FilterFunctions | None = None
        if settings.filter_workers:
            folder = FunctionFolder(paths.config_file(FOLDER))
            self.functions = FilterFunctions(folder, settings.filter_workers, config, paths.config_file(REPORT))
        self.clients.on_change(lambda: self.filters.forget_groups_beyond(self.clients.consumer_groups()))

    def _topic_changed(self, name: str | None) -> None:
        if name is not None and self.topics.find(name) is None:
            self.stats.forget_topic(name)

    def _group_changed(self, name: str | None) -> None:
        if name is not None and name not in self.groups.all():
            self.stats.forget_group(name)
