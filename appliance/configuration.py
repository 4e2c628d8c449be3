"""From files, flags and `--set` to the option dataclasses: one `Configuration`, or one clear line.

For each key the strongest source counts: a flag, then `--set`, then its file, then the default. `broker.conf` holds the keys
of broker and store as Apache's has them; what we do not know there is a warning that names the nearest known key. In
`appliance.toml` and `--set` it is an error. A `storePathRootDir` that is not DIR/store is an error, never a new empty store.

Nothing is written here and no role is started; `headrace config check` runs the same code.
"""

import os
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from appliance.config import ApplianceConfig
from appliance.errors import ConfigurationError
from appliance.paths import AppliancePaths
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.errors import RemoteProtocolError
from headrace.model.option import format_value, from_mapping, is_changeable, keys_of, nearest_key, parse_value
from headrace.protocol.bodies.properties_text import decode_properties_text
from nameserver.config import NameServerConfig
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig
from store.errors import BadStoreConfig
from store.paths import StorePaths

T = TypeVar("T")
C = TypeVar("C", BrokerConfig, StoreConfig)

_UNUSED = {**BROKER_UNUSED, **STORE_UNUSED}
_WILDCARDS = ("0.0.0.0", "::", "")


class Given(NamedTuple):
    """An option's text and where it was given."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look: what the flags of `headrace run` say, None where one is not given."""

    data: str = "./data"
    broker_conf: str | None = None
    appliance_toml: str | None = None
    nameserver_conf: str | None = None
    settings: Sequence[str] = ()
    host: str | None = None
    nameserver_port: int | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that the roles are told, checked."""

    paths: AppliancePaths
    appliance: ApplianceConfig
    broker: BrokerConfig
    store: StoreConfig
    nameserver: NameServerConfig
    broker_conf: Path | None = None
    """The file that was given with -c: the broker writes options into it that are changed by request."""
    warnings: list[str] = field(default_factory=list)

    @property
    def store_paths(self) -> StorePaths:
        """The store's files; the CommitLog may lie elsewhere (storePathCommitLog)."""
        return self.store.paths()

    @property
    def host(self) -> str:
        """The address that all roles listen on."""
        return self.appliance.host

    @property
    def nameserver_addresses(self) -> list[str]:
        """The name servers that the broker registers with: those of namesrvAddr, else the appliance's own."""
        return list(self.broker.name_servers)


def read_configuration(sources: Sources) -> Configuration:
    """The configuration that `sources` give together. Raises ConfigurationError, whose text names source and key."""
    warnings: list[str] = []
    paths = AppliancePaths(os.path.abspath(sources.data))
    broker_keys, store_keys, appliance_keys = keys_of(BrokerConfig), keys_of(StoreConfig), keys_of(ApplianceConfig)

    given: dict[str, Given] = {}
    if sources.broker_conf is not None:
        given.update(_read_broker_conf(sources.broker_conf, {**broker_keys, **store_keys}, warnings))
    if sources.appliance_toml is not None:
        given.update(_read_toml(sources.appliance_toml, appliance_keys))
    given.update(_read_settings(sources.settings, {**broker_keys, **store_keys, **appliance_keys}, warnings))
    for key, flag, value in (
        ("host", "--host", sources.host),
        ("brokerIP1", "--host", _announced(sources.host)),
        ("nameserverPort", "--nameserver-port", sources.nameserver_port),
        ("listenPort", "--port", sources.port),
    ):
        if value is not None:
            given[key] = Given(str(value), flag)

    nameserver = _nameserver(sources, given, warnings)
    appliance = _make(ApplianceConfig, given)
    announced = _announced(appliance.host)
    if "brokerIP1" not in given and announced is not None:
        given["brokerIP1"] = Given(announced, "host")
    if "namesrvAddr" not in given and appliance.nameserver_enable:
        local = "127.0.0.1" if appliance.host in _WILDCARDS else appliance.host
        given["namesrvAddr"] = Given(f"{local}:{appliance.nameserver_port}", "nameserverPort")
    _place_store(given, paths)
    broker = _make(BrokerConfig, given)
    _check_ports(broker, appliance)
    store = _make(StoreConfig, given)
    _check_store(store)
    broker_conf = None if sources.broker_conf is None else Path(sources.broker_conf).resolve()
    return Configuration(paths, appliance, broker, store, nameserver, broker_conf, warnings)


def read_changes(configuration: Configuration, sources: Sources) -> Configuration:
    """The same configuration with what may be changed at run time as `sources` say it now: for a role that is started again.

    Everything else stays as it was, whatever has been written into the files meanwhile: the roles must agree. Raises
    ConfigurationError.
    """
    now = read_configuration(sources)
    return replace(
        configuration,
        broker=_take_changeable(configuration.broker, now.broker),
        store=_take_changeable(configuration.store, now.store),
    )


def _take_changeable(old: C, new: C) -> C:
    names = [field.name for field in fields(old) if is_changeable(field)]
    return replace(old, **{name: getattr(new, name) for name in names})


