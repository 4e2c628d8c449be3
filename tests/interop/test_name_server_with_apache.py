"""Apache's own broker and command line with our name server.

One Apache broker registers with two name servers, Apache's and ours, so both have the same data. `mqadmin` must print
the same for both.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.java import Java
from support.reference import SCRIPT, WITHOUT_TLS, Reference
from support.sdk import await_registered
from support.servers import free_ports, wait_until

ROOT = Path(__file__).resolve().parents[2]

OURS = """
import os, signal, sys
from nameserver import daemon
from nameserver.config import NameServerConfig
stop, told = os.pipe()
signal.signal(signal.SIGTERM, lambda *_: os.write(told, b"s"))
daemon.run(lambda: None, lambda: print("ready", flush=True), stop, NameServerConfig(), sys.argv[1], "127.0.0.1", int(sys.argv[2]))
"""


class Both:
    """Apache's name server and broker, and our name server."""

    def __init__(self, directory: Path) -> None:
        apaches_port, broker_port = free_ports()
        ours_port, _ = free_ports()
        self.apaches, self.ours = f"127.0.0.1:{apaches_port}", f"127.0.0.1:{ours_port}"
        self.broker = f"127.0.0.1:{broker_port}"
        self._directory = directory / "apache"
        self._process = subprocess.Popen(
            [sys.executable, "-c", OURS, str(directory / "ours"), str(ours_port)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        self._reference(
            "up",
            f"--namesrv-port={apaches_port}",
            f"--port={broker_port}",
            f"--namesrv={self.apaches};{self.ours}",
            "--heap=512m",
        )

    def stop_broker(self) -> None:
        """Stops Apache's servers; the broker unregisters."""
        self._reference("down")

    def stop(self) -> None:
        """Stops what is still running."""
        self._reference("down", "--kill")
        self._process.send_signal(signal.SIGTERM)
        _, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0

    def _reference(self, verb: str, *arguments: str) -> None:
        command = [sys.executable, str(SCRIPT), verb, str(self._directory), *arguments]
        flags = {"JAVA_TOOL_OPTIONS": " ".join((*Reference.flags, WITHOUT_TLS))}
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | flags
        )
        assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("name-servers"))
    try:
        for name_server in (both.apaches, both.ours):
            await_registered(name_server)
        yield both
    finally:
        both.stop()


def mqadmin(java: Java, *arguments: str) -> str:
    """The output of Apache's command line."""
    said: str = java.call("mqadmin", arguments=arguments)
    return said


def printed(java: Java, arguments: tuple[str, ...], name_server: str) -> list[str]:
    """The output of mqadmin with sorted lines; the name server's address and the broker's rates are masked."""
    done = mqadmin(java, *arguments, "-n", name_server).replace(name_server, "NAME SERVER")
    return sorted(_FRACTION.sub("FRACTION", done).splitlines())


_FRACTION = re.compile(r"\b[0-9]+\.[0-9]+\b(?!\.)")

SAME = (
    ("clusterList",),
    ("topicList", "-c"),
    ("topicRoute", "-t", "TBW102"),
    ("topicClusterList", "-t", "TBW102"),
    ("updateTopic", "-c", "DefaultCluster", "-t", "Made", "-r", "3", "-w", "5"),
    ("topicRoute", "-t", "Made"),
    ("updateKvConfig", "-s", "space", "-k", "k", "-v", 'größer "2"'),
    ("deleteKvConfig", "-s", "space", "-k", "k"),
    ("addWritePerm", "-b", "broker-a"),
    ("wipeWritePerm", "-b", "broker-a"),
    ("topicRoute", "-t", "Made"),
    ("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false"),
    ("deleteTopic", "-c", "DefaultCluster", "-t", "Made"),
    ("topicList",),
)
LOOKS = {"clusterList", "topicList", "topicRoute", "topicClusterList"}
"""Those that change nothing."""


def test_mqadmin_prints_the_same_for_both_name_servers_until_the_broker_unregisters(both: Both, java: Java) -> None:
    def ask(arguments: tuple[str, ...]) -> tuple[list[str], list[str]]:
        return printed(java, arguments, both.apaches), printed(java, arguments, both.ours)

    def is_the_same_and_known(arguments: tuple[str, ...]) -> bool:
        apaches, ours = ask(arguments)
        is_known = not any("Exception" in line or "No topic route" in line for line in apaches)
        return apaches == ours != [] and is_known

    for arguments in SAME:
        if arguments[0] in LOOKS:
            # The broker registers with both at slightly different times, and shortly after it has created a topic.
            # mqadmin leaves columns empty when a broker does not answer in time. So commands that gave equal output
            # once are not repeated.
            wait_until(lambda: is_the_same_and_known(arguments), 60, f"the same of both: {arguments}")  # noqa: B023
        else:
            apaches, ours = ask(arguments)
            assert ours == apaches, arguments
            assert apaches, arguments

    assert both.broker in mqadmin(java, "clusterList", "-n", both.ours)
    both.stop_broker()
    wait_until(lambda: both.broker not in mqadmin(java, "clusterList", "-n", both.ours), 60, "the broker is gone")
    assert mqadmin(java, "topicList", "-n", both.ours).split() == []
