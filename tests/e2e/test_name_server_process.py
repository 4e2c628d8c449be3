"""The name server as a separate process: it starts, beats, serves, keeps its KV config, and stops on request."""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.remoting import RemotingClient
from nameserver import daemon
from nameserver.config import NameServerConfig
from nameserver.errors import PortTaken
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow


def tell(fd: int) -> None:
    os.write(fd, b"!")


class Process:
    """A forked child that runs the name server and reports heartbeats and readiness over pipes."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port = port
        self._stop_read, self._stop = os.pipe()
        self._beats, beats = os.pipe()
        self._ready, ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 70
            try:
                daemon.run(
                    lambda: tell(beats),
                    lambda: tell(ready),
                    self._stop_read,
                    NameServerConfig(),
                    directory,
                    "127.0.0.1",
                    port,
                )
                status = 0
            except PortTaken:
                status = 75
            finally:
                os._exit(status)
        for fd in (beats, ready):
            os.close(fd)

    def wait_ready(self) -> None:
        assert select.select([self._ready], [], [], 60)[0], "not ready within 60 s"
        assert os.read(self._ready, 1) == b"!"

    def count_beats(self) -> int:
        return len(os.read(self._beats, 65536)) if select.select([self._beats], [], [], 0)[0] else 0

    def tell_to_stop(self) -> None:
        os.write(self._stop, b"s")

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        for fd in (self._stop_read, self._stop, self._beats, self._ready):
            os.close(fd)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def running(directory: Path, port: int) -> Iterator[Process]:
    process = Process(directory, port)
    try:
        process.wait_ready()
        yield process
    finally:
        process.tell_to_stop()
        assert process.wait() == 0


def ask(port: int, code: int, body: bytes = b"", **ext: str) -> RemotingCommand:
    async def main() -> RemotingCommand:
        client = RemotingClient()
        try:
            return await client.request(f"127.0.0.1:{port}", create_request(code, ext, body), 60_000)
        finally:
            await client.close()

    return asyncio.run(main())


def test_name_server_beats_serves_and_stops_on_request(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port) as process:
        assert ask(port, 206).body == b'{"topicList":[]}'
        wait_until(lambda: process.count_beats() > 0, 60, "a beat")
        wait_until(lambda: process.count_beats() > 0, 60, "another beat")
        assert f"listenPort={port}\n".encode() in ask(port, 319).body
        with socket.create_connection(("127.0.0.1", port)):
            process.tell_to_stop()
            assert process.pid
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_restart_keeps_kv_config_and_port(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port):
        assert ask(port, 100, namespace="space", key="k", value="v").code == 0
    with running(tmp_path, port):
        assert ask(port, 101, namespace="space", key="k").ext == {"value": "v"}


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        read, write = os.pipe()
        with pytest.raises(PortTaken) as caught:
            daemon.run(lambda: None, lambda: None, read, NameServerConfig(), tmp_path, "127.0.0.1", port)
        os.close(read)
        os.close(write)
    assert isinstance(caught.value, OSError)
    message = str(caught.value)
    assert f"port {port} of 127.0.0.1 is in use" in message
    assert "choose another port" in message
    assert "\n" not in message


def test_name_server_stops_despite_an_incomplete_request(tmp_path: Path) -> None:
    port = free_port()
    process = Process(tmp_path, port)
    process.wait_ready()
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(create_request(206).encode()[:20])
        process.tell_to_stop()
        assert process.wait() == 0
