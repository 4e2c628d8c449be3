"""Reloads the configuration at SIGHUP: what may change while the appliance runs, from the same files and flags as at the start.

- `logLevel`, in every process.
- The options of a broker that requests may change (UPDATE_BROKER_CONFIG).

Accounts and certificates are not part of this: whoever uses them watches their files. An invalid configuration changes nothing. One log line
names what was reloaded and what is changed in the files but needs a restart.

The supervisor reads and compares; roles find the changes on a page in shared memory (`ipc.reload_page`).
"""

import logging
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from appliance.configuration_reader import Sources, read_configuration
from appliance.effective_configuration import Configuration
from appliance.errors import ConfigurationError
from headrace.model.option import format_value, is_changeable_by_request, keys_of
from ipc.reload_page import ReloadPage

_LOG_LEVEL = "logLevel"

logger = logging.getLogger(__name__)


class _Options(Struct, frozen=True):
    """The options of one part of the appliance: a broker, by its name, or a part that serves all of them."""

    texts: Mapping[str, str]
    reloadable: frozenset[str] = field(default_factory=frozenset)


class Reloader:
    """In the supervisor: knows what is in force and compares the files with it."""

    def __init__(self, sources: Sources, configuration: Configuration, page: ReloadPage) -> None:
        self._sources = sources
        self._page = page
        self._in_force = {part: dict(options.texts) for part, options in _options_of(configuration).items()}
        self._reloaded: dict[str, dict[str, str]] = {}

    def reload(self) -> str:
        """Read the configuration again. Returns the result in one line, which is also in the log."""
        try:
            now = _options_of(read_configuration(self._sources))
            changes, needs_restart = self._compare(now)
            reloaded = {part: {**self._reloaded.get(part, {}), **texts} for part, texts in changes.items()}
            self._page.store(self._reloaded | reloaded)
        except (ConfigurationError, ValueError) as error:
            logger.error("configuration not reloaded error=%r", str(error))
            return f"configuration not reloaded, nothing was changed: {error}"
        self._reloaded |= reloaded
        for part, texts in changes.items():
            self._in_force[part] |= texts
        logging.getLogger().setLevel(self._in_force[""][_LOG_LEVEL].upper())
        changed = " ".join(
            sorted(f"{_shown(part, key)}={text}" for part, texts in changes.items() for key, text in texts.items())
        )
        restart = " ".join(sorted(needs_restart))
        logger.info("configuration reloaded changed=%r needs_restart=%r", changed, restart)
        return f"configuration reloaded; changed: {changed or 'nothing'}; requires a restart: {restart or 'nothing'}"

    def _compare(self, now: Mapping[str, _Options]) -> tuple[dict[str, dict[str, str]], set[str]]:
        """The changes that can be made, by part, and the options that need a restart."""
        changes: dict[str, dict[str, str]] = {}
        needs_restart = {f"[[broker]] {part}" for part in now.keys() ^ self._in_force.keys()}
        for part, options in now.items():
            before = self._in_force.get(part, options.texts)
            for key, text in options.texts.items():
                if text == before[key]:
                    continue
                if key in options.reloadable:
                    changes.setdefault(part, {})[key] = text
                else:
                    needs_restart.add(_shown(part, key))
        return changes, needs_restart


class ReloadedSettings:
    """In a role: applies the log level, and passes the options of its broker on."""

    def __init__(self, page: ReloadPage, broker: str = "") -> None:
        self._page = page
        self._broker = broker
        self._level_version = self._options_version = page.version_at_fork

    def follow_log_level(self) -> None:
        """Called with each heartbeat."""
        if self._page.version != self._level_version:
            self._level_version, parts = self._page.read()
            level = parts.get("", {}).get(_LOG_LEVEL)
            if level is not None:
                logging.getLogger().setLevel(level.upper())

    def take_options(self) -> Mapping[str, str]:
        """The options of its broker that were changed by reloads, once after each reload."""
        if self._page.version == self._options_version:
            return {}
        self._options_version, parts = self._page.read()
        options: dict[str, str] = parts.get(self._broker, {})
        return options


def current_log_level(page: ReloadPage, first: str) -> str:
    """The level for a process that starts now; `first` is that of the start of the appliance."""
    _, parts = page.read()
    level: str = (parts or {}).get("", {}).get(_LOG_LEVEL, first)
    return level


def _options_of(configuration: Configuration) -> dict[str, _Options]:
    """All options as text, by part."""
    parts = {
        "": _Options(_texts(configuration.appliance), frozenset({_LOG_LEVEL})),
        "nameserver": _Options(_texts(configuration.nameserver)),
        "console": _Options(_texts(configuration.console)),
        "tlsConfigFile": _Options({"settings": repr(configuration.tls)}),
    }
    for broker in configuration.brokers:
        both = (broker.broker, broker.store)
        parts[broker.name] = _Options(
            {key: text for part in both for key, text in _texts(part).items()},
            frozenset(
                key for part in both for key, one in keys_of(type(part)).items() if is_changeable_by_request(one)
            ),
        )
    return parts


def _texts(part: Any) -> dict[str, str]:
    return {key: format_value(getattr(part, one.name)) for key, one in keys_of(type(part)).items()}


def _shown(part: str, key: str) -> str:
    return f"{part}/{key}" if part else key
