"""Promtool, Prometheus's checker of rules and metrics: the machine's, or the one of Debian's package, unpacked under build/."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UNPACKED: Final = ROOT / "build" / "prometheus"


def promtool(*arguments: str, stdin: bytes = b"") -> str:
    """Returns what promtool prints. AssertionError if it finds something wrong."""
    done = subprocess.run([_find(), *arguments], input=stdin, capture_output=True, check=False)
    text = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, text
    return text


def _find() -> str:
    installed = shutil.which("promtool")
    if installed is not None:
        return installed
    tool = UNPACKED / "usr" / "bin" / "promtool"
    if not tool.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        # Installing the package would start a server.
        subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=UNPACKED, check=True, capture_output=True)
        (package,) = UNPACKED.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, UNPACKED], check=True, capture_output=True)
        package.unlink()
    return str(tool)
