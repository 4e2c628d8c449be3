"""What the console shows of the appliance's own servers: each option with its value at the start, and where that comes from."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from appliance.effective_configuration import Configuration
from headrace.model.option import format_value, help_of, is_changeable_by_request, key_of
from web.config import OptionOrigin, OwnOption, OwnServer

_OTHER_OPTIONS: Final = frozenset({"host", "nameserverPort", "rocketmqHome", "the port of the previous broker"})
"""Sources from which a value is derived."""


def own_servers(configuration: Configuration) -> dict[str, OwnServer]:
    """The servers by the addresses under which tools find them."""
    servers: dict[str, OwnServer] = {}
    port = configuration.appliance.nameserver_port
    for each in configuration.brokers:
        options = _options((each.broker, each.store), each.sources)
        servers[each.broker.address] = OwnServer(options, str(each.broker_conf or ""))
        if configuration.appliance.nameserver_enable:
            of_nameserver = OwnServer(_options((configuration.nameserver,), configuration.nameserver_sources))
            for host in ("127.0.0.1", configuration.host, each.broker.address.rpartition(":")[0]):
                servers[f"{host}:{port}"] = of_nameserver
    return servers


def _options(configurations: tuple[Any, ...], sources: Mapping[str, str]) -> dict[str, OwnOption]:
    return {
        key_of(field): OwnOption(
            format_value(getattr(configuration, field.name)),
            _origin(sources.get(key_of(field), "")),
            _absolute(sources.get(key_of(field), "")),
            is_changeable_by_request(field),
            help_of(field),
        )
        for configuration in configurations
        for field in fields(configuration)
    }


def _origin(source: str) -> OptionOrigin:
    if not source:
        return OptionOrigin.DEFAULT
    if source.startswith("--"):
        return OptionOrigin.COMMAND_LINE
    return OptionOrigin.DERIVED if source in _OTHER_OPTIONS else OptionOrigin.FILE


def _absolute(source: str) -> str:
    return os.path.realpath(source) if os.path.isfile(source) else source
