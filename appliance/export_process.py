"""The process of an export that the console has requested: `headrace export run` with little memory and the lowest priority.

It runs nothing of the appliance but reads its store, like any other export. The supervisor starts it and waits for no disk, so what touches the
folder of exports is done here. It ends by SIGTERM: sent by the supervisor on request or when the appliance stops, by the kernel if the
supervisor dies, and by itself when the disk is full to the level at which brokers delete messages before their retention time.
"""

import contextlib
import datetime as dt
import json
import os
import resource
import signal
import stat
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from appliance import exit_code, process
from appliance.errors import ExportRefused
from appliance.export_order import ExportOrder
from ipc import interpreter
from store.disk import used_ratio

DISK_LEVEL: Final = 0.85
"""# limit: RocketMQ's diskSpaceCleanForciblyRatio: fuller, and brokers would delete messages to make room for the export."""
_MEMORY: Final = 2 << 30  # limit: an export needs less than 512 MiB; the libraries of tables reserve more than they use
_NICENESS: Final = 19
_KILL_FIRST: Final = "1000"
_LOOK_EVERY_S: Final = 1.0
_FOLDER_MODE: Final = 0o750
_KEPT: Final = ("LD_LIBRARY_PATH", "HOME", "PATH", "TMPDIR", "TZ")


def command(order: ExportOrder, folder: str, source: str, broker_name: str, cluster: str) -> list[str]:
    """The command line of the process. `folder`: the folder of exports; `source`: the broker's store; both absolute, as it runs elsewhere."""
    given = {
        "folder": folder, "target": order.target, "store": source,
        "options": _options(order, broker_name, cluster), "supervisor": os.getpid(),
    }  # fmt: skip
    program = "from appliance import export_process; export_process.main(sys.argv[1])"
    return interpreter.command(program, json.dumps(given))


def environment() -> dict[str, str]:
    """What the process may know of its surroundings: no account of the appliance. One thread decodes."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", **kept}


def _options(order: ExportOrder, broker_name: str, cluster: str) -> list[str]:
    """Options of `headrace export run`. Each is one argument, so that no value can be read as another option."""
    options = [
        f"--format={order.format}", f"--broker={broker_name}", f"--cluster={cluster}",
        "--engine=local", "--workers=1", "--progress=lines",
        *(f"--topic={topic}" for topic in order.topics),
    ]  # fmt: skip
    for name, time_ms in (("--from", order.from_ms), ("--to", order.to_ms)):
        if time_ms is not None:
            moment = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
            options.append(f"{name}={moment.isoformat(timespec='milliseconds')}")
    return options


def main(given: str) -> NoReturn:
    """The process: `given` is the JSON object of `command`."""
    settings: dict[str, Any] = json.loads(given)
    process.end_with_parent(settings["supervisor"], signal.SIGTERM)
    process.set_title(f"export {settings['target']}")
    _spare_brokers()
    try:
        target = make_target(Path(settings["folder"]), settings["target"], Path(settings["store"]))
        check_disk(target.parent)
    except (ExportRefused, OSError) as error:
        _say(error)
        sys.exit(exit_code.FAILED)
    threading.Thread(target=_watch_disk, args=(target.parent,), name="disk", daemon=True).start()
    _export(settings["store"], str(target), settings["options"])


def make_target(folder: Path, name: str, store: Path) -> Path:
    """The target's path; creates the folder of exports. Raises ExportRefused, OSError.

    The folder of exports may be a link, which the administrator has made. What is in it may not: the exporter would write wherever it leads.
    """
    if "#" in str(folder):
        raise ExportRefused(f"the export folder {folder} contains '#'; set exportFolder to a path without '#'")
    real, real_store = folder.resolve(), store.resolve()
    if real == real_store or real_store in real.parents:
        raise ExportRefused(
            f"the export folder {folder} is inside the store {store}; set exportFolder to another folder"
        )
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    target = folder / name
    with contextlib.suppress(FileNotFoundError):
        for path in (target, target / "_export"):
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise ExportRefused(f"{path} is a link or a file, not a folder; remove it, or choose another target")
    return target


def check_disk(folder: Path, level: float = DISK_LEVEL) -> None:
    """Raises ExportRefused if the disk is too full."""
    used = used_ratio(folder)
    if used >= level:
        raise ExportRefused(
            f"the disk of {folder} is {used:.0%} full, and exports stop at {level:.0%}; free some space, then start the export again"
        )


def _watch_disk(folder: Path) -> None:
    while True:
        time.sleep(_LOOK_EVERY_S)
        try:
            check_disk(folder)
        except ExportRefused as error:
            _say(error)
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _say(error: Exception) -> None:
    sys.stderr.write(f"headrace: {error}\n")
    sys.stderr.flush()


def _spare_brokers() -> None:
    """Limits of this process: brokers of the same machine come first."""
    os.nice(_NICENESS)
    process.take_long_slices()
    with contextlib.suppress(OSError, ValueError):  # a lower limit of this service holds
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_KILL_FIRST)


def _export(store: str, target: str, options: Sequence[str]) -> NoReturn:
    from appliance.cli import main as cli  # noqa: PLC0415  after the limits

    sys.argv = ["headrace", "export", "run", *options, "--", store, target]
    cli.main()
