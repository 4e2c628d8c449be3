"""Reads files, flags and `--set` into one `Configuration`, or fails with one clear line.

The precedence of sources is: flag, `--set`, file, default. `broker.conf` has the keys
of broker and store with Apache's names; an unknown key there is a warning that names the nearest known key. In
`appliance.toml` and `--set` it is an error. A `storePathRootDir` other than the broker's store is an error; it never creates an empty store.

An appliance has one broker, or those listed in `appliance.toml` (`broker_list`). `-c`, `--set` and `--host` apply to all of them;
a listed broker's own broker.conf and table override `-c`. `broker_conflicts` refuses brokers that use the same port, folder, file or identity.

This module writes nothing and starts no role; `headrace config check` runs the same code.
"""

import dataclasses
import os
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from appliance.broker_conflicts import check_conflicts
from appliance.broker_list import BrokerEntry, read_broker_list
from appliance.config import DEFAULT_TLS_CONFIG_FILE, ApplianceConfig
from appliance.effective_configuration import BrokerConfiguration, Configuration
from appliance.errors import ConfigurationError
from appliance.paths import AppliancePaths, BrokerPaths
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.errors import RemoteProtocolError
from headrace.model.option import format_value, from_mapping, is_changeable, keys_of, nearest_key, parse_value
from headrace.model.tls_settings import KEYS as TLS_KEYS
from headrace.model.tls_settings import TlsSettings, parse_tls_settings
from headrace.protocol.bodies.properties_text import decode_properties_text
from nameserver.config import NameServerConfig
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig
from store.errors import BadStoreConfig
from web.config import ConsoleConfig

T = TypeVar("T")
C = TypeVar("C", BrokerConfig, StoreConfig)

_UNUSED = {**BROKER_UNUSED, **STORE_UNUSED}
_WILDCARDS = ("0.0.0.0", "::", "")
_LISTS = ("broker", "brokers")
_OF_ALL_ROLES = ("tlsMode", "tlsConfigFile")
_SHARED = ("adminAllow", "allowUnauthenticatedAdmin")
"""Options given once for both broker and name server."""
_ONLY_BROKER = "broker"  # not brokerName, which a file may change while the appliance runs
PORT_SPACING = 10
"""Difference between the ports of listed brokers, so that VIP channels and HA ports (port - 2, port + 1) never collide."""


class Given(NamedTuple):
    """The text of an option and its source."""

    text: str
    source: str


class Sources(Struct, frozen=True):
    """The flags of `headrace run`; None if not given."""

    data: str = "./data"
    broker_conf: str | None = None
    appliance_toml: str | None = None
    nameserver_conf: str | None = None
    settings: Sequence[str] = ()
    host: str | None = None
    nameserver_port: int | None = None
    port: int | None = None
    console_port: int | None = None
    no_console: bool = False


