"""What all clients are told: where the cluster is, who they are, how often they look. Frozen; the defaults are RocketMQ's.

    config = ClientConfig("10.0.0.1:9876;10.0.0.2:9876", credentials=Credentials("app", "secret"))
    producer = Producer("orders", config, send_timeout=5)

Wherever a client takes a ClientConfig it also takes just the text of the name servers, or nothing: then the environment is asked. Durations are
seconds or timedeltas. A value that cannot be used is a ConfigError when the object is made, not when it starts.
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
    """What happened to a client."""

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
    """One happening, as `ClientConfig.on_event` is told it. What does not concern it is None."""

    kind: EventKind
    client_id: str
    topic: str | None = None
    group: str | None = None
    address: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The account with which requests are signed where brokers have access control (remoting spec 6)."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> "Credentials | None":
        """Those in ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY and ROCKETMQ_SECURITY_TOKEN; None where the first two are not set."""
        known = os.environ if environment is None else environment
        access_key, secret_key = known.get("ROCKETMQ_ACCESS_KEY"), known.get("ROCKETMQ_SECRET_KEY")
        if not access_key or not secret_key:
            return None
        return cls(access_key, secret_key, known.get("ROCKETMQ_SECURITY_TOKEN"))


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings of every client.

    `name_servers`: `host:port`, several with `;` between them or as a list; `http://host/path` asks there for the list, and again every two
    minutes. `instance_name`: clients of one process that give the same name share connections and heartbeats; without it each has its own.
    `tls`: True verifies servers against the system's authorities, an SSLContext does as it says. `vip_channel`: requests that RocketMQ sends to
    port - 2 go there. `binary_headers`: RocketMQ's compact header encoding in place of JSON. `api_timeout`: for routes, heartbeats and the like.
    `on_event` is told what happens to the client, in its loop; it must not block.
    """

    name_servers: str | Iterable[str] | None = None
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    unit_mode: bool = False
    namespace: str | None = None
    tls: bool | ssl.SSLContext = False
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
        """The name servers' addresses, empty where none were given."""
        return tuple(self.name_servers or ())

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **settings: Any) -> Self:
        """The configuration in NAMESRV_ADDR and ROCKETMQ_ACCESS_KEY, …_SECRET_KEY, …_SECURITY_TOKEN, with `settings` above them."""
        known = os.environ if environment is None else environment
        if known.get("NAMESRV_ADDR"):
            settings.setdefault("name_servers", known["NAMESRV_ADDR"])
        settings.setdefault("credentials", Credentials.from_env(known))
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
    """The configuration that a user meant: one made, the text or list of name servers, or that of the environment."""
    if isinstance(given, ClientConfig):
        return given if given.name_servers else dataclasses.replace(given, name_servers=os.environ.get("NAMESRV_ADDR"))
    return ClientConfig.from_env() if given is None else ClientConfig.from_env(name_servers=given)


def parse_name_servers(servers: str | Iterable[str]) -> tuple[str, ...]:
    """The addresses in a `;` list, or in a list; an `http://` address stays as it is. Raises ConfigError for what is no address."""
    pieces = (
        servers.split(";") if isinstance(servers, str) else [piece for each in servers for piece in each.split(";")]
    )
    addresses = tuple(address for piece in pieces if (address := piece.strip()))
    return tuple(map(_checked_address, addresses))


def _checked_address(address: str) -> str:
    scheme, found, rest = address.partition("://")
    if found and scheme in ("http", "https") and "/" in rest:
        return address
    try:
        host, _ = parse_host(rest if found else address)
    except ValueError:
        host = ""
    if not host:
        raise ConfigError(f"not the address of a name server: {address!r}; expected host:port", "name_servers")
    # compat: hosted instances are given as http://host:port, which is an address and no place to ask.
    return rest if found else address


def set_positive_seconds(settings: Any, *names: str) -> None:
    """Makes fields of a frozen dataclass floats of seconds. Raises ConfigError naming a field that is not above 0."""
    for name in names:
        given = getattr(settings, name)
        try:
            value = seconds(given)
        except (TypeError, ValueError):
            value = -1.0
        if not 0 < value < float("inf"):
            raise ConfigError(f"{name}={given!r}: expected seconds above 0, or a timedelta", name)
        object.__setattr__(settings, name, value)


def check_range(settings: Any, name: str, low: float, high: float) -> None:
    """Raises ConfigError if a field is not in low..high."""
    value = getattr(settings, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r}: expected a number from {low} to {high}", name)


def check_group(group: str, reserved: str) -> None:
    """Raises ConfigError if the group's name is invalid, or is `reserved` for RocketMQ itself."""
    problem = group_problem(group)
    if problem is None and group == reserved:
        problem = f"the group {group} is reserved by RocketMQ; use a name of your own"
    if problem is not None:
        raise ConfigError(problem, "group")
