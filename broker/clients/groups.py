"""GroupTable: the settings of consumer groups, kept in `config/subscriptionGroup.json`.

The file has RocketMQ's format; changes are on disk before the response. A new broker has seven groups, and others are created at their
first request, if that is allowed (remoting spec 4.2). SubscriptionGroupConfigs are immutable.
"""

import logging
from collections.abc import Callable, Mapping

from broker.config import BrokerConfig
from broker.json_file import JsonFile
from broker.table_text import GROUPS, file_text, wire_text
from broker.topics.creation_limit import CreationLimit
from headrace.model import names
from headrace.model.data_version import DataVersion
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.bodies.tables import SubscriptionGroupWrapper

logger = logging.getLogger(__name__)


class GroupTable:
    """Finds, creates, replaces and deletes groups. Used only in the broker's event loop."""

    def __init__(self, json_file: JsonFile, config: BrokerConfig, creations: CreationLimit | None = None) -> None:
        """Reads the file. Raises ConfigFileUnreadable. `creations` limits the groups that clients create."""
        self._file = json_file
        self._config = config
        self._creations = creations or CreationLimit(config.max_topics_created_per_minute)
        self._groups = {group: SubscriptionGroupConfig(group) for group in names.SYSTEM_GROUPS}
        self._listeners: list[Callable[[str | None], None]] = []
        stored = json_file.load(SubscriptionGroupWrapper.decode) or SubscriptionGroupWrapper(DataVersion())
        self._groups.update(stored.subscription_group_table)
        self._version = stored.data_version

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's settings, created with defaults if it is new and that is allowed; otherwise None (remoting spec 4.2). Raises LimitReached."""
        found = self._groups.get(group)
        if found is not None:
            return found
        if not (self._config.auto_create_subscription_group or names.is_system_group(group)):
            return None
        if not names.is_system_group(group):
            self._creations.take("consumer group", group)
        created = SubscriptionGroupConfig(group)
        self._store({**self._groups, group: created}, group)
        logger.info("group created group=%s", group)
        return created

    def all(self) -> Mapping[str, SubscriptionGroupConfig]:
        """Every group by name: a snapshot, which later changes do not affect."""
        return self._groups

    def wire_text(self) -> str:
        """The whole table with its version, as in responses."""
        return wire_text(GROUPS, self._groups, self._version)

    @property
    def data_version(self) -> DataVersion:
        """When the table last changed."""
        return self._version

    def on_change(self, listener: Callable[[str | None], None]) -> None:
        """Calls `listener` with the name of each group that is created, replaced or deleted; None: any may have changed."""
        self._listeners.append(listener)

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Creates the group or replaces its settings (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)."""
        event = "updated" if config.group_name in self._groups else "created"
        self._store({**self._groups, config.group_name: config}, config.group_name)
        logger.info("group %s group=%s consume_enable=%s", event, config.group_name, config.consume_enable)

    def delete(self, group: str) -> bool:
        """Deletes the group, but not its offsets. Returns whether it existed."""
        if group not in self._groups:
            return False
        self._store({name: config for name, config in self._groups.items() if name != group}, group)
        logger.info("group deleted group=%s", group)
        return True

    def _store(self, groups: dict[str, SubscriptionGroupConfig], changed: str) -> None:
        version = self._version.next()
        # order: the file first. If it cannot be written nothing has changed, and the request is refused.
        self._file.save(file_text(GROUPS, groups, version))
        self._groups, self._version = groups, version
        for listener in self._listeners:
            listener(changed)
