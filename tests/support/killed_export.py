"""Exports or compacts in a process that a test kills.

killed_export.py SOURCE TARGET FORMAT [--pool] [--by-topic] [--tables] [--typed] [--kill-worker] [--compact]

It commits after every range, so that there are many instants to be killed at, and exits with 0.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import psutil

from spark_exporter.running.compact import compact
from spark_exporter.running.engines import local
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.targets.ledger import TargetSpec
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.layout import Layout
from support.exported import EVERYTHING, request


def kill_a_worker() -> None:
    """Kills the first worker found."""
    me = psutil.Process()
    while True:
        for child in me.children():
            try:
                if any("spawn_main" in part for part in child.cmdline()):
                    os.kill(child.pid, signal.SIGKILL)
                    return
            except (psutil.Error, ProcessLookupError):
                continue


def main() -> None:
    source, target, table_format, *flags = sys.argv[1:]
    if "--pool" in flags:
        local._SMALL_BYTES = 0  # type: ignore[misc]
    if "--kill-worker" in flags:
        threading.Thread(target=kill_a_worker, daemon=True).start()
    if "--compact" in flags:
        compact(open_target(target))
        return
    layout = Layout("--by-topic" in flags, "--tables" in flags)
    spec = TargetSpec(table_format, Layout(table_per_topic=True), EVERYTHING, body={}) if "--typed" in flags else None
    asked = request(Path(source), target, table_format, layout=layout, spec=spec, commit_every_s=0.0)
    with Export(asked, LocalEngine(2)) as export:
        export.run_once()


if __name__ == "__main__":
    main()
