"""Settings of the broker process."""

from pathlib import Path

from msgspec import Struct

from broker.config import BrokerConfig
from headrace.model.host import Host, parse_host
from store.config import StoreConfig
from store.paths import StorePaths


class Settings(Struct, frozen=True):
    """The options, paths and ports. `broker_conf` is the operator's file, if there is one."""

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
    """The sockets of the processes of filter functions."""

    @property
    def store_host(self) -> Host:
        """The store host of records."""
        return parse_host(self.broker.address)
