"""TopicTable: the topics of this broker, stored in `config/topics.json`.

The file has RocketMQ's format. A change is on disk before the response: messages of a topic that the file lacks would not be found, and
CLEAN_UNUSED_TOPIC would drop their queues. The file overrides default topics (store spec 1.6, remoting spec 4.2).

TopicConfigs are immutable: a holder has the state at the time of its query, and `on_change` notifies it to query again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from broker.config import BrokerConfig
from broker.json_file import JsonFile
from broker.table_text import TOPICS, file_text, wire_text
from broker.topics.creation_limit import CreationLimit
from headrace.model import names, permission
from headrace.model.data_version import DataVersion
from headrace.model.topic_config import TopicConfig, topic_sys_flag
from headrace.protocol.bodies.tables import TopicConfigSerializeWrapper

logger = logging.getLogger(__name__)

READ_WRITE = permission.READ | permission.WRITE
SCHEDULE_TOPIC_QUEUES = 18  # compat: RocketMQ's constant, however many levels messageDelayLevel has


class TopicTable:
    """Finds, creates, replaces and deletes topics. Used only in the broker's event loop."""

    def __init__(self, json_file: JsonFile, config: BrokerConfig, creations: CreationLimit | None = None) -> None:
        """Reads the file. Raises ConfigFileUnreadable. `creations` limits the topics that clients create."""
        self._file = json_file
        self._config = config
        self._creations = creations or CreationLimit(config.max_topics_created_per_minute)
        self._system_names = system_topics(config)
        self._topics = {topic.name: topic for topic in born_topics(config)}
        self._listeners: list[Callable[[str | None], None]] = []
        self._created_listeners: list[Callable[[str], None]] = []
        self._before_creating: list[Callable[[], None]] = []
        stored = json_file.load(TopicConfigSerializeWrapper.decode) or TopicConfigSerializeWrapper(DataVersion())
        self._topics.update(stored.topic_config_table)
        self._version = stored.data_version

    # -- asking -----------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> TopicConfig | None:
        """The topic's settings; None if it does not exist."""
        return self._topics.get(name)

    def all(self) -> Mapping[str, TopicConfig]:
        """Every topic by name: a snapshot, which later changes do not affect."""
        return self._topics

    def wire_text(self) -> str:
        """The whole table with its version, as in responses."""
        return wire_text(TOPICS, self._topics, self._version)

    @property
    def data_version(self) -> DataVersion:
        """When the table last changed, which name servers compare."""
        return self._version

    @property
    def system_names(self) -> frozenset[str]:
        """The topics that GET_SYSTEM_TOPIC_LIST names: RocketMQ's own and this broker's."""
        return self._system_names

    def is_system(self, name: str) -> bool:
        """Whether admin requests cannot change the topic (remoting spec 4.2)."""
        return name in self._system_names or names.is_system_topic(name)

    # -- being told -------------------------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[str | None], None]) -> None:
        """Calls `listener` with the name of each topic that is created, replaced or deleted; None: any may have changed."""
        self._listeners.append(listener)

    def on_created(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the name of each topic created by a send or a heartbeat, which must be registered."""
        self._created_listeners.append(listener)

    def before_creating(self, listener: Callable[[], None]) -> None:
        """Calls `listener` before a topic is added; if it raises OSError, the topic is not added."""
        self._before_creating.append(listener)

    # -- changing ---------------------------------------------------------------------------------------------------------

    def create_on_send(
        self, topic: str, default_topic: str, queue_count: int, unit_mode: bool = False
    ) -> TopicConfig | None:
        """The topic, created from the template `default_topic` if it does not exist; None if that is not allowed (remoting spec 4.4).

        A retry topic is created without a template. A template must have the inherit bit. Raises LimitReached.
        """
        found = self._topics.get(topic)
        if found is not None:
            return found
        is_retry = names.is_retry_topic(topic)
        sys_flag = topic_sys_flag(unit=unit_mode and not is_retry, unit_subscription=unit_mode and is_retry)
        template = self._topics.get(default_topic)
        if template is not None and self._may_inherit(template):
            queues = max(0, min(queue_count, template.write_queue_count))
            inherited = template.permission & ~permission.INHERIT
            self._creations.take("topic", topic)
            return self._create(TopicConfig(topic, queues, queues, inherited, template.filter_type, sys_flag))
        if is_retry:
            self._creations.take("topic", topic)
            return self._create(TopicConfig(topic, 1, 1, READ_WRITE, sys_flag=sys_flag))
        # Not louder: the client gets a response, and may repeat the request with every message.
        logger.debug("topic not created, no usable template topic=%s template=%s", topic, default_topic)
        return None

    def create_on_send_back(
        self, topic: str, queue_count: int, permission: int = READ_WRITE, sys_flag: int = 0
    ) -> TopicConfig:
        """The topic, created if it does not exist: retry topics, dead letters, topics of transactions. Raises LimitReached for a retry topic."""
        found = self._topics.get(topic)
        if found is not None:
            return found
        if names.is_retry_topic(topic):
            self._creations.take("topic", topic)
        return self._create(TopicConfig(topic, queue_count, queue_count, permission, sys_flag=sys_flag))

    def put(self, config: TopicConfig) -> None:
        """Creates the topic or replaces its settings (UPDATE_AND_CREATE_TOPIC). The caller notifies the name servers."""
        event = "updated" if config.name in self._topics else "created"
        self._store({**self._topics, config.name: config}, config.name)
        logger.info(
            "topic %s topic=%s read_queues=%d write_queues=%d permission=%s",
            event, config.name, config.read_queue_count, config.write_queue_count,
            permission.permission_text(config.permission),
        )  # fmt: skip

    def delete(self, name: str) -> bool:
        """Removes the topic. Returns whether it existed. Dispatch drops its queues."""
        if name not in self._topics:
            return False
        self._store({key: topic for key, topic in self._topics.items() if key != name}, name)
        logger.info("topic deleted topic=%s", name)
        return True

    def set_ordered(self, ordered: Iterable[str]) -> None:
        """Makes exactly these topics ordered, as in a name server's ORDER_TOPIC_CONFIG (remoting spec 3.3)."""
        wanted = frozenset(ordered)
        changed = {
            name: replace(topic, order=name in wanted)
            for name, topic in self._topics.items()
            if topic.order != (name in wanted)
        }
        if changed:
            self._store({**self._topics, **changed}, None)
            logger.info("ordered topics changed topics=%s", ",".join(sorted(changed)))

    def options_changed(self, keys: frozenset[str]) -> None:
        """Creates the template for topics created by sends, if `autoCreateTopicEnable` has just been set and the broker started without it."""
        name = names.AUTO_CREATE_TOPIC
        if "autoCreateTopicEnable" not in keys or not self._config.auto_create_topic_enable or name in self._topics:
            return
        try:
            self._create(_auto_create_template(self._config))
        except OSError as error:
            logger.warning("topic not created topic=%s error=%r", name, str(error))

    def raise_version(self) -> None:
        """Increments the version for a change of the registered topics that is not in the table: the broker's permission."""
        self._store(self._topics, None)

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _may_inherit(self, template: TopicConfig) -> bool:
        # compat: TBW102 may still be in the file of a broker whose auto-creation has been disabled since.
        if template.name == names.AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            return False
        return permission.is_inherited(template.permission)

    def _create(self, config: TopicConfig) -> TopicConfig:
        self._store({**self._topics, config.name: config}, config.name)
        logger.info("topic created topic=%s queues=%d", config.name, config.write_queue_count)
        for listener in self._created_listeners:
            listener(config.name)
        return config

    def _store(self, topics: dict[str, TopicConfig], changed: str | None) -> None:
        if topics.keys() - self._topics.keys():
            for prepare in self._before_creating:
                prepare()
        version = self._version.next()
        # order: the file first. If it cannot be written nothing has changed, and the request is refused.
        self._file.save(file_text(TOPICS, topics, version))
        self._topics, self._version = topics, version
        for listener in self._listeners:
            listener(changed)


def born_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The default topics of a new broker (remoting spec 4.2)."""
    template = READ_WRITE | permission.INHERIT
    topics = [
        TopicConfig(names.SELF_TEST_TOPIC, 1, 1),
        TopicConfig(names.BENCHMARK_TOPIC, 1024, 1024),
        TopicConfig(
            config.broker_cluster_name, 16, 16, template if config.cluster_topic_enable else permission.INHERIT
        ),
        TopicConfig(config.broker_name, 1, 1, template if config.broker_topic_enable else permission.INHERIT),
        TopicConfig(names.OFFSET_MOVED_EVENT_TOPIC, 1, 1),
        TopicConfig(names.SCHEDULE_TOPIC, SCHEDULE_TOPIC_QUEUES, SCHEDULE_TOPIC_QUEUES),
        TopicConfig(config.reply_topic, 1, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_auto_create_template(config))
    if config.trace_topic_enable:
        topics.append(TopicConfig(config.msg_trace_topic_name, 1, 1))
    return topics


def _auto_create_template(config: BrokerConfig) -> TopicConfig:
    queues = config.default_topic_queue_nums
    return TopicConfig(names.AUTO_CREATE_TOPIC, queues, queues, READ_WRITE | permission.INHERIT)


def system_topics(config: BrokerConfig) -> frozenset[str]:
    """The system topics: those of every broker, and those with its names."""
    own = {config.broker_cluster_name, config.broker_name, config.reply_topic}
    if config.trace_topic_enable:
        own.add(config.msg_trace_topic_name)
    return names.SYSTEM_TOPICS | own
