"""Settings that all clients have: the cluster's address, the client's identity, intervals. Frozen; the defaults are RocketMQ's.

    config = ClientConfig("10.0.0.1:9876;10.0.0.2:9876", credentials=Credentials("app", "secret"))
    producer = Producer("orders", config, send_timeout=5)

Wherever a client accepts a ClientConfig it also accepts the name servers' addresses as text, or None, which reads the environment. Durations are
seconds or timedeltas. An invalid value raises ConfigError when the settings are created, not when the client starts.
"""

import dataclasses
import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, TypeAlias

from headrace.client.durations import Duration, seconds
from headrace.client.namespace import namespace_of_address
from headrace.errors import ConfigError
from headrace.model.host import parse_host
from headrace.model.names import TRACE_TOPIC, group_problem


class EventKind(StrEnum):
    """The kind of a ClientEvent."""

    STARTED = "started"
    CLOSED = "closed"
    DISCONNECTED = "disconnected"
    NAME_SERVERS_CHANGED = "name_servers_changed"
    ROUTE_CHANGED = "route_changed"
    REBALANCED = "rebalanced"
    FLOW_CONTROL = "flow_control"
    CONSUMER_ERROR = "consumer_error"


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """An event of a client, passed to `ClientConfig.on_event`. Fields that do not apply are None."""

    kind: EventKind
    client_id: str
    topic: str | None = None
    group: str | None = None
    address: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The account that signs requests, for brokers with access control (remoting spec 6)."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> "Credentials | None":
        """Reads ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY and ROCKETMQ_SECURITY_TOKEN; None if one of the first two is not set."""
        known = os.environ if environment is None else environment
        access_key, secret_key = known.get("ROCKETMQ_ACCESS_KEY"), known.get("ROCKETMQ_SECRET_KEY")
        if not access_key or not secret_key:
            return None
        return cls(access_key, secret_key, known.get("ROCKETMQ_SECURITY_TOKEN"))


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a client's connections. Servers are verified against `ca`, or the system's certificate authorities, unless `verify` is False.

    All files are PEM. `certificate` and `key` are presented to servers that ask for a client certificate. `check_host_name`: the server's certificate
    must be valid for the host name or address that the client connects to. Without verification anyone on the network path can read and change messages.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_host_name: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("tls: certificate and key must be passed together", "tls")

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> "Tls | None":
        """Reads ROCKETMQ_TLS_CA, …_CERTIFICATE, …_KEY, …_KEY_PASSWORD, …_VERIFY and …_CHECK_HOST_NAME; None unless ROCKETMQ_TLS_ENABLE is true."""
        known = os.environ if environment is None else environment
        if not _env_flag(known, "ROCKETMQ_TLS_ENABLE", default=False):
            return None
        ca, certificate, key, password = (
            known.get(f"ROCKETMQ_TLS_{name}") or None for name in ("CA", "CERTIFICATE", "KEY", "KEY_PASSWORD")
        )
        return cls(
            ca,
            certificate,
            key,
            password,
            verify=_env_flag(known, "ROCKETMQ_TLS_VERIFY", default=True),
            check_host_name=_env_flag(known, "ROCKETMQ_TLS_CHECK_HOST_NAME", default=True),
        )


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings of every client.

    `name_servers`: `host:port`, several as a list or separated by `;`; from `http://host/path` the list is fetched, and again every two minutes.
    `instance_name`: clients of one process with the same name share connections and heartbeats; without it each has its own. `tls`: True verifies
    servers against the system's certificate authorities; `Tls` has further settings; an SSLContext is used as it is. `vip_channel`: send requests to port - 2 where RocketMQ does.
    `binary_headers`: use RocketMQ's compact header encoding instead of JSON. `api_timeout`: for routes, heartbeats and similar requests.
    `on_event` is called with each ClientEvent, in the client's loop; it must not block.
    """

    name_servers: str | Iterable[str] | None = None
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    unit_mode: bool = False
    namespace: str | None = None
    tls: bool | Tls | ssl.SSLContext = False
    vip_channel: bool = False
    binary_headers: bool = False
    credentials: Credentials | None = None
    poll_name_server: Duration = 30.0
    heartbeat: Duration = 30.0
    persist_offsets: Duration = 5.0
    api_timeout: Duration = 3.0
    on_event: Callable[[ClientEvent], None] | None = None

    def __post_init__(self) -> None:
        servers = self.name_servers
        if servers is not None:
            listed = parse_name_servers(servers)
            object.__setattr__(self, "name_servers", listed)
            if self.namespace is None and listed:
                object.__setattr__(self, "namespace", namespace_of_address(listed[0]))
        for name in ("poll_name_server", "heartbeat", "persist_offsets", "api_timeout"):
            set_positive_seconds(self, name)

    @property
    def name_server_list(self) -> tuple[str, ...]:
        """The name servers' addresses; empty if none were given."""
        return tuple(self.name_servers or ())

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **settings: Any) -> Self:
        """Reads NAMESRV_ADDR and what `Credentials.from_env` and `Tls.from_env` read; `settings` take precedence."""
        known = os.environ if environment is None else environment
        if known.get("NAMESRV_ADDR"):
            settings.setdefault("name_servers", known["NAMESRV_ADDR"])
        settings.setdefault("credentials", Credentials.from_env(known))
        settings.setdefault("tls", Tls.from_env(known) or False)
        return cls(**settings)


