"""Apache's own name server and broker, started for a test through `bench/reference/reference`.

    with Reference(tmp_path / "apache") as server:
        java.call("send", namesrv=server.name_server, ...)

To open somebody's store, put it at `data / "store"` first.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from support.appliance import Appliance
from support.servers import free_ports

PATIENT = {
    # It refuses requests that waited 200 ms, or during an append of a second, which happens on a busy machine.
    "waitTimeMillsInSendQueue": "30000",
    "osPageCacheBusyTimeOutMills": "30000",
}
WITHOUT_TLS = "-Dtls.server.mode=disabled"
"""It makes no certificate at its start, on which it spends most of what it still needs."""
SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "reference" / "reference"


class Reference:
    """Running name server and broker of Apache; ready when the constructor returns."""

    name = "reference"
    flags: ClassVar[tuple[str, ...]] = ()
    """Of both JVMs. A benchmark leaves them as Apache's are by themselves; tests, which want them to start soon, set `QUICK_START`."""

    def __init__(
        self,
        data: Path,
        *,
        settings: dict[str, str] | None = None,
        ports: tuple[int, int] | None = None,
        more: tuple[str, ...] = (),
        tls: tuple[str, ...] | None = None,
    ) -> None:
        """`settings`: broker keys. `ports`: name server's and broker's. `more`: further arguments of `reference up`.

        If flags are set, TLS applies only to settings with signatures (aclEnable), or with `tls`: further flags of both JVMs.
        """
        self.data = data
        self.ports = ports or free_ports()
        sets = [f"--set={key}={value}" for key, value in {**PATIENT, **(settings or {})}.items()]
        without_tls = bool(self.flags) and tls is None and "aclEnable" not in (settings or {})
        flags = (*self.flags, WITHOUT_TLS) if without_tls else (*self.flags, *(tls or ()))
        _run("up", str(data), f"--namesrv-port={self.ports[0]}", f"--port={self.ports[1]}", *sets, *more, flags=flags)

    @property
    def name_server(self) -> str:
        """HOST:PORT of the name server."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def broker(self) -> str:
        """HOST:PORT of the broker."""
        return f"127.0.0.1:{self.ports[1]}"

    @property
    def store(self) -> Path:
        """The store's root."""
        return self.data / "store"

    def pids(self) -> list[int]:
        """The Java processes."""
        files = (self.data / f"{part}.pid" for part in ("namesrv", "broker"))
        return [int(file.read_text()) for file in files if file.exists()]

    def stop(self) -> None:
        """SIGTERM, broker first; waits."""
        _run("down", str(self.data))

    def kill(self) -> None:
        """Kills both processes with SIGKILL."""
        _run("down", str(self.data), "--kill")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_Made = TypeVar("_Made", Reference, Appliance, Reference | Appliance)


@contextmanager
def disposable(server: _Made) -> Iterator[_Made]:
    """A server for a fixture whose store is not needed afterwards; it takes gigabytes and is removed.

    Apache's needs ten seconds to stop cleanly and is killed.
    """
    with server:
        yield server
        if isinstance(server, Reference):
            server.kill()
    shutil.rmtree(server.store)


def _run(*arguments: str, flags: tuple[str, ...] = ()) -> None:
    environment = os.environ | ({"JAVA_TOOL_OPTIONS": " ".join(flags)} if flags else {})
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, f"reference {' '.join(arguments)} exited with {done.returncode}\n{done.stdout}"
