"""Servers with short delays and quick transaction checks, for tests that wait for what a broker does by itself."""

from pathlib import Path

from support.appliance import Appliance
from support.reference import Reference

DELAYS = "1s 2s 1s 1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m"
SETTINGS = {
    "messageDelayLevel": DELAYS,
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1500",
    "transactionCheckMax": "3",
    "flushDelayOffsetInterval": "1000",
}
SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}


def lately(make: str, data: Path, **settings: str) -> Reference | Appliance:
    """A running server of this make; `settings` replace some of SETTINGS."""
    return SERVERS[make](data, settings=SETTINGS | settings)