def _announced(host: str | None) -> str | None:
    """The address that clients are told when we listen on `host`; None where that would not help them."""
    if host is None or host in _WILDCARDS:
        return None
    try:
        # A record's store host is an address, never a name; of several the IPv4 one, which every client can use.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ConfigurationError(f"host={host}: {error.strerror}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def check_file(path: str) -> list[str]:
    """Warnings about one file: appliance.toml by its ending, otherwise broker.conf. Raises ConfigurationError."""
    if path.endswith(".toml"):
        _make(ApplianceConfig, _read_toml(path, keys_of(ApplianceConfig)))
        return []
    warnings: list[str] = []
    given = _read_broker_conf(path, {**keys_of(BrokerConfig), **keys_of(StoreConfig)}, warnings)
    _make(BrokerConfig, given)
    _check_store(_make(StoreConfig, given))
    return warnings


def _make(configuration: type[T], given: Mapping[str, Given]) -> T:
    """One dataclass out of what was given. Each value is parsed by itself first, so that the error names its source."""
    known = keys_of(configuration)
    for key, (text, source) in given.items():
        if key in known:
            _try(source, lambda key=key, text=text: parse_value(known[key], text))  # type: ignore[misc]
    return _try("configuration", lambda: from_mapping(configuration, {key: text for key, (text, _) in given.items()}))


def _try(source: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise ConfigurationError(f"{source}: {error}") from error


def _check_store(store: StoreConfig) -> None:
    try:
        store.check()
        store.paths()
    except BadStoreConfig as error:
        raise ConfigurationError(str(error)) from error


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _read_properties(path: str) -> dict[str, str]:
    try:
        return decode_properties_text(_read_text(path))
    except RemoteProtocolError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _read_broker_conf(path: str, known: Mapping[str, Any], warnings: list[str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for key, text in _read_properties(path).items():
        if key in known:
            given[key] = Given(text.strip(), path)
        elif key in _UNUSED:
            warnings.append(f"{path}: {key} has no effect: {_UNUSED[key]}")
        else:
            warnings.append(f"{path}: {_unknown(key, (*known, *_UNUSED))}; it is ignored")
    return given


def _read_toml(path: str, known: Mapping[str, Any]) -> dict[str, Given]:
    try:
        values = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    for key, value in values.items():
        if key not in known:
            raise ConfigurationError(f"{path}: {_unknown(key, known)}")
        if not isinstance(value, str | int | float | bool):
            raise ConfigurationError(f"{path}: {key}: expected a single value")
    return {key: Given(format_value(value), path) for key, value in values.items()}


def _read_settings(settings: Iterable[str], known: Mapping[str, Any], warnings: list[str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals:
            raise ConfigurationError(f"--set {setting}: expected KEY=VALUE")
        if key in known:
            given[key] = Given(text.strip(), f"--set {key}")
        elif key in _UNUSED:
            warnings.append(f"--set {key}: it has no effect: {_UNUSED[key]}")
        else:
            raise ConfigurationError(f"--set {setting}: {_unknown(key, known)}")
    return given


def _unknown(key: str, known: Iterable[str]) -> str:
    near = nearest_key(key, known)
    return f"unknown key {key}" + (f" (did you mean {near}?)" if near else "")


def _nameserver(sources: Sources, given: dict[str, Given], warnings: list[str]) -> NameServerConfig:
    """The name server's configuration. Its listenPort is our nameserverPort; the stronger of the two sources counts."""
    path = sources.nameserver_conf
    texts = {} if path is None else _read_properties(path)
    keys = keys_of(NameServerConfig)
    if path is not None:
        warnings.extend(f"{path}: {_unknown(key, keys)}; it is ignored" for key in texts if key not in keys)
        if "listenPort" in texts and "nameserverPort" not in given:
            given["nameserverPort"] = Given(texts["listenPort"].strip(), path)
    return _make(NameServerConfig, {key: Given(text.strip(), str(path)) for key, text in texts.items()})


def _place_store(given: dict[str, Given], paths: AppliancePaths) -> None:
    """Make storePathRootDir what --data says, or refuse when it says something else."""
    said = given.get("storePathRootDir")
    if said is not None and os.path.realpath(said.text) != os.path.realpath(paths.store):
        hint = f"use --data {os.path.dirname(said.text)}" if os.path.basename(said.text) == "store" else "take it out"
        raise ConfigurationError(
            f"{said.source}: storePathRootDir={said.text}, but the store of --data {paths.data} is {paths.store}: {hint}"
        )
    given["storePathRootDir"] = Given(paths.store, "--data")


def _check_ports(broker: BrokerConfig, appliance: ApplianceConfig) -> None:
    ports = {"listenPort": broker.listen_port, "the VIP channel": broker.fast_port, "HA": broker.listen_port + 1}
    for what, port in ports.items():
        if not 1 <= port <= 65_535:
            raise ConfigurationError(f"listenPort={broker.listen_port}: {what} would be port {port}")
        if appliance.nameserver_enable and port == appliance.nameserver_port:
            raise ConfigurationError(f"port {port} is asked for twice: nameserverPort and {what}")
