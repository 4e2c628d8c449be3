"""What a worker needs at most, whatever is in the log: less than 512 MiB (docs/exporter/spark.md)."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from spark_exporter.planning.plan import open_source
from spark_exporter.reading.range_scan import ScanOptions
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.storage.location import Location
from spark_exporter.writing.layout import Layout
from spark_exporter.writing.range_files import WriteTask, write_range
from support.small_log import SmallLog

MIB = 1 << 20
EVERYTHING = ScanOptions(choice=RecordChoice(include_system=True))
BY_TOPIC = Layout(group_by_topic=True)
LARGEST_MESSAGE = 4 * MIB
"""maxMessageSize, of the whole record."""


def write(root: Path, layout: Layout) -> int:
    """Write the only range as a worker does; how many rows."""
    source = open_source(root)
    (whole,) = source.plan(0, source.find_end(), certain=True).ranges
    return write_range(whole, WriteTask(EVERYTHING, layout, Location(str(root / "staging")))).rows


def write_elsewhere(root: Path, layout: Layout, limits: str = "") -> tuple[int, float, bool]:
    """The same in a process of its own: how many rows, how many MiB it needed at most, and whether it has imported pandas."""
    program = (
        "import re, resource, sys; from pathlib import Path; from test_worker_memory import *\n"
        f"{limits}\n"
        f"rows = write(Path(sys.argv[1]), {layout!r})\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(rows, peak, int('pandas' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(root)],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path]), "MIMALLOC_PURGE_DELAY": "20000"},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    rows, peak_kib, has_pandas = map(int, done.stdout.split())
    return rows, peak_kib / 1024, bool(has_pandas)


def test_worker_does_not_import_pandas(tmp_path: Path) -> None:
    log = SmallLog(tmp_path)
    log.append(b"x")
    log.write(0)
    rows, _, has_pandas = write_elsewhere(log.root, Layout())
    assert (rows, has_pandas) == (1, False)


def test_files_of_many_topics_are_written_one_after_another(tmp_path: Path) -> None:
    log = SmallLog(tmp_path, MIB)
    for number in range(600):
        log.append(b"x", topic=f"Topic{number * 7 % 150}")
    log.write(0)
    few = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    assert write_elsewhere(log.root, BY_TOPIC, few)[0] == 600
    assert len(list((tmp_path / "staging").glob("*/*"))) == 150


@pytest.mark.parametrize("layout", [Layout(), BY_TOPIC], ids=["flat", "by-topic"])
def test_worker_stays_below_512_mib_with_the_largest_messages(layout: Layout, tmp_path: Path) -> None:
    log, chance = SmallLog(tmp_path / "store", 160 * MIB), random.Random(4)
    body = chance.randbytes(LARGEST_MESSAGE - 500)
    for number in range(38):
        log.append(body, topic=f"Topic{number % 8}")
    log.write(0)
    rows, peak_mib, _ = write_elsewhere(log.root, layout)
    assert rows == 38
    assert peak_mib < 512