def read_configuration(sources: Sources) -> Configuration:
    """Reads the configuration from all `sources`. Raises ConfigurationError, whose text names source and key."""
    warnings: list[str] = []
    paths = AppliancePaths(os.path.abspath(sources.data))
    broker_keys = {**keys_of(BrokerConfig), **keys_of(StoreConfig)}
    appliance_keys = {**keys_of(ApplianceConfig), **keys_of(ConsoleConfig)}

    weak: dict[str, Given] = {}
    entries: list[BrokerEntry] = []
    if sources.broker_conf is not None:
        weak.update(_read_broker_conf(sources.broker_conf, broker_keys, warnings))
    if sources.appliance_toml is not None:
        given, entries = _read_toml(sources.appliance_toml, appliance_keys, broker_keys)
        weak.update(given)
    strong = _read_settings(sources.settings, {**broker_keys, **appliance_keys}, warnings)
    for key, flag, value in (
        ("host", "--host", sources.host),
        ("brokerIP1", "--host", _announced(sources.host)),
        ("nameserverPort", "--nameserver-port", sources.nameserver_port),
        ("listenPort", "--port", sources.port),
        ("consolePort", "--console-port", sources.console_port),
        ("consoleEnable", "--no-console", "false" if sources.no_console else None),
    ):
        if value is not None:
            strong[key] = Given(str(value), flag)

    given = {**weak, **strong}
    nameserver, of_nameserver = _nameserver(sources, given, warnings)
    appliance = _make(ApplianceConfig, given)
    console = _make(ConsoleConfig, given)
    tls = _read_tls(appliance, paths, warnings)
    announced = _announced(appliance.host)
    if announced is not None:
        weak.setdefault("brokerIP1", Given(announced, "host"))
    if appliance.nameserver_enable:
        local = "127.0.0.1" if appliance.host in _WILDCARDS else appliance.host
        weak.setdefault("namesrvAddr", Given(f"{local}:{appliance.nameserver_port}", "nameserverPort"))

    is_only = len(entries) <= 1
    brokers: list[BrokerConfiguration] = []
    for entry in entries or [BrokerEntry("", "--data", None, "", {})]:
        own = _read_entry(entry, broker_keys, warnings)
        given = {**weak, **own, **strong}
        if entry.name:
            given.setdefault("brokerName", Given(entry.name, entry.source))
        if brokers:
            port = Given(str(brokers[-1].broker.listen_port + PORT_SPACING), "the port of the previous broker")
            given["listenPort"] = own.get("listenPort", port)
        # Options changed by requests belong to one broker: they are never written into a file that several read.
        file = entry.conf or (sources.broker_conf if is_only else None)
        place = paths.broker("" if is_only else entry.name, entry.store)
        _place_store(given, place, paths, entry)
        brokers.append(replace(_make_broker(entry.name, is_only, place, given, appliance, file), tls=tls))
    check_conflicts(brokers)
    if appliance.console_enable:
        _check_console_port(console, appliance, brokers)
    return Configuration(
        paths,
        appliance,
        nameserver,
        tuple(brokers),
        warnings,
        tls,
        console,
        _sources_of(of_nameserver),
        None if sources.appliance_toml is None else Path(sources.appliance_toml),
    )


def read_console(path: str | None, flags: Mapping[str, str | int | None]) -> ConsoleConfig:
    """The options of a console without an appliance, from a file with keys of the console, and flags, which override it; None: not given.

    Raises ConfigurationError.
    """
    given = {} if path is None else _read_toml(path, keys_of(ConsoleConfig), {})[0]
    given |= {key: Given(str(value), "command line") for key, value in flags.items() if value is not None}
    return _make(ConsoleConfig, given)


def _make_broker(
    name: str,
    is_only: bool,
    paths: BrokerPaths,
    given: Mapping[str, Given],
    appliance: ApplianceConfig,
    file: str | None,
) -> BrokerConfiguration:
    """The configuration of one broker, with each option validated separately."""
    broker = _make(BrokerConfig, given)
    store = _make(StoreConfig, given)
    try:
        _check_ports(broker, appliance)
        _check_store(store)
    except ConfigurationError as error:
        raise ConfigurationError(f"[[broker]] {name}: {error}" if name else str(error)) from error
    return BrokerConfiguration(
        name or _ONLY_BROKER,
        is_only,
        paths,
        appliance,
        broker,
        store,
        None if file is None else Path(file).resolve(),
        sources=_sources_of(given),
    )


def _sources_of(given: Mapping[str, Given]) -> dict[str, str]:
    return {key: source for key, (_, source) in given.items()}


def read_changes(configuration: BrokerConfiguration, sources: Sources) -> BrokerConfiguration:
    """The same configuration, with changeable options read again from `sources`: for a restarted role.

    All other options stay unchanged, whatever the files contain now, because the roles must agree. Raises
    ConfigurationError.
    """
    now = read_configuration(sources).find_broker(configuration.name)
    return replace(
        configuration,
        broker=_take_changeable(configuration.broker, now.broker),
        store=_take_changeable(configuration.store, now.store),
    )


def _take_changeable(old: C, new: C) -> C:
    names = [field.name for field in dataclasses.fields(old) if is_changeable(field)]
    return dataclasses.replace(old, **{name: getattr(new, name) for name in names})


