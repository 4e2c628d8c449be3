"""Shared by the `headrace filter` commands: where an appliance keeps its filter functions, and how one is checked."""

import asyncio
import contextlib
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from appliance.cli.broker_store import store_of
from appliance.config import ApplianceConfig
from appliance.errors import ApplianceError
from store.filter.python import launch
from store.filter.python.functions import FOLDER, BadFunctionFile, FunctionFolder, decode_source, is_name

_START_S: Final = 20.0  # limit: an interpreter starts in a fifth of a second
_LOAD_S: Final = 5.0


def folder_of(data: str, broker: str | None) -> FunctionFolder:
    """The functions of a broker of the appliance on a data folder, or of its only one. Raises ApplianceError where there is none."""
    config = store_of(data, broker) / "config"
    if not config.is_dir():
        raise ApplianceError(
            f"{config.parent.parent}: no appliance has run in this folder; specify the appliance's data folder with --data DIR"
        )
    return FunctionFolder(config / FOLDER)


def known_function(folder: FunctionFolder, name: str) -> None:
    """Raises ApplianceError, which lists the functions, if none has this name."""
    if folder.version(name) is None:
        names = ", ".join(folder.names()) or "none"
        raise ApplianceError(f"filter function {name} does not exist; existing functions: {names}")


def read_function(file: str, name: str | None = None) -> tuple[str, str]:
    """The name and the source of a function in a file. Raises ApplianceError."""
    path = Path(file)
    name = name or path.name.removesuffix(".py")
    if not is_name(name):
        raise ApplianceError(
            f"{name!r} is not a valid function name (a letter, then letters, digits, _ and -, at most 64 characters); set one with --name"
        )
    try:
        return name, decode_source(path.read_bytes())
    except OSError as error:
        raise ApplianceError(f"{file}: {error.strerror}") from error
    except BadFunctionFile as error:
        raise ApplianceError(f"{file}: {error}") from error


def check_function(name: str, source: str) -> None:
    """Loads the function in a sandboxed process, as the broker does. Raises ApplianceError that says why it cannot be used."""
    from broker.filtering.python_filters import PythonFilterFailed  # noqa: PLC0415  slow to import, and of no use to --help

    with tempfile.TemporaryDirectory(prefix="headrace-filter-") as folder:
        path = Path(folder, "worker.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(1)
            process = subprocess.Popen(
                launch.command(listening.fileno(), ApplianceConfig().python_filter_memory),
                env=launch.environment(),
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
            )
        try:
            asyncio.run(_load(name, source, path))
        except PythonFilterFailed as error:
            raise ApplianceError(str(error)) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


async def _load(name: str, source: str, path: Path) -> None:
    from broker.filtering.python_filters import PythonFilterWorker  # noqa: PLC0415  as above

    worker = await PythonFilterWorker.call(name, source, path, _START_S, _LOAD_S)
    worker.close()
