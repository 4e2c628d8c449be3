"""Log and `headrace status` name the records that recovery discards after damage near the end of the log."""

from pathlib import Path

import pytest

from support.appliance import Appliance
from support.crash import SETTINGS, records
from support.plain_sender import PlainSender

pytestmark = pytest.mark.slow

MESSAGES = 60
DAMAGED = 20


def test_log_and_status_name_records_discarded_by_recovery(tmp_path: Path) -> None:
    data = tmp_path / "data"
    appliance = Appliance(data, settings=SETTINGS)
    try:
        with PlainSender(appliance.ports[1]) as sender:
            for number in range(MESSAGES):
                sender.send(number)
        appliance.kill()
        places = [record["offset"] for record in records(appliance.store, sender.topic)]
        assert len(places) == MESSAGES
        with (appliance.store / "commitlog" / f"{0:020}").open("r+b") as file:
            file.seek(places[DAMAGED] + 4)
            file.write(b"xxxx")
        appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
        lost, first, last = MESSAGES - DAMAGED - 1, places[DAMAGED + 1], places[-1]
        assert appliance.status()["offsets"]["wrote_offset"] == places[DAMAGED]
        said = appliance.run("status", "--data", str(data)).stdout
        assert f"discarded at startup: {lost} records after corruption in the log, offsets {first} to {last}" in said
        log = (data / "logs" / "headrace.log").read_text().splitlines()
        [line] = [one for one in log if "records discarded" in one]
        assert " warning " in line
        assert f"records={lost} first_offset={first} last_offset={last} log_end={places[DAMAGED]}" in line
        appliance.stop()
        appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
        assert "discarded" not in appliance.run("status", "--data", str(data)).stdout
        appliance.stop()
    finally:
        appliance.kill()
