"""The appliance's files are not accessible to other users and are never written through a symbolic link."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.request_code import RequestCode
from support.bare_requests import ask
from support.headrace_process import HeadraceProcess
from support.plain_sender import PlainSender

pytestmark = pytest.mark.slow

SMALL = (
    "--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000",
)  # fmt: skip
MINE = "not to be touched"


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def files_of(data: Path) -> dict[Path, int]:
    """The modes of the files. The temporary ones of a running appliance may be renamed meanwhile."""
    found = {}
    for path in data.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found[path] = path.lstat().st_mode
    return {path: mode for path, mode in found.items() if stat.S_ISREG(mode)}


@pytest.mark.usefixtures("usual_umask")
def test_files_have_no_access_for_others_and_read_only_access_for_the_group(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True)
    (data / "logs" / "headrace.log").write_text("of an earlier version\n")
    (data / "logs" / "headrace.log").chmod(0o644)
    conf = data / "broker.conf"
    conf.write_text("brokerName=private\n")
    conf.chmod(0o640)
    with HeadraceProcess(data, *SMALL, "-c", str(conf)).wait_ready() as appliance:
        name_server, broker = appliance.ports
        with PlainSender(broker) as sender:
            sender.send(1)
        assert ask(broker, RequestCode.UPDATE_BROKER_CONFIG, b"maxMessageSize=1000000\n").code == 0
        assert ask(name_server, RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\n").code == 0
        open_to_others = {path.name for path, mode in files_of(data).items() if mode & 0o137}
        assert appliance.stop() == 0
    names = {path.name for path in files_of(data)}
    assert names >= {
        "headrace.log",
        "stacks.log",
        "lock",
        "checkpoint",
        "topics.json",
        "broker.conf",
        "namesrv.properties",
    }
    assert open_to_others == {path.name for path, mode in files_of(data).items() if mode & 0o137} == set()


def test_symbolic_link_in_place_of_a_file_is_refused_and_its_target_unchanged(tmp_path: Path) -> None:
    data, victim = tmp_path / "data", tmp_path / "victim"
    victim.write_text(MINE)
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        with PlainSender(appliance.ports[1]) as sender:
            sender.send(1)
        assert appliance.stop() == 0
    for name in (
        "store/lock",
        "store/abort",
        "store/checkpoint",
        "store/config/topics.json",
        "store/config/topics.json.tmp",
        "store/commitlog/" + "0" * 20,
        "logs/headrace.log",
        "logs/stacks.log",
        "namesrv/kvConfig.json",
    ):
        path, kept = data / name, data / "kept"
        had = path.exists()
        if had:
            path.rename(kept)
        path.symlink_to(victim)
        with HeadraceProcess(data, *SMALL) as appliance:
            assert appliance.wait_end() == 3, name
            assert f"{path} is a symbolic link" in appliance.err
        assert victim.read_text() == MINE, name
        path.unlink()
        if had:
            kept.rename(path)
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        assert appliance.stop() == 0


def test_store_folder_may_be_a_symbolic_link(tmp_path: Path) -> None:
    data, disk = tmp_path / "data", tmp_path / "disk"
    disk.mkdir()
    data.mkdir()
    (data / "store").symlink_to(disk)
    with HeadraceProcess(data, *SMALL).wait_ready() as appliance:
        assert appliance.stop() == 0
    assert (disk / "commitlog").is_dir()
