"""The brokers that `appliance.toml` lists: `brokers = 3`, or a table for each.

::

    [[broker]]
    name = "broker-a"          # default: broker-a, broker-b, … by position
    port = 10911               # listenPort; default: ten above the broker before it
    conf = "broker-a.conf"     # its broker.conf; a relative path starts at the folder of appliance.toml
    store = "broker-a/store"   # its store; a relative path starts at the data folder; default: NAME/store
    brokerId = 0               # and any other key of broker.conf

Values are read as text here; `configuration` parses the options and compares the brokers.
"""

import os
import re
import string
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from appliance.errors import ConfigurationError
from headrace.model.option import format_value, nearest_key

MOST_BROKERS: Final = 26  # limit: one default name for each letter; each broker uses more than one processor core
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")  # limit: it is part of every log line
_TAKEN: Final = frozenset({"logs", "namesrv", "store", "lock", "logger", "nameserver", "console", "tls", "exports"})
"""Names used by entries of the data folder and by the appliance's own roles."""
_OWN_KEYS: Final = ("name", "port", "conf", "store")


class BrokerEntry(Struct, frozen=True):
    """One listed broker. `options` are keys of broker.conf as text; `source` names the entry in error messages."""

    name: str
    source: str
    conf: str | None
    store: str
    options: Mapping[str, str]


def read_broker_list(values: Mapping[str, Any], path: str, known: Collection[str]) -> list[BrokerEntry]:
    """The brokers in the values of an `appliance.toml`; none if it lists none. `known`: the keys of broker.conf.

    Raises ConfigurationError.
    """
    count, tables = values.get("brokers"), values.get("broker")
    if count is None and tables is None:
        return []
    if count is not None and tables is not None:
        raise ConfigurationError(f"{path}: brokers and [[broker]] are mutually exclusive; remove one of them")
    if tables is None:
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_BROKERS:
            raise ConfigurationError(f"{path}: brokers={count}: expected a number from 1 to {MOST_BROKERS}")
        tables = [{} for _ in range(count)]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"{path}: broker: expected tables that start with the line [[broker]]")
    if not 1 <= len(tables) <= MOST_BROKERS:
        raise ConfigurationError(f"{path}: {len(tables)} [[broker]] tables; expected 1 to {MOST_BROKERS}")
    entries = [_entry(table, position, path, known) for position, table in enumerate(tables)]
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"{path}: {names.count(name)} [[broker]] tables are named {name}; give each its own name "
                f"(a master and its slave share brokerName, not name)"
            )
    return entries


def _entry(table: Mapping[str, Any], position: int, path: str, known: Collection[str]) -> BrokerEntry:
    name = table.get("name", f"broker-{string.ascii_lowercase[position]}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{path}: [[broker]] name={name}: expected up to 40 letters, digits, '.', '_' or '-', starting with a letter or digit"
        )
    if name in _TAKEN:
        raise ConfigurationError(f"{path}: [[broker]] name={name} is reserved; choose another name")
    source = f"{path}: [[broker]] {name}"
    for key, value in table.items():
        if key not in known and key not in _OWN_KEYS:
            near = nearest_key(key, (*known, *_OWN_KEYS))
            raise ConfigurationError(f"{source}: unknown key {key}" + (f" (did you mean {near}?)" if near else ""))
        if not isinstance(value, str | int | float | bool):
            raise ConfigurationError(f"{source}: {key}: expected a single value")
    if "port" in table and "listenPort" in table:
        raise ConfigurationError(f"{source}: port and listenPort are the same option; remove one of them")
    options = {key: format_value(value) for key, value in table.items() if key not in _OWN_KEYS}
    if "port" in table:
        options["listenPort"] = format_value(table["port"])
    conf = table.get("conf")
    return BrokerEntry(
        name=name,
        source=source,
        conf=None if conf is None else os.path.join(os.path.dirname(os.path.abspath(path)), str(conf)),
        store=str(table.get("store", "")),
        options=options,
    )
