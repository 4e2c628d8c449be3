"""Settings: what the broker process was started with."""

from dataclasses import dataclass
from pathlib import Path

from broker.config import BrokerConfig
from headrace.model.host import Host, parse_host
from store.config import StoreConfig
from store.paths import StorePaths


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, and where files are and ports are. `broker_conf` is the operator's file, if there is one."""

    broker: BrokerConfig
    store: StoreConfig
    paths: StorePaths
    host: str
    port: int
    namesrv_addresses: list[str]
    broker_conf: Path | None
    may_append: bool
    """Whether the broker writes the log: on a master. On a slave the ha role does."""
    filter_workers: tuple[Path, ...] = ()
    """Where the processes of filter functions wait for a call."""

    @property
    def store_host(self) -> Host:
        """The address that records carry."""
        return parse_host(self.broker.address)
