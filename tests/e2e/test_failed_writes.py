"""A CommitLog that cannot be written any more: messages are refused with the reason, nothing acknowledged is lost, and a restart continues.

strace makes the broker's writes fail, as a disk would.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.protocol.record import decode_records
from headrace.protocol.response_code import ResponseCode
from support.appliance import Appliance
from support.plain_client import PlainClient
from support.servers import wait_until

WHY = "the CommitLog cannot be written: [Errno 5]"

pytestmark = pytest.mark.slow


@contextmanager
def failing_writes(pid: int) -> Iterator[None]:
    """While the context lasts, each pwrite of the process fails with EIO."""
    tracer = subprocess.Popen(
        ["strace", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO", "-p", str(pid)],
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: f"TracerPid:\t{tracer.pid}\n" in Path(f"/proc/{pid}/status").read_text(), 30, "strace")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)


def bodies(client: PlainClient) -> list[bytes]:
    return [record.body for record in decode_records(client.pull("Kept").body)]


def test_messages_are_refused_and_none_is_lost(tmp_path: Path) -> None:
    settings = {"flushDiskType": "SYNC_FLUSH", "mappedFileSizeCommitLog": "8388608"}
    with Appliance(tmp_path / "data", settings=settings) as appliance:
        broker = appliance.pid_of("broker")
        with PlainClient(appliance.broker) as client:
            for number in range(3):
                assert client.send("Kept", b"%d" % number).code == ResponseCode.SUCCESS
            with failing_writes(broker), PlainClient(appliance.broker) as sender:
                assert sender.send("Kept", b"first").code == ResponseCode.SERVICE_NOT_AVAILABLE
                wait_until(lambda: WHY in (sender.send("Kept", b"later").remark or ""), 30, "refused with the reason")
            assert client.send("Kept", b"the disk works again").code == ResponseCode.SERVICE_NOT_AVAILABLE
        os.kill(broker, signal.SIGKILL)
        appliance.wait_restarted("broker", broker)
        with PlainClient(appliance.broker) as client:
            assert client.send("Kept", b"after").code == ResponseCode.SUCCESS
            wait_until(lambda: bodies(client)[-1:] == [b"after"], 30, "dispatched")
            assert bodies(client) == [b"0", b"1", b"2", b"after"]
