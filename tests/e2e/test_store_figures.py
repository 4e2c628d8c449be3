"""Put and get times in `brokerStatus` are measured on the path that serves most requests."""

import os
import signal
from pathlib import Path

import pytest

from headrace.protocol.response_code import ResponseCode
from support.appliance import Appliance
from support.plain_client import PlainClient
from support.servers import wait_until

pytestmark = pytest.mark.slow

TIMEOUT_MS = 5_000  # more than a busy disk takes


def test_put_latency_includes_waiting_for_the_disk(tmp_path: Path) -> None:
    settings = {
        "flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": str(TIMEOUT_MS), "mappedFileSizeCommitLog": "8388608",
    }  # fmt: skip
    with Appliance(tmp_path / "data", settings=settings) as appliance, PlainClient(appliance.broker) as client:
        assert client.send("Timed").code == ResponseCode.SUCCESS
        before = client.runtime()
        assert int(before["putMessageEntireTimeMax"]) < TIMEOUT_MS
        flush = appliance.pid_of("flush")
        os.kill(flush, signal.SIGSTOP)
        try:
            # The topic is known now, so the hot path handles the send.
            assert client.send("Timed").code == ResponseCode.FLUSH_DISK_TIMEOUT
        finally:
            os.kill(flush, signal.SIGCONT)
        after = client.runtime()
        assert int(after["putMessageEntireTimeMax"]) >= TIMEOUT_MS
        assert float(after["putLatency999"]) >= TIMEOUT_MS * 15 / 16
        assert sum(int(one.rsplit(":", 1)[1]) for one in after["putMessageDistributeTime"].split()) == 2
        wait_until(lambda: client.pull("Timed", 1).code == ResponseCode.SUCCESS, 30, "both can be pulled")
        assert int(client.runtime()["getMessageEntireTimeMax"]) >= 0
