"""Servers with short delays and frequent transaction checks, for tests that wait for a broker's own actions."""

from pathlib import Path

from support.appliance import Appliance
from support.client import Client
from support.reference import Reference
from support.servers import wait_until

DELAYS = "1s 2s 1s 1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m"
SETTINGS = {
    "messageDelayLevel": DELAYS,
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1500",
    "transactionCheckMax": "3",
    "flushDelayOffsetInterval": "1000",
}
SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}


def quick_server(make: str, data: Path, **settings: str) -> Reference | Appliance:
    """A running server of this kind; `settings` override some of SETTINGS."""
    return SERVERS[make](data, settings=SETTINGS | settings)


def create_group(client: Client, group: str, topic: str) -> None:
    """Returns when name servers know the group's retry topic.

    The broker creates it at the group's first request. A consumer that was started earlier looks for it again only after half a
    minute.
    """
    client.consume(f"{group}-joins", topic, group=group)
    route = {"topic": f"%RETRY%{group}"}
    wait_until(
        lambda: client.call("raw", address=client.server.name_server, code=105, ext=route)["code"] == 0,
        60,
        f"the retry topic of {group}",
    )
    client.stop(f"{group}-joins")
