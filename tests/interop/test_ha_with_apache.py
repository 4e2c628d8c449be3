"""Replication between Apache's broker and ours, both ways: the slave's CommitLog equals its master's byte for byte."""

from pathlib import Path

from support.appliance import Appliance
from support.client import Client
from support.java import Java
from support.reference import Reference, disposable
from support.servers import Server, wait_until

TOPIC = "Replicated"
MESSAGES = 600
DEADLINE_S = 60
SIZES = {"mappedFileSizeCommitLog": "262144", "maxMessageSize": "65536", "mappedFileSizeConsumeQueue": "1000"}


def records_of(store: Path) -> dict[str, bytes]:
    """The CommitLog files up to their last record; empty before the folder exists."""
    files = {path.name: path.read_bytes().rstrip(b"\0") for path in sorted((store / "commitlog").glob("*"))}
    return {name: data for name, data in files.items() if data}


def slave_settings(master: Server) -> dict[str, str]:
    host, _, port = master.broker.rpartition(":")
    return {**SIZES, "brokerRole": "SLAVE", "haMasterAddress": f"{host}:{int(port) + 1}"}


def replicate(java: Java, master: Server, slave: Server) -> None:
    """Sends to the master and waits until the slave has everything. Both start empty, so it begins at offset 0."""
    client = Client(java, master)
    client.create_topic(TOPIC, 4)
    client.send(TOPIC, MESSAGES // 2, first=0, mode="sync")
    wait_until(lambda: records_of(slave.store) == records_of(master.store) != {}, DEADLINE_S, "the first half there")
    client.send(TOPIC, MESSAGES // 2, first=MESSAGES // 2, mode="async", size=3000)
    client.await_pullable(TOPIC, MESSAGES)
    wait_until(lambda: records_of(slave.store) == records_of(master.store), DEADLINE_S, "all of it there")


def has_been_acknowledged(master: Appliance) -> bool:
    offsets = master.status()["offsets"]
    return bool(offsets["push2slave_max_offset"] == offsets["wrote_offset"])


def test_apache_slave_replicates_our_log(java: Java, tmp_path: Path) -> None:
    with Appliance(tmp_path / "master", settings=SIZES) as master:
        settings = slave_settings(master)
        with disposable(Reference(tmp_path / "slave", settings=settings, more=("--id=1",))) as slave:
            replicate(java, master, slave)
            wait_until(lambda: has_been_acknowledged(master), DEADLINE_S, "acknowledged")


def test_our_slave_replicates_an_apache_master(java: Java, tmp_path: Path) -> None:
    with disposable(Reference(tmp_path / "master", settings=SIZES)) as master:
        settings = slave_settings(master) | {"brokerId": "1"}
        with Appliance(tmp_path / "slave", settings=settings) as slave:
            replicate(java, master, slave)
