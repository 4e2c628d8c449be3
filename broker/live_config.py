"""LiveConfig: changes options while the broker runs.

BrokerConfig and StoreConfig are frozen everywhere else. Changes are made in the objects shared by all parts of this process, so
each sees the new value at its next access; parts with values derived from an option listen with `on_change`. Other processes are
notified by `announce`, which increments config_version. A change is written to broker.conf, if there is one, before it takes effect.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from broker.broker_conf import BrokerConf
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.model.data_version import DataVersion
from headrace.model.option import (
    change_options,
    format_value,
    is_changeable,
    is_changeable_by_request,
    keys_of,
    nearest_key,
    parse_value,
)
from ipc.changed_options import has_room
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig
from store.errors import BadStoreConfig
from store.filter.bloom import BloomFilter

logger = logging.getLogger(__name__)


class LiveConfig:
    """Both configurations by RocketMQ's keys."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        announce: Callable[[Mapping[str, str]], object],
        broker_conf: BrokerConf | None = None,
        changed_before: Mapping[str, str] | None = None,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        """`announce` publishes all changes since the start of the appliance to other processes, by key.

        `changed_before` has the changes announced by a predecessor in this appliance, which stay valid. `fixed`: the shown values of
        RocketMQ's options without effect here.
        """
        self._broker = broker
        self._store = store
        self._announce = announce
        self._broker_conf = broker_conf
        self._fixed = dict(fixed or {})
        self._bit_map_length = BloomFilter(
            broker.max_error_rate_of_bloom_filter, broker.expect_consumer_num_use_filter
        ).bit_count
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._version = DataVersion()
        self._changed = dict(changed_before or {})
        for part in (broker, store):
            change_options(part, self._changed)

    @property
    def data_version(self) -> DataVersion:
        """When an option was last changed."""
        return self._version

    @property
    def is_kept(self) -> bool:
        """Whether changes are stored: there is a broker.conf."""
        return self._broker_conf is not None

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Calls `listener` with the keys of options after they have changed."""
        self._listeners.append(listener)

    def texts(self) -> dict[str, str]:
        """Every option with a value, by key; options without one are omitted, as in RocketMQ."""
        return (
            self._fixed
            | {
                key: format_value(value)
                for configuration in (self._broker, self._store)
                for key, field in keys_of(type(configuration)).items()
                if (value := getattr(configuration, field.name)) not in (None, "")
            }
            | {
                "haListenPort": str(self._broker.listen_port + 1),
                "storePathCommitLog": str(self._store.paths().commit_log),
                "bitMapLengthConsumeQueueExt": str(self._bit_map_length),
            }
        )

    def black_list(self) -> frozenset[str]:
        """Keys that requests cannot change."""
        own = (key.strip() for key in self._broker.config_black_list.split(";"))
        return frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList", *filter(None, own)})

    def problem(self, texts: Mapping[str, str]) -> str | None:
        """Why these options cannot be set, in one line with the remedy; None if they can."""
        for key, text in texts.items():
            problem = self._problem_of(key, text)
            if problem is not None:
                return problem
        store = dataclasses.replace(self._store)
        change_options(store, texts)
        try:
            store.check()
        except BadStoreConfig as error:
            return str(error)
        return None if has_room({**self._changed, **texts}) else "the values are too long together"

    def change(self, texts: Mapping[str, str]) -> frozenset[str]:
        """Sets the options, which `problem` has accepted; returns the keys whose value has changed.

        Raises OSError if broker.conf cannot be written; nothing has changed then.
        """
        return self._change(texts, self._broker_conf)

    def reload(self, texts: Mapping[str, str]) -> None:
        """Sets options that were read from the files again. Invalid together with the others, they are logged and nothing is changed."""
        problem = self.problem(texts)
        if problem is None:
            self._change(texts, None)
        else:
            logger.error("options not reloaded error=%r", problem)

    def _change(self, texts: Mapping[str, str], broker_conf: BrokerConf | None) -> frozenset[str]:
        """The same; with `broker_conf`, the changes are saved there first."""
        keys = frozenset(key for part in (self._broker, self._store) for key in self._changed_keys(part, texts))
        if not keys:
            return keys
        changes = {key: texts[key] for key in keys}
        if broker_conf is not None:
            broker_conf.set(changes)
        for part in (self._broker, self._store):
            change_options(part, changes)
        self._version = self._version.next()
        self._changed |= changes
        # order: after the file has changed, because restarted roles read it.
        self._announce(self._changed)
        for listener in self._listeners:
            listener(keys)
        logger.info("options changed %s", " ".join(f"{key}={texts[key]}" for key in sorted(keys)))
        return keys

    def _problem_of(self, key: str, text: str) -> str | None:
        fields = {**keys_of(BrokerConfig), **keys_of(StoreConfig)}
        if reason := BROKER_UNUSED.get(key) or STORE_UNUSED.get(key):
            return f"{key} has no effect here: {reason}"
        if key not in fields:
            near = nearest_key(key, fields)
            return f"unknown option {key}" + (f": did you mean {near}?" if near else "")
        try:
            value = parse_value(fields[key], text)
        except ValueError as error:
            return str(error)
        if is_changeable_by_request(fields[key]) or value == self._value_of(key):
            return None
        if is_changeable(fields[key]):
            return f"{key} cannot be changed by a request: set it in broker.conf and run: headrace restart broker"
        return f"{key} cannot be changed while the broker runs: set it in broker.conf and restart"

    def _value_of(self, key: str) -> Any:
        part = self._broker if key in keys_of(BrokerConfig) else self._store
        return getattr(part, keys_of(type(part))[key].name)

    @staticmethod
    def _changed_keys(part: BrokerConfig | StoreConfig, texts: Mapping[str, str]) -> frozenset[str]:
        """The options of one configuration whose value changes."""
        return change_options(dataclasses.replace(part), texts)
