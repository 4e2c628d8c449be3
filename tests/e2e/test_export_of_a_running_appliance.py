"""`headrace export` of a running appliance includes messages that the broker has not flushed yet."""

from pathlib import Path

import pytest

from support.appliance import Appliance
from support.plain_sender import PlainSender

pytestmark = pytest.mark.slow

LAZY = {
    "mappedFileSizeCommitLog": "1048576",
    "maxMessageSize": "65536",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "flushCommitLogLeastPages": "1000",
    "flushCommitLogThoroughInterval": "4000",
}


def test_export_contains_messages_sent_before_it_began(tmp_path: Path) -> None:
    with Appliance(tmp_path / "data", settings=LAZY) as appliance, PlainSender(appliance.ports[1]) as sender:
        for round_number in (1, 2):
            for number in range(20):
                sender.send(20 * round_number + number)
            done = appliance.run("export", "--engine", "local", str(appliance.data), str(tmp_path / "lake"))
            assert "lake: exported 20 of 20 records" in done.stdout
            assert done.stderr == ""
