"""Several brokers in one appliance, with the official client: three masters, and a master with its slave."""

from pathlib import Path
from typing import Any

import pytest

from support.crash import QUEUES, SETTINGS, TOPIC, Load, check_log, verify
from support.java import Java
from support.sdk import run
from support.servers import wait_until
from support.several_brokers import SeveralBrokers

MASTERS = ("broker-a", "broker-b", "broker-c")
DEADLINE_S = 60

pytestmark = pytest.mark.timeout(300)


def test_masters_serve_and_lose_nothing_while_one_is_killed_and_recovered(java: Java, tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path / "data", {name: {} for name in MASTERS}, settings=SETTINGS) as appliance:
        load = Load(java, appliance, tmp_path)
        run(appliance.create_topic(TOPIC, QUEUES, *MASTERS))
        wait_until(lambda: run(appliance.brokers_of(TOPIC)) == set(MASTERS), DEADLINE_S, "three brokers in the route")
        with load:
            wait_until(lambda: all(appliance.wrote(name) > 0 for name in MASTERS), DEADLINE_S, "sends to all three")
            before = appliance.status()["roles"]

            appliance.kill_broker("broker-b")
            wrote = appliance.wrote("broker-b")
            wait_until(lambda: appliance.wrote("broker-b") > wrote, DEADLINE_S, "sends to the killed broker again")

            # Down for as long as the others take for some hundred messages, it is recovered when it starts.
            appliance.run("stop", "broker-b", "--data", str(appliance.data))
            assert appliance.broker_status("broker-b")["state"] == "stopped"
            load.wait_for_more(300)
            appliance.run("start", "broker-b", "--data", str(appliance.data))
            wrote = appliance.wrote("broker-b")
            wait_until(lambda: appliance.wrote("broker-b") > wrote, DEADLINE_S, "sends to the recovered broker again")

            after = appliance.status()["roles"]
            for name in (name for name in after if not name.startswith("broker-b/")):
                assert (after[name]["pid"], after[name]["restarts"]) == (before[name]["pid"], 0), name
        journal = load.journal()
    by_broker = {name: journal.at(appliance.port_of[name]) for name in MASTERS}
    assert sum(len(part.acknowledged) for part in by_broker.values()) == len(journal.acknowledged)
    for name, part in by_broker.items():
        assert part.acknowledged, f"nothing was sent to {name}"
        check_log(appliance.store_of(name), part)
        verify(appliance.store_of(name))


def test_master_and_slave_of_one_name_share_an_appliance(java: Java, tmp_path: Path) -> None:
    tables: dict[str, dict[str, Any]] = {
        "broker-a": {"brokerRole": "SYNC_MASTER"},
        "broker-a-slave": {
            "brokerName": "broker-a", "brokerId": 1, "brokerRole": "SLAVE", "haMasterAddress": "ha:broker-a",
        },
    }  # fmt: skip
    with SeveralBrokers(tmp_path / "data", tables, settings=SETTINGS) as appliance:
        master, slave = appliance.broker_status("broker-a"), appliance.broker_status("broker-a-slave")
        assert (master["role"], slave["role"]) == ("SYNC_MASTER", "SLAVE")
        wait_until(
            lambda: appliance.broker_status("broker-a")["offsets"]["slave_count"] == 1, DEADLINE_S, "the slave's link"
        )
        with Load(java, appliance, tmp_path) as load:
            load.wait_for_more(500)
            appliance.kill_broker("broker-a-slave")
            load.wait_for_more(500)
        wait_until(
            lambda: appliance.wrote("broker-a-slave") == appliance.wrote("broker-a") > 0, DEADLINE_S, "all copied"
        )
        journal = load.journal()
    # The slave has every acknowledged message, at the same place.
    for name in tables:
        check_log(appliance.store_of(name), journal)
        verify(appliance.store_of(name))
