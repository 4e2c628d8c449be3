"""What a worker needs at most, whatever is in the log: less than 512 MiB (docs/exporter/spark.md)."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from spark_exporter import range_files
from spark_exporter.layout import Layout
from spark_exporter.location import Location
from spark_exporter.plan import open_source
from spark_exporter.range_files import WriteTask, write_range
from spark_exporter.range_scan import ScanOptions
from spark_exporter.record_choice import RecordChoice
from support.small_log import STORE_MS, SmallLog

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


@pytest.mark.parametrize("layout", [BY_TOPIC, Layout(table_per_topic=True)], ids=["folders", "tables"])
def test_a_range_of_more_topics_than_may_be_open_is_read_again_for_the_others(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, day_ms = SmallLog(tmp_path, MIB), 24 * 3600 * 1000
    for number in range(600):
        log.append(b"x", topic=f"Topic{number * 7 % 23}", store_timestamp=STORE_MS + number // 200 * day_ms)
    log.write()
    source = open_source(tmp_path)
    (whole,) = source.plan(0, source.find_end(), certain=True).ranges
    results = []
    for most in (1000, 5):
        monkeypatch.setattr(range_files, "_MOST_FILES", most)
        staging = Location(str(tmp_path / f"staging-{most}"))
        result = write_range(whole, WriteTask(EVERYTHING, layout, staging))
        results.append(
            {each.name + each.table: Path(staging.path_of(each.staged)).read_bytes() for each in result.files}
        )
        assert (result.rows, sum(each.rows for each in result.files), result.landed) == (600, 600, log.end)
    assert results[0] == results[1]
    assert len(results[0]) == 23 * 3


@pytest.mark.parametrize("layout", [Layout(), BY_TOPIC], ids=["flat", "by-topic"])
def test_a_worker_stays_below_512_mib_with_the_largest_messages(layout: Layout, tmp_path: Path) -> None:
    log, chance = SmallLog(tmp_path / "store", 160 * MIB), random.Random(4)
    body = chance.randbytes(LARGEST_MESSAGE - 500)
    for number in range(38):
        log.append(body, topic=f"Topic{number % 8}")
    log.write(0)
    program = (
        "import re, sys; from pathlib import Path; from test_memory_of_workers import *\n"
        f"rows = write(Path(sys.argv[1]), {layout!r})\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(rows, peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(log.root)],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path]), "MIMALLOC_PURGE_DELAY": "20000"},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    rows, peak_kib = map(int, done.stdout.split())
    assert rows == 38
    assert peak_kib / 1024 < 512
