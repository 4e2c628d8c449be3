"""Checks in a separate process whether a target behind a URL is reachable within REACHED_WITHIN_S.

The libraries of object stores retry for minutes, ignore signals meanwhile, and may abort the process. So a child process tries first, and is killed after
the timeout: `python -m spark_exporter.targets.reach TARGET`.
"""

import json
import os
import subprocess
import sys
from typing import Final

from spark_exporter import errors
from spark_exporter.errors import ExportError, TargetError
from spark_exporter.storage.location import Location, split_url

REACHED_WITHIN_S: Final = 30.0
"""# limit: timeout of the first response of a store or catalog."""

_reached: Final[set[str]] = set()


def check_reachable(target: str) -> None:
    """Raises an ExportError in one line if a target behind a URL does not respond in time. Checks once per process. Can be interrupted."""
    catalog, _, warehouse = target.partition("#")[0].partition("?warehouse=")
    if "#" in target and warehouse:
        check_reachable(warehouse)
    if not _is_remote(catalog) or target in _reached:
        return
    name = split_url(target.partition("#")[0])[0]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", __name__, target],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            said, complained = child.communicate(timeout=REACHED_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"{name}: no response within {REACHED_WITHIN_S:.0f} s; check the address, the network and the credentials"
            ) from None
        finally:
            child.kill()
    if child.returncode != 0:
        lines = [line.strip() for line in complained.splitlines() if line.strip()]
        raise TargetError(
            f"{name}: its client library exited with code {child.returncode}: {lines[-1] if lines else 'no message'}"
        )
    answer = json.loads(said)
    if answer["kind"]:
        kind: type[ExportError] = getattr(errors, answer["kind"], TargetError)
        raise kind(answer["said"])
    _reached.add(target)


def _is_remote(target: str) -> bool:
    scheme, separator, _ = target.partition("://")
    return bool(separator) and scheme not in {"file", "sqlite", "memory"}


def _ask(target: str) -> None:
    if "#" in target:
        from spark_exporter.targets.iceberg import IcebergSink  # noqa: PLC0415  needs its package

        IcebergSink(target).find_work()
    else:
        Location(target).exists()


def main() -> None:
    """The child process: prints the error as JSON."""
    kind = said = ""
    try:
        _ask(sys.argv[1])
    except ExportError as error:
        kind, said = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001  whatever libraries raise
        name = split_url(sys.argv[1].partition("#")[0])[0]
        kind, said = "TargetError", f"{name}: {(str(error).strip().splitlines() or [type(error).__name__])[0]}"
    sys.stdout.write(json.dumps({"kind": kind, "said": said}))


if __name__ == "__main__":
    main()
