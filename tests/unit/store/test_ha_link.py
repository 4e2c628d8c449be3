import asyncio
import base64
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from headrace.protocol.ha_frame import HaFrame, HaFrameDecoder, encode_head, encode_report
from ipc.instance import Instance
from ipc.publish.housekeeper import HousekeeperPublisher
from ipc.publish.log import LogPublisher
from store.config import SLAVE
from store.ha import daemon, slave
from store.housekeeping import daemon as housekeeping
from support import golden
from support.servers import free_port
from support.store_files import LOG_FILE_SIZE, LogBuilder, RunningRole, eventually, running_instance, small_config

HOST = "127.0.0.1"


class Master:
    """A master's store, its ha role, and the port."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.builder = LogBuilder(small_config(root, **settings))
        self.builder.append_many(500)
        self.port = free_port()
        self._context = running_instance(
            root, wrote_offset=self.builder.offset, allocated_offset=4 * LOG_FILE_SIZE, reput_offset=self.builder.offset
        )
        self.instance: Instance = self._context.__enter__()
        config = self.builder.config
        self.role = RunningRole(
            self.instance,
            "ha",
            lambda context: daemon.run(context, config, config.paths(), HOST, self.port, copies_log=False),
        )
        eventually(lambda: self.instance.health.read()["ha"].state == "running" or self.role.error)

    def append(self, count: int) -> None:
        self.builder.append_many(count)
        LogPublisher(self.instance.control).wrote(self.builder.offset, self.builder.written[-1].store_timestamp)
        self.instance.bells["ha"].ring()

    def log(self) -> bytes:
        files = sorted(self.builder.paths.commit_log.iterdir())
        return b"".join(path.read_bytes() for path in files)[: self.builder.offset]

    def close(self) -> None:
        self.role.close()
        self._context.__exit__(None, None, None)


Make = Callable[..., Master]


@pytest.fixture
def make_master(tmp_path: Path) -> Iterator[Make]:
    made = []

    def make(**settings: object) -> Master:
        made.append(Master(tmp_path / "master", **settings))
        return made[-1]

    yield make
    for master in made:
        master.close()


class Slave:
    """A slave's end of the link, spoken by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=20)
        self._decoder = HaFrameDecoder()
        self._frames: list[HaFrame] = []

    def report(self, offset: int) -> None:
        self.socket.sendall(encode_report(offset))

    def frame(self) -> HaFrame:
        while not self._frames:
            data = self.socket.recv(1 << 16)
            assert data, "closed"
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    def receive(self, begin: int, end: int) -> bytes:
        data = b""
        while begin + len(data) < end:
            frame = self.frame()
            assert frame.physical_offset == begin + len(data)
            data += frame.data
        return data

    def is_closed(self) -> bool:
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def connect() -> Iterator[Callable[[Master], Slave]]:
    made = []

    def connect_to(master: Master) -> Slave:
        made.append(Slave(master.port))
        return made[-1]

    yield connect_to
    for one in made:
        one.close()


Connect = Callable[[Master], Slave]


def test_reports_may_arrive_in_pieces(make_master: Make, connect: Connect) -> None:
    master = make_master()
    slave = connect(master)
    report = encode_report(master.builder.offset)
    slave.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    slave.socket.sendall(report[:3])
    eventually(lambda: master.instance.control.slave_count)
    slave.socket.sendall(report[3:] + report[:5])
    eventually(lambda: master.instance.control.push2slave_max_offset == master.builder.offset)
    master.append(1)
    slave.socket.sendall(report[5:])
    slave.report(master.builder.offset)
    eventually(lambda: master.instance.control.push2slave_max_offset == master.builder.offset)


def test_slave_receives_the_log_from_its_offset(make_master: Make, connect: Connect) -> None:
    master = make_master()
    end = master.builder.written[10]
    begin = end.physical_offset
    link = connect(master)
    link.report(begin)
    assert link.receive(begin, master.builder.offset) == master.log()[begin:]


def test_empty_slave_begins_with_the_newest_file(make_master: Make, connect: Connect) -> None:
    master = make_master()
    link = connect(master)
    link.report(0)
    first = link.frame()
    assert first.physical_offset == LOG_FILE_SIZE
    assert len(first.data) == 32768


def test_no_frame_crosses_the_end_of_a_file(make_master: Make, connect: Connect) -> None:
    master = make_master(ha_transfer_batch_size=50_000)
    link = connect(master)
    begin = master.builder.written[1].physical_offset
    link.report(begin)
    offset = begin
    while offset < master.builder.offset:
        frame = link.frame()
        assert frame.physical_offset == offset
        assert offset // LOG_FILE_SIZE == (offset + len(frame.data) - 1) // LOG_FILE_SIZE
        offset += len(frame.data)


def test_later_writes_are_replicated(make_master: Make, connect: Connect) -> None:
    master = make_master()
    link = connect(master)
    begin = master.builder.offset
    link.report(begin)
    eventually(lambda: master.instance.control.push2slave_max_offset == begin)
    for count in (1, 5, 300):
        before = master.builder.offset
        master.append(count)
        assert link.receive(before, master.builder.offset) == master.log()[before:]


def test_acknowledged_offset_is_published_and_never_decreases(make_master: Make, connect: Connect) -> None:
    master = make_master()
    control = master.instance.control
    first, second = connect(master), connect(master)
    eventually(lambda: control.slave_count == 2)
    middle, end = master.builder.written[400].physical_offset, master.builder.offset
    first.report(middle)
    eventually(lambda: control.push2slave_max_offset == middle)
    second.report(end)
    eventually(lambda: control.push2slave_max_offset == end)
    second.close()
    eventually(lambda: control.slave_count == 1)
    first.report(middle)
    first.receive(middle, end)
    assert control.push2slave_max_offset == end


