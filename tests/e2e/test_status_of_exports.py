"""`headrace status` while an export protects segments of the appliance's store from deletion."""

import os
from pathlib import Path

import pytest

from spark_exporter.planning.plan import open_source
from spark_exporter.running.segment_hold import SegmentHold
from support.appliance import Appliance
from support.plain_sender import PlainSender

pytestmark = pytest.mark.slow

SEGMENT = 1 << 18
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "maxMessageSize": "65536",
    "mappedFileSizeCommitLog": str(SEGMENT),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


def test_status_reports_segments_held_by_exports(tmp_path: Path) -> None:
    with Appliance(tmp_path / "data", settings=SETTINGS) as appliance:
        assert appliance.status()["held"] is None
        with PlainSender(appliance.ports[1]) as sender:
            sender.send(1)
        source = open_source(appliance.store)
        with SegmentHold(source.commit_log, "run", cleaning_level=1.0) as hold:
            hold.take(source.plan(0, source.find_end()).ranges)
            assert hold.problem is None
            assert appliance.status()["held"] == {"runs": 1, "segments": 1, "kept_bytes": 0}
            assert "held by exports: 1 segment; bytes already deleted by the broker: none" in said(appliance)
            # Another segment, as if the broker had deleted it since.
            os.link(source.segments[0].path, appliance.store / "hold" / "run" / f"{1 << 40:020}")
            assert appliance.status()["held"] == {"runs": 1, "segments": 2, "kept_bytes": SEGMENT}
            assert "held by exports: 2 segments; bytes already deleted by the broker: 262,144" in said(appliance)
        assert appliance.status()["held"] is None
        assert "held" not in said(appliance).replace("held_pulls", "")


def said(appliance: Appliance) -> str:
    return appliance.run("status", "--data", str(appliance.data)).stdout
