"""Programs in other languages, driven by tests: the clients rocketmq-client-go and ali-ons (`tests/interop/go`, `tests/interop/node`), and an OpenID provider.

    sent = run("go", "send", namesrv=..., topic="Orders", group="group", count=10, accessKey=..., secretKey=...)

Each call is a process of its own. `python -m support.other_clients` fetches and builds everything that interop tests need, for a later run without network.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from support.java import ROOT, compile_program, openssl_jar

SOURCES: Final = ROOT / "tests" / "interop"
BUILD: Final = ROOT / "build"
DEADLINE_S: Final = 60


class OtherClientError(Exception):
    """What the client returned instead of a result."""


def run(client: str, do: str, **arguments: object) -> list[str]:
    """Runs an action of a client, `go` or `node`, and returns the bodies it has sent or received. OtherClientError if it returned an error."""
    command = CLIENTS[client]()
    given = json.dumps({"do": do, "deadlineS": DEADLINE_S, **arguments})
    done = subprocess.run([*command, given], check=False, capture_output=True, text=True, timeout=2 * DEADLINE_S)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "error" in said:
        raise OtherClientError(said["error"])
    result: list[str] = said["result"]
    return result


def go_client() -> list[str]:
    """The command of the Go program. The first call fetches the client's modules and compiles."""

    def build(folder: Path) -> list[str]:
        return ["go", "build", "-buildvcs=false", "-o", str(folder / "interop"), "."]

    return [str(_built("go", build) / "interop")]


def node_client() -> list[str]:
    """The command of the Node program. The first call fetches the client's packages."""

    def build(_folder: Path) -> list[str]:
        return ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]

    return ["node", str(_built("node", build) / "interop.js")]


def oidc_provider() -> list[str]:
    """The command of the OpenID provider, with which tests of the console log in. The first call fetches its packages."""

    def build(_folder: Path) -> list[str]:
        return ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]

    return ["node", str(_built("oidc", build) / "provider.js")]


CLIENTS: Final[dict[str, Callable[[], list[str]]]] = {"go": go_client, "node": node_client}


def _built(language: str, command: Callable[[Path], list[str]]) -> Path:
    """The folder with a built copy of a program's sources; builds it if a source has changed."""
    sources = sorted(file for file in (SOURCES / language).iterdir() if file.is_file())
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = BUILD / language / digest
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may build at once
        if not target.exists():
            fresh = target.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            for source in sources:
                shutil.copy(source, fresh)
            done = subprocess.run(command(fresh), cwd=fresh, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            os.rename(fresh, target)
    return target


if __name__ == "__main__":
    openssl_jar()
    compile_program()
    go_client()
    node_client()
    oidc_provider()
