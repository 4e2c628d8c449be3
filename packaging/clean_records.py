"""Removes files that do not exist from the lists of installed files: `python packaging/clean_records.py SITE_PACKAGES`.

Such lines have hashes of commands and notes that name the folder of the build.
"""

# ruff: noqa: INP001 (a program, no package)

import csv
import sys
from pathlib import Path


def clean(site_packages: Path) -> None:
    """Rewrite every RECORD in the folder, sorted."""
    for record in site_packages.glob("*.dist-info/RECORD"):
        with record.open(newline="", encoding="utf-8") as file:
            rows = sorted(row for row in csv.reader(file) if (site_packages / row[0]).exists())
        with record.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    clean(Path(sys.argv[1]))