def test_slave_ahead_of_its_master_is_refused(make_master: Make, connect: Connect) -> None:
    master = make_master()
    link = connect(master)
    link.report(master.builder.offset + 1)
    assert link.is_closed()
    assert master.instance.control.push2slave_max_offset == 0


def test_slave_whose_offset_is_deleted_is_refused(make_master: Make, connect: Connect) -> None:
    master = make_master()
    HousekeeperPublisher(master.instance.control).min_offset(LOG_FILE_SIZE)
    link = connect(master)
    link.report(master.builder.written[1].physical_offset)
    assert link.is_closed()


def test_idle_link_gets_heartbeats(make_master: Make, connect: Connect) -> None:
    master = make_master(ha_send_heartbeat_interval=1)
    link = connect(master)
    link.report(master.builder.offset)
    assert link.frame() == HaFrame(master.builder.offset, b"")
    assert link.frame() == HaFrame(master.builder.offset, b"")


def test_silent_slave_is_closed(make_master: Make, connect: Connect) -> None:
    master = make_master(ha_housekeeping_interval=1)
    assert connect(master).is_closed()


def test_frame_bytes_equal_rocketmqs(make_master: Make, connect: Connect) -> None:
    lines = [line for line in golden.lines(golden.GOLDEN / "wire" / "ha.jsonl") if "bytes" in line]
    heartbeat = next(base64.b64decode(line["bytes"]) for line in lines if line["direction"] == "<")
    master = make_master(ha_send_heartbeat_interval=1)
    link = connect(master)
    link.report(master.builder.offset)
    received = link.socket.recv(len(heartbeat))
    assert received == struct.pack(">qi", master.builder.offset, 0)
    assert len(received) == len(heartbeat) == 12


# ---- both ends


@contextmanager
def follow(tmp_path: Path, master: Master) -> Iterator[tuple[Instance, Path]]:
    """A slave's ha role and its housekeeper."""
    root = tmp_path / "slave"
    root.mkdir(exist_ok=True)
    config = small_config(root, broker_role=SLAVE, ha_master_address=f"{HOST}:{master.port}")
    config.paths().make_directories()
    with running_instance(root) as instance:
        roles = [
            RunningRole(
                instance,
                "housekeeper",
                lambda context: housekeeping.run(context, config, config.paths(), is_log_copied=True),
            ),
            RunningRole(
                instance,
                "ha",
                lambda context: daemon.run(context, config, config.paths(), HOST, free_port(), copies_log=True),
            ),
        ]
        yield instance, root
        for role in roles:
            role.close()
            assert role.error is None


@pytest.mark.slow
def test_slave_log_equals_the_masters_byte_for_byte(tmp_path: Path, make_master: Make) -> None:
    master = make_master()
    with follow(tmp_path, master) as (instance, root):
        eventually(lambda: instance.control.wrote_offset == master.builder.offset)
        master.append(600)
        eventually(lambda: instance.control.wrote_offset == master.builder.offset)
        eventually(lambda: master.instance.control.push2slave_max_offset == master.builder.offset)
        begin = instance.control.min_offset
        assert begin == LOG_FILE_SIZE
        data = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
        assert data[: master.builder.offset - begin] == master.log()[begin:]
        assert instance.control.wrote_timestamp == master.builder.written[-1].store_timestamp


@pytest.mark.slow
def test_broken_connection_is_reestablished(tmp_path: Path, make_master: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave, "_PAUSE_S", 0.01)
    master = make_master()
    with follow(tmp_path, master) as (instance, _):
        eventually(lambda: instance.control.wrote_offset == master.builder.offset)
        master.role.stop()
        config = master.builder.config
        master.append(50)
        again = RunningRole(
            master.instance,
            "ha",
            lambda context: daemon.run(context, config, config.paths(), HOST, master.port, copies_log=False),
        )
        eventually(lambda: instance.control.wrote_offset == master.builder.offset)
        again.close()


def test_slave_without_a_master_address_only_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class NoLog:
        pass

    follower = slave.HaSlave(small_config(tmp_path, broker_role=SLAVE), NoLog(), {})  # type: ignore[arg-type]
    asyncio.run(follower.follow())
    assert "haMasterAddress is not set" in caplog.text


def test_slave_that_loses_its_master_while_it_waits_for_a_file_connects_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave, "_PAUSE_S", 0.01)
    builder = LogBuilder(small_config(tmp_path / "log"))
    builder.append_many(1)
    record = builder.written[0]
    frame = (
        encode_head(0, record.size_bytes) + (builder.paths.commit_log / f"{0:020d}").read_bytes()[: record.size_bytes]
    )
    with socket.create_server((HOST, 0)) as listening, running_instance(tmp_path) as instance:
        listening.settimeout(20)
        port = listening.getsockname()[1]
        config = small_config(tmp_path, broker_role=SLAVE, ha_master_address=f"{HOST}:{port}")
        config.paths().make_directories()
        role = RunningRole(
            instance,
            "ha",
            lambda context: daemon.run(context, config, config.paths(), HOST, free_port(), copies_log=True),
        )
        master, _ = listening.accept()
        assert len(master.recv(8)) == 8
        master.sendall(frame)
        eventually(lambda: instance.control.requested_offset == 0)
        master.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        master.close()
        eventually(
            lambda: not [one for one in psutil.Process().net_connections() if one.raddr and one.raddr[1] == port]
        )
        (config.paths().commit_log / f"{0:020d}").write_bytes(bytes(LOG_FILE_SIZE))
        HousekeeperPublisher(instance.control).allocated_offset(LOG_FILE_SIZE)  # the housekeeper is played here
        again, _ = listening.accept()
        again.close()
        role.close()
        assert role.error is None
