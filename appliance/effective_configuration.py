"""Configuration: the checked options of an appliance and of each of its brokers. `configuration_reader` makes it."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from appliance.config import ApplianceConfig
from appliance.errors import ConfigurationError
from appliance.paths import AppliancePaths, BrokerPaths
from broker.config import BrokerConfig
from headrace.model.tls_settings import TlsSettings
from nameserver.config import NameServerConfig
from store.config import SLAVE, StoreConfig
from store.paths import StorePaths
from web.config import ConsoleConfig


class BrokerConfiguration(Struct, frozen=True):
    """The validated configuration of one broker's roles."""

    name: str
    """Its name in the appliance. A master and its slave share brokerName, but not this name."""
    is_only: bool
    """Whether it is the appliance's only broker, whose roles have no prefix."""
    paths: BrokerPaths
    appliance: ApplianceConfig
    broker: BrokerConfig
    store: StoreConfig
    broker_conf: Path | None = None
    """Its own broker.conf, into which the broker writes options changed by requests."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the value of each option comes from that is not the default: a file, a flag, `--set KEY`, or the option it is derived from."""

    @property
    def store_paths(self) -> StorePaths:
        """The paths of the store; the CommitLog may be elsewhere (storePathCommitLog)."""
        return self.store.paths()

    @property
    def host(self) -> str:
        """The address on which its roles listen."""
        return self.appliance.host

    @property
    def nameserver_addresses(self) -> list[str]:
        """The name servers at which the broker registers: those of namesrvAddr, else the appliance's own."""
        return list(self.broker.name_servers)

    @property
    def is_slave(self) -> bool:
        """Whether its log is a master's, copied by the ha role (brokerRole). What follows for each role stands in `role_table`."""
        return self.store.broker_role == SLAVE

    @property
    def label(self) -> str:
        """Its name if there are several brokers, empty for the only one."""
        return "" if self.is_only else self.name

    @property
    def ha_port(self) -> int:
        """The port on which the ha role, if it is enabled, listens for slaves."""
        return self.broker.listen_port + 1

    def listening_ports(self) -> dict[int, str]:
        """Every port on which its roles listen, with its purpose."""
        of = f"{self.name}: " if self.label else ""
        port = self.broker.listen_port
        ports = {port: f"{of}broker", self.broker.fast_port: f"{of}VIP channel"}
        if self.appliance.ha_enable:
            ports[self.ha_port] = f"{of}HA"
        return ports


class Configuration(Struct, frozen=True):
    """The validated configuration of the appliance and its brokers."""

    paths: AppliancePaths
    appliance: ApplianceConfig
    nameserver: NameServerConfig
    brokers: tuple[BrokerConfiguration, ...]
    warnings: list[str] = field(default_factory=list)
    tls: TlsSettings = field(default_factory=TlsSettings)
    """The same for all roles."""
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    nameserver_sources: Mapping[str, str] = field(default_factory=dict)
    """As `BrokerConfiguration.sources`."""
    appliance_toml: Path | None = None
    """The file, if one was given."""

    @property
    def export_folder(self) -> str:
        """The folder of exports that administrators start in the console."""
        return self.appliance.export_folder or self.paths.exports

    @property
    def host(self) -> str:
        """The address on which all roles listen."""
        return self.appliance.host

    def find_broker(self, name: str) -> BrokerConfiguration:
        """The broker of that name. Raises ConfigurationError."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise ConfigurationError(
            f"broker {name} not found; existing brokers: {', '.join(b.name for b in self.brokers)}"
        )
