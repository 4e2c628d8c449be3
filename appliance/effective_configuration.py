"""Configuration: the checked options of an appliance and of each of its brokers. `configuration_reader` makes it."""

from dataclasses import dataclass, field
from pathlib import Path

from appliance.config import ApplianceConfig
from appliance.errors import ConfigurationError
from appliance.paths import AppliancePaths, BrokerPaths
from broker.config import BrokerConfig
from headrace.model.tls_settings import TlsSettings
from nameserver.config import NameServerConfig
from store.config import StoreConfig
from store.paths import StorePaths


@dataclass(frozen=True, slots=True)
class BrokerConfiguration:
    """What the roles of one broker are told, checked."""

    name: str
    """What the appliance calls it. A master and a slave share brokerName, not this name."""
    is_only: bool
    """Whether it is the appliance's only broker, whose roles need no other name than their own."""
    paths: BrokerPaths
    appliance: ApplianceConfig
    broker: BrokerConfig
    store: StoreConfig
    broker_conf: Path | None = None
    """Its own broker.conf: the broker writes options into it that are changed by request."""
    tls: TlsSettings = field(default_factory=TlsSettings)

    @property
    def store_paths(self) -> StorePaths:
        """The store's files; the CommitLog may lie elsewhere (storePathCommitLog)."""
        return self.store.paths()

    @property
    def host(self) -> str:
        """The address that its roles listen on."""
        return self.appliance.host

    @property
    def nameserver_addresses(self) -> list[str]:
        """The name servers that the broker registers with: those of namesrvAddr, else the appliance's own."""
        return list(self.broker.name_servers)

    @property
    def label(self) -> str:
        """Its name where there are several brokers, empty for the only one."""
        return "" if self.is_only else self.name

    def listening_ports(self) -> dict[int, str]:
        """Every port that its roles listen on, and what for."""
        of = f"{self.name}: " if self.label else ""
        port = self.broker.listen_port
        ports = {port: f"{of}broker", self.broker.fast_port: f"{of}VIP channel"}
        if self.appliance.ha_enable and not self.store.is_slave:
            ports[port + 1] = f"{of}HA"
        return ports


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that the appliance and its brokers are told, checked."""

    paths: AppliancePaths
    appliance: ApplianceConfig
    nameserver: NameServerConfig
    brokers: tuple[BrokerConfiguration, ...]
    warnings: list[str] = field(default_factory=list)
    tls: TlsSettings = field(default_factory=TlsSettings)
    """The same for all roles."""

    @property
    def host(self) -> str:
        """The address that all roles listen on."""
        return self.appliance.host

    def find_broker(self, name: str) -> BrokerConfiguration:
        """The broker of that name. Raises ConfigurationError."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise ConfigurationError(
            f"broker {name} not found; existing brokers: {', '.join(b.name for b in self.brokers)}"
        )
