"""Exports with Spark in a process that a test kills.

killed_spark_export.py SOURCE MASTER WORKERS

Each input line `FORMAT TARGET` names the next target; when its export is done, `TARGET.done` exists. There are many
ranges, two for each worker, with a commit after each, so that there are many instants to be killed at. All exports
share one session, which ends with the input.
"""

import sys
from pathlib import Path

from spark_exporter.running.engines.spark import SparkEngine
from spark_exporter.running.export import Export
from support.exported import request

SMALL_RANGES = 10_000


def main() -> None:
    source, master, workers = sys.argv[1:]
    engine = SparkEngine(master, int(workers))
    try:
        for line in sys.stdin:
            table_format, target = line.split()
            asked = request(Path(source), target, table_format, commit_every_s=0.0, least_range_bytes=SMALL_RANGES)
            with Export(asked, engine) as export:
                export.run_once()
            Path(f"{target}.done").touch()
    finally:
        engine.close()


if __name__ == "__main__":
    main()
