"""A disk filled by others: only deletions that free space continue, and losses are reported."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.headers.query import QueryMessageRequestHeader
from headrace.protocol.headers.send import SendMessageRequestHeaderV2
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.console import first_administrator, is_up
from support.plain_puller import PlainPuller, bodies
from support.servers import free_port, wait_until
from support.volume import IS_POSSIBLE, Volume, deleted_files_held
from support.watched import WatchedAppliance as Appliance

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not IS_POSSIBLE, reason="mounting a file system of its own needs root, mkfs.ext4 and loop devices"
    ),
]

FILE_SIZE = 2 << 20
FILES = 16
BODY = bytes(32 << 10)
TOPIC = "Orders"
DEADLINE_S = 30
RELEASE_S = 1.5
"""A second, and something for this machine."""

SETTINGS = {
    "mappedFileSizeCommitLog": str(FILE_SIZE), "maxMessageSize": str(1 << 20), "mappedFileSizeConsumeQueue": "400", "maxHashSlotNum": "50",
    "maxIndexNum": "100", "cleanResourceInterval": "300", "fileReservedTime": "72", "deleteWhen": "",
}  # fmt: skip


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volume(tmp_path, 120 << 20) as mounted:
        yield mounted


@pytest.fixture
def console_port() -> int:
    return free_port()


@pytest.fixture
def appliance(volume: Volume, console_port: int) -> Iterator[Appliance]:
    with Appliance(volume.path / "data", settings=SETTINGS, console_port=console_port) as running:
        yield running


def files_of(appliance: Appliance) -> list[str]:
    return sorted(os.listdir(appliance.store / "commitlog"))


def count_deleted(appliance: Appliance, before: list[str]) -> int:
    """How many of these files have been deleted. New files are reserved meanwhile."""
    return len(set(before) - set(files_of(appliance)))


def log_of(appliance: Appliance) -> list[str]:
    return (appliance.data / "logs" / "headrace.log").read_text().splitlines()


def send(puller: PlainPuller, body: bytes, key: str) -> int:
    """Sends to queue 0 and returns the response code."""
    header = SendMessageRequestHeaderV2(
        producer_group="plain", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=int(time.time() * 1000), flag=0, properties=f"KEYS\x01{key}\x02WAIT\x01true",
    )  # fmt: skip
    return puller.ask(create_request(header.CODE, header.to_ext(), body)).code


def send_all(appliance: Appliance) -> int:
    """Fills the log and returns the number of messages."""
    count = FILE_SIZE * FILES // len(BODY)
    with PlainPuller(appliance.ports[1]) as puller:
        for number in range(count):
            assert send(puller, BODY, f"k{number}") == ResponseCode.SUCCESS
    return count


def read_all(appliance: Appliance) -> None:
    """Makes the broker read every file of log, queue and index once, as a consumer and a search would."""
    with PlainPuller(appliance.ports[1]) as puller:
        offset, answer = 0, puller.pull(TOPIC, offset=0)
        while answer.code == ResponseCode.SUCCESS:
            assert bodies(answer)
            offset = int(answer.ext["nextBeginOffset"])
            answer = puller.pull(TOPIC, offset=offset)
        header = QueryMessageRequestHeader(TOPIC, "k0", 32, 0, 1 << 50)
        puller.ask(create_request(RequestCode.QUERY_MESSAGE, header.to_ext()))


def commit(appliance: Appliance, group: str, offset: int) -> None:
    ext = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    with PlainPuller(appliance.ports[1]) as puller:
        assert puller.ask(create_request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == ResponseCode.SUCCESS


def set_option(appliance: Appliance, text: str) -> None:
    with PlainPuller(appliance.ports[1]) as puller:
        request = create_request(RequestCode.UPDATE_BROKER_CONFIG, {}, body=text.encode())
        assert puller.ask(request).code == ResponseCode.SUCCESS


def send_code(appliance: Appliance) -> int:
    with PlainPuller(appliance.ports[1]) as puller:
        return send(puller, b"small", "small")


def wait_released(appliance: Appliance, volume: Volume) -> None:
    """Waits up to a second until no process holds a deleted file."""
    end = time.monotonic() + RELEASE_S
    while held := deleted_files_held(appliance.pids(), volume.path):
        assert time.monotonic() < end, held
        time.sleep(0.05)


def wait_for_cleaning_rounds(appliance: Appliance, rounds: int) -> None:
    """Waits until the housekeeper has looked for files to delete this many more times."""

    def count() -> int:
        return int(appliance.status()["counters"]["housekeeper"]["cleaning_rounds"])

    end = count() + rounds
    wait_until(lambda: count() >= end, DEADLINE_S, f"{rounds} cleaning rounds")


def check_console(appliance: Appliance, port: int) -> None:
    """The console shows at once that the broker refuses messages, and why."""
    wait_until(lambda: is_up(port), DEADLINE_S, "console")
    browser = first_administrator(appliance.data / "console", port)
    [broker] = browser.read("/cluster")["brokers"]["rows"]
    assert broker["writes"] == "refused: the disk is full"
    page = browser.get(f"/cluster/writes/{broker['broker']}").text
    assert "used), and the broker refuses all messages." in page
    dashboard = browser.get("/").text
    assert "used), and the broker refuses all messages." in dashboard
    assert "is full: the broker refuses all messages now." in dashboard
    status = appliance.run("status", "--data", str(appliance.data)).stdout
    assert "writes are stopped: the disk is full (flag_disk_full)\n" in status
    wait_until(
        lambda: [row["rule"] for row in browser.read("/")["alerts"]["rows"]] == ["broker refuses messages"],
        DEADLINE_S, "the alert",
    )  # fmt: skip


def test_forced_deletion_frees_space_reports_losses_and_stops_when_ineffective(
    volume: Volume, appliance: Appliance, console_port: int
) -> None:
    count = send_all(appliance)
    wait_until(lambda: appliance.status()["lag"]["dispatch"] == 0, DEADLINE_S, "all is dispatched")
    read_all(appliance)
    commit(appliance, "has-all", count)
    commit(appliance, "has-ten", 10)
    before = files_of(appliance)

    # Others fill the disk: only as many of the oldest files as needed are deleted, and their space is freed.
    volume.fill_to(0.89)
    wait_until(lambda: volume.used_ratio <= 0.85, DEADLINE_S, "space is freed")
    wait_released(appliance, volume)
    wait_for_cleaning_rounds(appliance, 3)  # which find nothing to do
    deleted = count_deleted(appliance, before)
    assert 1 <= deleted <= 0.05 * (120 << 20) / FILE_SIZE + 1, deleted
    min_offset = appliance.status()["offsets"]["min_offset"]
    assert min_offset == deleted * FILE_SIZE
    wait_released(appliance, volume)

    # The groups that lost messages, and how many, are logged and shown.
    with PlainPuller(appliance.ports[1]) as puller:
        first_kept = int(puller.pull(TOPIC, offset=count - 1).ext["minOffset"])
    lost = first_kept - 10
    assert lost > 0
    warnings = [line for line in log_of(appliance) if " warning " in line]
    told = [
        line
        for line in warnings
        if "unconsumed messages deleted before their retention time expired group=has-ten" in line
    ]
    assert sum(int(line.split(" lost=")[1].split()[0]) for line in told) == lost
    assert not any("group=has-all" in line or "without counting lost messages" in line for line in warnings)
    assert sum("CommitLog file deleted before its retention time expired" in line for line in warnings) == deleted
    wait_until(
        lambda: [(n["group"], n["about"], n["count"]) for n in appliance.status()["findings"]] == [("has-ten", TOPIC, lost)],
        DEADLINE_S, "status shows the loss",
    )  # fmt: skip
    text = appliance.run("status", "--data", str(appliance.data)).stdout
    assert f"deleted before the retention time expired: {deleted} files" in text
    assert f"group has-ten: {lost} messages of {TOPIC}" in text

    # A process holds the deleted files: one file is lost that way, but not the next.
    held = [os.open(appliance.store / "commitlog" / name, os.O_RDONLY) for name in files_of(appliance)[:5]]
    volume.fill_to(0.89)
    wait_until(lambda: any("forced deletion stopped" in line for line in log_of(appliance)), DEADLINE_S, "it stops")
    assert count_deleted(appliance, before) == deleted + 1
    wait_for_cleaning_rounds(appliance, 3)
    assert count_deleted(appliance, before) == deleted + 1
    assert sum("forced deletion stopped" in line for line in log_of(appliance)) == 1
    for fd in held:
        os.close(fd)
    wait_until(lambda: volume.used_ratio <= 0.85, DEADLINE_S, "it goes on when the space has come back")

    # Configured to refuse messages rather than lose some.
    set_option(appliance, "whenDiskFull=reject")
    wait_until(
        lambda: any("whenDiskFull=reject" in line for line in log_of(appliance)), DEADLINE_S, "the option is followed"
    )
    kept = files_of(appliance)
    volume.fill_to(0.93)
    wait_until(lambda: send_code(appliance) == ResponseCode.SERVICE_NOT_AVAILABLE, DEADLINE_S, "sends are refused")
    assert files_of(appliance)[0] == kept[0]
    check_console(appliance, console_port)
    volume.free()
    wait_until(lambda: send_code(appliance) == ResponseCode.SUCCESS, DEADLINE_S, "sends are taken again")
    assert files_of(appliance)[0] == kept[0]