def _announced(host: str | None) -> str | None:
    """The address given to clients if the appliance listens on `host`; None if they could not use it."""
    if host is None or host in _WILDCARDS:
        return None
    try:
        # The store host of a record is an address, not a name; IPv4 is preferred, because every client can use it.
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ConfigurationError(f"host={host}: {error.strerror}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class CheckedFile(Struct, frozen=True):
    """A file without errors. An appliance.toml has brokers, a broker.conf none."""

    warnings: list[str]
    brokers: tuple[BrokerConfiguration, ...] = ()


def check_file(path: str, data: str = "./data") -> CheckedFile:
    """Checks one file: appliance.toml by its ending, otherwise broker.conf. `data`: the data folder. Raises ConfigurationError."""
    if path.endswith(".toml"):
        configuration = read_configuration(Sources(data=data, appliance_toml=path))
        return CheckedFile(configuration.warnings, configuration.brokers)
    warnings: list[str] = []
    given = _read_broker_conf(path, {**keys_of(BrokerConfig), **keys_of(StoreConfig)}, warnings)
    _make(BrokerConfig, given)
    _check_store(_make(StoreConfig, given))
    return CheckedFile(warnings)


def _make(configuration: type[T], given: Mapping[str, Given]) -> T:
    """Creates a dataclass of options. Each value is first parsed separately, so that an error names its source."""
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


def _read_tls(appliance: ApplianceConfig, paths: AppliancePaths, warnings: list[str]) -> TlsSettings:
    """The settings of tlsConfigFile. Certificates and keys that it names are read, so that an error ends the start."""
    path = appliance.tls_config_file
    if not path and os.path.exists(DEFAULT_TLS_CONFIG_FILE):
        path = DEFAULT_TLS_CONFIG_FILE
    texts = _read_properties(path) if path else {}
    warnings.extend(f"{path}: {_unknown(key, TLS_KEYS)}; ignored" for key in texts if key not in TLS_KEYS)
    source = path or "configuration"
    settings = _try(source, lambda: parse_tls_settings(texts, appliance.tls_mode, paths.self_made_certificate))
    if settings.server.files or settings.client.files:
        from headrace.remoting import tls_context  # noqa: PLC0415  OpenSSL is loaded only where certificates are configured

        _try(source, lambda: tls_context.check_files(settings))
    return settings


def _read_broker_conf(path: str, known: Mapping[str, Any], warnings: list[str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for key, text in _read_properties(path).items():
        if key in known:
            given[key] = Given(text.strip(), path)
        elif key in _UNUSED:
            warnings.append(f"{path}: {key} has no effect: {_UNUSED[key]}")
        elif key in _OF_ALL_ROLES:
            # An ignored key would leave ports open that its author believes to be protected.
            raise ConfigurationError(f"{path}: {key} applies to all roles; set it in appliance.toml or with --set")
        else:
            warnings.append(f"{path}: {_unknown(key, (*known, *_UNUSED))}; ignored")
    return given


def _read_toml(
    path: str, known: Mapping[str, Any], broker_keys: Mapping[str, Any]
) -> tuple[dict[str, Given], list[BrokerEntry]]:
    try:
        values = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    entries = read_broker_list(values, path, broker_keys)
    values = {key: value for key, value in values.items() if key not in _LISTS}
    for key, value in values.items():
        if key not in known:
            raise ConfigurationError(f"{path}: {_unknown(key, (*known, *_LISTS))}")
        if not isinstance(value, str | int | float | bool):
            raise ConfigurationError(f"{path}: {key}: expected a single value")
    return {key: Given(format_value(value), path) for key, value in values.items()}, entries


def _read_entry(entry: BrokerEntry, known: Mapping[str, Any], warnings: list[str]) -> dict[str, Given]:
    """The options of a listed broker: its broker.conf, overridden by its table."""
    given = {} if entry.conf is None else _read_broker_conf(entry.conf, known, warnings)
    given.update((key, Given(text, entry.source)) for key, text in entry.options.items())
    return given


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
            warnings.append(f"--set {key} has no effect: {_UNUSED[key]}")
        else:
            raise ConfigurationError(f"--set {setting}: {_unknown(key, known)}")
    return given


def _unknown(key: str, known: Iterable[str]) -> str:
    near = nearest_key(key, known)
    return f"unknown key {key}" + (f" (did you mean {near}?)" if near else "")


def _nameserver(
    sources: Sources, given: dict[str, Given], warnings: list[str]
) -> tuple[NameServerConfig, dict[str, Given]]:
    """The name server's configuration, and what was given for it. Its listenPort is nameserverPort; the source with the higher precedence applies.

    What is not in its file of who may administer it is as in the brokers' configuration.
    """
    path = sources.nameserver_conf
    texts = {} if path is None else _read_properties(path)
    keys = keys_of(NameServerConfig)
    if path is not None:
        warnings.extend(f"{path}: {_unknown(key, keys)}; ignored" for key in texts if key not in keys)
        if "listenPort" in texts and "nameserverPort" not in given:
            given["nameserverPort"] = Given(texts["listenPort"].strip(), path)
    shared = {key: given[key] for key in _SHARED if key in given}
    own = shared | {key: Given(text.strip(), str(path)) for key, text in texts.items()}
    return _make(NameServerConfig, own), own


def _place_store(given: dict[str, Given], broker: BrokerPaths, paths: AppliancePaths, entry: BrokerEntry) -> None:
    """Set storePathRootDir to the broker's store; any other value is refused. rocketmqHome is the broker's folder by default."""
    if os.path.realpath(broker.store) == os.path.realpath(paths.data):
        raise ConfigurationError(
            f"{entry.source}: store={entry.store} is the data folder itself; use a folder below it"
        )
    said = given.get("storePathRootDir")
    if said is not None and os.path.realpath(said.text) != os.path.realpath(broker.store):
        if entry.name:
            whose, hint = entry.name, f'set store = "{said.text}" in its [[broker]] table'
        else:
            is_movable = os.path.basename(said.text) == "store"
            whose, hint = (
                f"--data {paths.data}",
                f"use --data {os.path.dirname(said.text)}" if is_movable else "remove the key",
            )
        raise ConfigurationError(
            f"{said.source}: storePathRootDir={said.text} conflicts with {whose}, whose store is {broker.store}; {hint}"
        )
    given["storePathRootDir"] = Given(broker.store, entry.source)
    # Relative to the current folder, like all paths of a command.
    home = given.get("rocketmqHome")
    given["rocketmqHome"] = Given(os.path.abspath(home.text) if home and home.text else broker.folder, "rocketmqHome")


def _check_console_port(
    console: ConsoleConfig, appliance: ApplianceConfig, brokers: Sequence[BrokerConfiguration]
) -> None:
    """The console would bind its port first, and the broker could not start."""
    users = {appliance.nameserver_port: "nameserverPort"} if appliance.nameserver_enable else {}
    for each in brokers:
        port = each.broker.listen_port
        users |= {port: "listenPort", each.broker.fast_port: "the VIP channel", port + 1: "HA"}
    if console.console_port in users:
        raise ConfigurationError(
            f"port {console.console_port} is used by both consolePort and {users[console.console_port]}; "
            "change one of them, or disable the console (--no-console)"
        )


def _check_ports(broker: BrokerConfig, appliance: ApplianceConfig) -> None:
    ports = {"listenPort": broker.listen_port, "the VIP channel": broker.fast_port, "HA": broker.listen_port + 1}
    for what, port in ports.items():
        if not 1 <= port <= 65_535:
            raise ConfigurationError(
                f"listenPort={broker.listen_port}: {what} would use port {port}; choose a listenPort from 3 to 65534"
            )
        if appliance.nameserver_enable and port == appliance.nameserver_port:
            raise ConfigurationError(f"port {port} is used by both nameserverPort and {what}; change one of them")