@dataclass(frozen=True, slots=True)
class Trace:
    """Message trace into `topic`. `cloud_region` names the region of a hosted service, whose trace topic and records are different."""

    topic: str = TRACE_TOPIC
    cloud_region: str | None = None

    @property
    def target(self) -> str:
        """The topic that records are sent to."""
        return f"rmq_sys_TRACE_DATA_{self.cloud_region}" if self.cloud_region else self.topic

    @classmethod
    def of(cls, given: "bool | Trace") -> "Trace | None":
        """Returns what a `trace` setting stands for: True means the default topic."""
        if isinstance(given, Trace):
            return given
        return cls() if given else None


ConfigLike: TypeAlias = ClientConfig | str | Iterable[str] | None


def client_config(given: ConfigLike) -> ClientConfig:
    """Returns the configuration that the user gave: a ClientConfig, the name servers' addresses, or None for the environment."""
    if isinstance(given, ClientConfig):
        return given if given.name_servers else dataclasses.replace(given, name_servers=os.environ.get("NAMESRV_ADDR"))
    return ClientConfig.from_env() if given is None else ClientConfig.from_env(name_servers=given)


def parse_name_servers(servers: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the addresses in a list or a `;`-separated text; an `http://` address is not changed. Raises ConfigError if one is invalid."""
    pieces = (
        servers.split(";") if isinstance(servers, str) else [piece for each in servers for piece in each.split(";")]
    )
    addresses = tuple(address for piece in pieces if (address := piece.strip()))
    return tuple(map(_checked_address, addresses))


def _env_flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"{name}={text}: expected true or false", name)
    return text == "true" if text else default


def _checked_address(address: str) -> str:
    scheme, found, rest = address.partition("://")
    if found and scheme in ("http", "https") and "/" in rest:
        return address
    try:
        host, _ = parse_host(rest if found else address)
    except ValueError:
        host = ""
    if not host:
        raise ConfigError(f"{address!r} is not the address of a name server; expected host:port", "name_servers")
    # compat: hosted instances are given as http://host:port, which is the address itself and not one to fetch a list from.
    return rest if found else address


def set_positive_seconds(settings: Any, *names: str) -> None:
    """Converts fields of a frozen dataclass to seconds (float). Raises ConfigError for a field that is not above 0."""
    for name in names:
        given = getattr(settings, name)
        try:
            value = seconds(given)
        except (TypeError, ValueError):
            value = -1.0
        if not 0 < value < float("inf"):
            raise ConfigError(f"{name}={given!r}: expected a number of seconds above 0, or a timedelta", name)
        object.__setattr__(settings, name, value)


def check_range(settings: Any, name: str, low: float, high: float) -> None:
    """Raises ConfigError if a field is not between low and high."""
    value = getattr(settings, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r}: expected a number between {low} and {high}", name)


def check_group(group: str, reserved: str) -> None:
    """Raises ConfigError if the group's name is invalid, or is `reserved` for RocketMQ itself."""
    problem = group_problem(group)
    if problem is None and group == reserved:
        problem = f"the group {group} is reserved by RocketMQ; use a name of your own"
    if problem is not None:
        raise ConfigError(problem, "group")
