"""An appliance with several brokers, for a test: each has free ports of its own, and a store in DATA/NAME/store."""

import os
import signal
from pathlib import Path
from typing import Any

from headrace import Admin
from headrace.model.option import format_value
from headrace.model.topic_config import TopicConfig
from support.appliance import Appliance
from support.sdk import patient
from support.servers import free_ports, wait_until

DEADLINE_S = 60


def write_broker_list(path: Path, tables: list[dict[str, Any]]) -> str:
    """Writes an `appliance.toml` with these [[broker]] tables; its path."""
    lines: list[str] = []
    for table in tables:
        lines.append("[[broker]]")
        lines += [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {format_value(value)}"
            for key, value in table.items()
        ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


class SeveralBrokers(Appliance):
    """A running appliance with several brokers; `broker` is the first one's address."""

    def __init__(self, data: Path, tables: dict[str, dict[str, Any]], *, settings: dict[str, str]) -> None:
        """`tables`: the keys of each broker but name and port. A value that is a broker's name after `ha:` becomes its HA address."""
        ports = {name: free_ports() for name in tables}
        self.port_of = {name: broker for name, (_, broker) in ports.items()}
        listed = []
        for name, table in tables.items():
            resolved = {
                key: f"127.0.0.1:{self.port_of[value[3:]] + 1}" if str(value).startswith("ha:") else value
                for key, value in table.items()
            }
            listed.append({"name": name, "port": self.port_of[name], **resolved})
        data.mkdir(parents=True)
        toml = write_broker_list(data.with_name(f"{data.name}.toml"), listed)
        super().__init__(data, settings=settings, ports=next(iter(ports.values())), more=("--config", toml))

    def address_of(self, broker: str) -> str:
        """HOST:PORT of a broker."""
        return f"127.0.0.1:{self.port_of[broker]}"

    def store_of(self, broker: str) -> Path:
        """A broker's store."""
        return self.data / broker / "store"

    def broker_status(self, broker: str) -> dict[str, Any]:
        """A broker's part of the status."""
        said: dict[str, Any] = self.status()["brokers"][broker]
        return said

    def wrote(self, broker: str) -> int:
        """How far a broker has written its log."""
        return int(self.broker_status(broker)["offsets"]["wrote_offset"])

    def kill_broker(self, broker: str) -> None:
        """SIGKILL to every process of a broker; waits until all its roles run again."""
        roles = self.status()["roles"]
        killed = {name: one["pid"] for name, one in roles.items() if name.startswith(f"{broker}/") and one["pid"]}
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)

        def are_back() -> bool:
            now = self.status()["roles"]
            return all(
                now[name]["state"] == "running" and now[name]["pid"] not in (None, pid) for name, pid in killed.items()
            )

        wait_until(are_back, DEADLINE_S, f"{broker} runs again")

    async def create_topic(self, topic: str, queues: int, *brokers: str) -> None:
        """Makes a topic at these brokers."""
        async with Admin(patient(self)) as admin:
            for broker in brokers:
                await admin.update_topic(TopicConfig(topic, queues, queues), broker=self.address_of(broker))

    async def brokers_of(self, topic: str) -> set[str]:
        """The names of the brokers that the name server has for a topic."""
        async with Admin(patient(self)) as admin:
            return {queue.broker_name for queue in await admin.subscribe_queues(topic)}
