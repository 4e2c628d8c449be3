"""The page of replication on an Apache master with a slave of ours: what it shows comes from requests that RocketMQ 4.9 has."""

from pathlib import Path

from headrace import Message
from headrace.sync import Admin, Producer
from support.appliance import Appliance
from support.console import RunningConsole
from support.reference import Reference, disposable
from support.servers import wait_until

TOPIC = "Replicated"
SIZES = {"mappedFileSizeCommitLog": "262144", "maxMessageSize": "65536", "mappedFileSizeConsumeQueue": "1000"}


def test_slave_of_an_apache_master_is_in_sync(tmp_path: Path) -> None:
    with disposable(Reference(tmp_path / "master", settings=SIZES)) as master, Admin(master.name_server) as admin:
        wait_until(lambda: bool(admin.cluster_info().broker_addr_table), 60, "the master is registered")
        [name] = admin.cluster_info().broker_addr_table
        admin.create_topic(TOPIC)
        replicated = {
            "brokerName": name,
            "brokerId": "1",
            "brokerRole": "SLAVE",
            "haMasterAddress": f"127.0.0.1:{master.ports[1] + 1}",
            "nameserverEnable": "false",
            "namesrvAddr": master.name_server,
        }
        with (
            Appliance(tmp_path / "slave", settings={**SIZES, **replicated}) as slave,
            RunningConsole(tmp_path / "console", master.name_server, api_timeout=30) as console,
            Producer("p", master.name_server) as producer,
        ):
            for _ in range(50):
                producer.send(Message(TOPIC, b"x" * 1_000))
            browser = console.administrator()

            def is_in_sync() -> bool:
                page = browser.read("/replication")
                rows = page["slaves"]["rows"]
                return [row["state"] for row in rows] == ["in sync"] and rows[0]["max_offset"] > 50_000

            wait_until(is_in_sync, 60, "in sync")
            page = browser.read("/replication")
            [of_master], [of_slave] = page["masters"]["rows"], page["slaves"]["rows"]
            assert (of_master["broker"], of_master["role"], of_master["state"]) == (name, "ASYNC_MASTER", "in sync")
            assert of_master["ha_address"].endswith(f":{master.ports[1] + 1}")
            assert (of_master["slaves"], of_master["connected"], of_master["problem"]) == (1, None, "")
            assert (of_slave["address"], of_slave["behind"], of_slave["behind_ms"]) == (slave.broker, 0, 0)
            assert of_slave["max_offset"] == of_master["max_offset"]
