"""`headrace setup`: its questions in a terminal, its flags without one, and what the result can do."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace import HeadraceError
from headrace.client.settings import Credentials
from headrace.sync import Admin, ClientConfig
from support.headrace_process import REPOSITORY, HeadraceProcess, headrace

pytestmark = pytest.mark.slow

DEADLINE_S = 60


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.fd, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "appliance.cli.main", *arguments],
            stdin=terminal, stdout=terminal, stderr=terminal, cwd=cwd, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
        os.close(terminal)
        self.out = ""

    def answer(self, question: str, text: str) -> None:
        self.wait_for(question)
        self.out = self.out.partition(question)[2]
        os.write(self.fd, f"{text}\n".encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.out:
            assert self.read(deadline), (text, self.out)

    def read(self, deadline: float) -> bool:
        """Reads what is there; False at the end."""
        if not select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            self.out += os.read(self.fd, 65_536).decode()
        except OSError:  # all writers have ended
            return False
        return True

    def end(self) -> int:
        deadline = time.monotonic() + DEADLINE_S
        while self.read(deadline):
            pass
        os.close(self.fd)
        return self.process.wait(DEADLINE_S)


def test_five_answers_in_a_terminal_make_a_configuration(tmp_path: Path) -> None:
    terminal = Terminal("setup", cwd=tmp_path)
    terminal.answer("Address to listen on, which clients must be able to reach [127.0.0.1]: ", "")
    terminal.answer("Data folder [data]: ", "messages")
    terminal.answer("Memory of the machine in MB", "much")
    terminal.answer("Memory of the machine in MB", "2048")
    terminal.answer("Create certificates and offer TLS [y/N]: ", "y")
    terminal.answer("Access key of an administrator; empty: no accounts", "operator")
    assert terminal.end() == 0, terminal.out
    folder = tmp_path / "conf"
    assert f"headrace run --data {tmp_path}/messages --config {folder}/appliance.toml" in terminal.out
    assert "export NAMESRV_ADDR=127.0.0.1:9876" in terminal.out
    assert 'host = "127.0.0.1"' in (folder / "appliance.toml").read_text()
    assert (folder / "broker.conf").read_text().splitlines() == ["aclEnable=true", "mappedFileSizeCommitLog=268435456"]
    assert (folder / "tls" / "server.pem").exists()
    assert headrace("config", "check", folder / "appliance.toml").returncode == 0


def test_account_that_was_set_up_is_accepted_and_others_are_not(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "conf"
    done = headrace(
        "setup", "--host", "127.0.0.1", "--data", data, "--memory", "1024", "--no-tls", "--admin", "operator", "--folder", folder
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.search("^secret key: (.+)$", done.stdout, re.MULTILINE)
    assert found
    files = ("-c", str(folder / "broker.conf"), "--config", str(folder / "appliance.toml"))
    with HeadraceProcess(data, *files).wait_ready() as appliance:
        server, broker = (f"127.0.0.1:{port}" for port in appliance.ports)
        with Admin(ClientConfig(server, credentials=Credentials("operator", found[1]))) as admin:
            assert admin.broker_config(broker)["aclEnable"] == "true"
        with Admin(server) as stranger, pytest.raises(HeadraceError):
            stranger.broker_config(broker)
        assert appliance.stop() == 0


def test_files_that_exist_keep_their_other_lines(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "appliance.toml").write_text('# ours\n# host = "127.0.0.1"\nlogLevel = "debug"\n[[broker]]\nname = "a"\n')
    (folder / "broker.conf").write_text("# ours\nfileReservedTime=24\naclEnable=true\n")
    done = headrace("setup", "--yes", "--host", "127.0.0.2", "--memory", "65536", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (folder / "appliance.toml").read_text() == (
        '# ours\nhost = "127.0.0.2"\nlogLevel = "debug"\n[[broker]]\nname = "a"\n'
    )
    assert (folder / "broker.conf").read_text() == "# ours\nfileReservedTime=24\naclEnable=false\n"


def test_small_machine_gets_small_log_files_and_a_store_keeps_the_size_of_its_own(tmp_path: Path) -> None:
    def size_for(data: str, memory: str) -> list[str]:
        done = headrace("setup", "--yes", "--data", data, "--memory", memory, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "conf" / "broker.conf").read_text().splitlines()
        return [line for line in lines if line.startswith("mappedFileSizeCommitLog")]

    for data, size in (("large", 1 << 30), ("small", 65_536_000)):
        log = tmp_path / data / "store" / "commitlog"
        log.mkdir(parents=True)
        with (log / f"{0:020}").open("wb") as file:
            file.truncate(size)
    assert size_for("large", "65536") == []
    assert size_for("new", "4095") == ["mappedFileSizeCommitLog=268435456"]
    assert size_for("large", "1024") == ["mappedFileSizeCommitLog=1073741824"]
    assert size_for("small", "65536") == ["mappedFileSizeCommitLog=65536000"]
    assert size_for("new", "1024") == ["mappedFileSizeCommitLog=65536000"]


@pytest.mark.parametrize(
    ("toml", "conf", "store"),
    [
        ("", "storePathCommitLog={home}/elsewhere\n", "elsewhere"),
        ("brokers = 2\n", "", "data/broker-b/store/commitlog"),
        ('[[broker]]\nname = "one"\nstore = "{home}/one"\n', "", "one/commitlog"),
    ],
)
def test_store_keeps_the_size_of_its_log_files_wherever_it_is(tmp_path: Path, toml: str, conf: str, store: str) -> None:
    folder, log = tmp_path / "conf", tmp_path / store
    folder.mkdir()
    log.mkdir(parents=True)
    (folder / "appliance.toml").write_text(toml.format(home=tmp_path))
    (folder / "broker.conf").write_text(conf.format(home=tmp_path))
    with (log / f"{0:020}").open("wb") as file:
        file.truncate(1 << 30)
    done = headrace("setup", "--yes", "--data", "data", "--memory", "1024", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mappedFileSizeCommitLog" not in (folder / "broker.conf").read_text()


def test_broker_conf_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "broker.conf").write_text("brokerName=\\u12\n")
    done = headrace("setup", "--yes", cwd=tmp_path)
    assert done.returncode != 0
    assert "broker.conf" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--host", "127.0.0.1"), "standard input is not a terminal"),
        (("--yes", "--memory", "64"), "Headrace needs at least 512 MB"),
        (("--yes", "--admin", "me"), "at least 7 characters"),
        (("--yes", "--admin", "opera\ntor=1"), "access key"),
    ],
)
def test_invalid_answers_write_nothing(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    done = headrace("setup", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("broker.conf"))
