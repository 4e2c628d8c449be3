"""SIGHUP: the configuration is read again while the appliance runs, and nothing is restarted."""

import os
import signal
from pathlib import Path

import pytest

from headrace.sync import Admin
from support.servers import wait_until
from support.watched import WatchedProcess

pytestmark = pytest.mark.slow

SMALL = "mappedFileSizeCommitLog=16777216\n"


def test_changed_files_are_in_force_after_sighup_and_broken_ones_change_nothing(tmp_path: Path) -> None:
    conf, toml = tmp_path / "broker.conf", tmp_path / "appliance.toml"
    conf.write_text(f"{SMALL}fileReservedTime=48\n")
    toml.write_text('logLevel = "info"\n')
    with (
        WatchedProcess(tmp_path / "data", "-c", str(conf), "--config", str(toml)).wait_ready() as appliance,
        Admin(f"127.0.0.1:{appliance.ports[0]}") as admin,
    ):
        broker = f"127.0.0.1:{appliance.ports[1]}"

        def reload_until(line: str) -> None:
            appliance.process.send_signal(signal.SIGHUP)
            wait_until(lambda: line in appliance.out, 60, line)

        def retention() -> str:
            return admin.broker_config(broker)["fileReservedTime"]

        pids = {name: role["pid"] for name, role in appliance.status()["roles"].items()}
        conf.write_text(f"{SMALL}fileReservedTime=24\nlistenPort=1234\n")
        toml.write_text('logLevel = "debug"\nlogFormat = "json"\n')
        reload_until(
            "headrace: configuration reloaded; changed: broker/fileReservedTime=24 logLevel=debug; "
            "requires a restart: logFormat\n"
        )
        wait_until(lambda: retention() == "24", 60, "the broker has the new option")
        wait_until(lambda: "options changed fileReservedTime=24" in appliance.log, 60, "the broker's log line")

        conf.write_text(f"{SMALL}fileReservedTime=12\nmaxMessageSize=much\n")
        reload_until("headrace: configuration not reloaded, nothing was changed: ")
        assert f"{conf}: maxMessageSize=much: expected a whole number" in appliance.out
        assert retention() == "24"

        # A change by request is saved in the file, and a role that starts later has both.
        conf.write_text(f"{SMALL}fileReservedTime=24\n")
        admin.update_broker_config(broker, {"maxMessageSize": "1048576"})
        os.kill(appliance.pid_of("broker"), signal.SIGKILL)
        appliance.wait_restarted("broker")
        wait_until(lambda: "broker running" in appliance.log, 60, "the broker's port")
        found = admin.broker_config(broker)
        assert (found["fileReservedTime"], found["maxMessageSize"]) == ("24", "1048576")
        pids["broker"] = appliance.pid_of("broker")
        assert {name: role["pid"] for name, role in appliance.status()["roles"].items()} == pids
        assert appliance.stop() == 0
