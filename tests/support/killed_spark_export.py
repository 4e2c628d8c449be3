"""A program for tests that kill it: `killed_spark_export.py SOURCE TARGET FORMAT MASTER` exports with Spark, and ends with 0.

In many ranges, with a commit after each, so that there are many instants to be killed at.
"""

import sys
from pathlib import Path

from spark_exporter.engines.spark import SparkEngine
from spark_exporter.export import Export
from support.exported import request

RANGES = 40
"""About so many, whatever the machine has."""
SMALL_RANGES = 10_000


def main() -> None:
    source, target, table_format, master = sys.argv[1:]
    asked = request(Path(source), target, table_format, commit_every_s=0.0, least_range_bytes=SMALL_RANGES)
    engine = SparkEngine(master, RANGES // 2)
    try:
        with Export(asked, engine) as export:
            export.run_once()
    finally:
        engine.close()


if __name__ == "__main__":
    main()
