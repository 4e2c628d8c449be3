"""Compares the exporter's speed with pyarrow's own, in MiB of log per second on two cores, for bodies of 1 KiB and 100 bytes.

    python bench/export.py [--gib 2] [--rounds 3] [--body 1024 --body 100] [--topics 14] [--folder /dev/shm]

W is the upper bound: pyarrow writes the same rows from memory, with the same writer and allocator settings, in two processes.
The engines read, decode, check, write and commit; `by topic` writes files per topic, `small topics` files of topics with 8 MiB
in a range.

The subjects take turns in each round, so that other load on the machine affects all alike. Each round gives ratios to its own W,
and the median counts. `others` is the CPU time of other processes, in cores: figures with more than 0.1 are unreliable.

`scan` reads `format("commitlog")` into a sink that discards the rows. `prepared` hands over the same rows in batches that are ready
in memory: it shows the time that Spark needs to convert Arrow batches into rows, which limits every data source in Python. The
scans of some columns show what is saved by requesting fewer.

Files are in memory (--folder), because otherwise the disk would be measured. Spark is started and has run once before; the first
run is reported separately.
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pyarrow as pa  # noqa: E402  (bench/ is no package)

from headrace.protocol.record import encode_blank, encode_record  # noqa: E402
from spark_exporter.planning.plan import open_source  # noqa: E402
from spark_exporter.reading.range_scan import ByteRange, RangeScan, ScanOptions  # noqa: E402
from spark_exporter.reading.record_choice import RecordChoice  # noqa: E402
from spark_exporter.reading.schema import MESSAGES  # noqa: E402
from spark_exporter.running.engines.engine import Engine  # noqa: E402
from spark_exporter.running.engines.local import LocalEngine  # noqa: E402
from spark_exporter.running.export import Export, ExportRequest  # noqa: E402
from spark_exporter.storage.location import Location  # noqa: E402
from spark_exporter.targets.ledger import TargetSpec  # noqa: E402
from spark_exporter.writing.layout import Layout  # noqa: E402
from spark_exporter.writing.range_files import WriteTask, open_writer  # noqa: E402

if TYPE_CHECKING:  # the workers import this file too and should not wait for Spark
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

PROCESSES = 2
MIB = 1 << 20
SEGMENT = 1 << 30
LAST_SEGMENT = 32 << 20
"""What the last one has: it is being written, as in any log, and its end must be looked for before anything else is done."""
POOL = 24_000
"""Different records. They come again after more than any compressor looks back."""
CLIENTS = [(f"10.0.0.{number}", 40000 + 7 * number) for number in range(1, 201)]
GROUP_ROWS = 131_072
GROUP_BYTES = 64 << 20
FLOORS = {1024: {"spark": 0.58, "local": 0.70}, 100: {"spark": 0.45, "local": 0.55}}
SCAN_FLOOR_MIB_S = 300 * 1e6 / MIB
MEMORY_FLOOR_MIB = 512
FLAT = Layout()
BY_TOPIC = Layout(group_by_topic=True)
SMALL_TOPICS = Layout(group_by_topic=True, small_topic_bytes=8 * MIB)
COLUMNS = {
    "2 columns": "topic,store_size",
    "6 columns": "topic,queue_id,queue_offset,keys,store_timestamp,body",
    "without map": ",".join(name for name in MESSAGES.names if name != "properties"),
}
"""Choices of columns whose scan is measured too."""


# ---- the log


def make_log(folder: Path, body_bytes: int, topics: int, size: int) -> None:
    """A CommitLog as written by brokers: segments of a GiB, JSON bodies of 0.5 to 1.5 times the given size."""
    folder.mkdir(parents=True)
    chance = random.Random(body_bytes)
    pool = [_record(chance, body_bytes, topics) for _ in range(POOL)]
    place = struct.Struct(">qq")
    stored = struct.Struct(">q")
    number = 0
    for base in range(0, size, SEGMENT):
        end = min(SEGMENT, size - base)
        with (folder / f"{base:020}").open("w+b") as file:
            file.truncate(SEGMENT)
            data = bytearray(end)
            at = 0
            while True:
                record = pool[number % POOL]
                if at + len(record) + 8 > end:
                    break
                data[at : at + len(record)] = record
                place.pack_into(data, at + 20, number // 112, base + at)
                stored.pack_into(data, at + 56, 1_795_000_000_000 + number // 50)
                at += len(record)
                number += 1
            if end == SEGMENT:
                data[at:] = encode_blank(SEGMENT - at).ljust(SEGMENT - at, b"\0")
            file.write(data)


def _record(chance: random.Random, body_bytes: int, topics: int) -> bytes:
    number = chance.randrange(1 << 40)
    body = bytearray(b'{"id":%d,"items":[' % number)
    wanted = int(body_bytes * chance.uniform(0.5, 1.5)) - 3
    while len(body) < wanted:
        body += b'{"sku":"%c%c-%06d","count":%d,"price":"%.2f"},' % (
            chance.randint(65, 90), chance.randint(65, 90), chance.randrange(10**6), chance.randint(1, 9),
            chance.random() * 1000,
        )  # fmt: skip
    body[max(wanted, 12) :] = b"]}"
    properties = ""
    if chance.random() < 0.9:
        pairs = {
            "KEYS": f"order-{number}", "UNIQ_KEY": f"{chance.randrange(1 << 128):032X}", "CLUSTER": "DefaultCluster",
            "WAIT": "true", "TAGS": f"Tag{chance.randint(0, 9)}",
        }  # fmt: skip
        properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    return encode_record(
        topic=f"Topic{int(chance.expovariate(5.6 / topics)) % topics}",
        body=bytes(body),
        properties=properties,
        queue_id=chance.randrange(8),
        born_timestamp=1_795_000_000_000,
        born_host=chance.choice(CLIENTS),
        store_host=("10.0.1.1", 10911),
    )


# ---- W


class MemoryWriters:
    """Two processes that have all rows in memory and write them on request."""

    def __init__(self, log: Path) -> None:
        self._pipes: list[Connection] = []
        context = multiprocessing.get_context("spawn")
        source = open_source(log)
        ranges = source.plan(source.first_offset, source.find_end(), PROCESSES).ranges
        self._processes = []
        for share in _deal(ranges):
            ours, theirs = context.Pipe()
            process = context.Process(target=_write_again, args=(theirs, share), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    @property
    def pids(self) -> frozenset[int]:
        """Their pids. They hold the whole log, unlike workers."""
        return frozenset(process.pid for process in self._processes if process.pid is not None)

    def write(self, target: Path) -> float:
        """The seconds that the slower one took."""
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(str(target))
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - began

    def close(self) -> None:
        """Ends both."""
        for process in self._processes:
            process.kill()
            process.join()


def _deal(ranges: Sequence[ByteRange]) -> list[list[ByteRange]]:
    """Distributes the ranges evenly: the largest range goes to the process with the least work."""
    shares: list[list[ByteRange]] = [[] for _ in range(PROCESSES)]
    for each in sorted(ranges, key=lambda one: one.size_bytes, reverse=True):
        min(shares, key=lambda share: sum(one.size_bytes for one in share)).append(each)
    return shares


def _write_again(pipe: Connection, ranges: list[ByteRange]) -> None:
    files = [_groups_of(each) for each in ranges]
    pipe.send("ready")
    while True:
        staging = Location(pipe.recv())
        task = WriteTask(ScanOptions(), Layout(), staging)
        for byte_range, groups in zip(ranges, files, strict=True):
            with (
                staging.open_write(f"{byte_range.start}.parquet") as sink,
                open_writer(sink, MESSAGES, task) as writer,
            ):
                for group in groups:
                    writer.write_table(group, row_group_size=group.num_rows)
        pipe.send("written")


def _groups_of(byte_range: ByteRange) -> list[pa.Table]:
    """The rows, grouped as by the exporter."""
    groups: list[pa.Table] = []
    gathered: list[pa.RecordBatch] = []
    options = ScanOptions("cluster", "broker", RecordChoice(include_system=True))
    for batch in RangeScan(byte_range, options).batches():
        gathered.append(batch)
        if (
            sum(each.num_rows for each in gathered) >= GROUP_ROWS
            or sum(each.nbytes for each in gathered) >= GROUP_BYTES
        ):
            groups.append(pa.Table.from_batches(gathered))
            gathered = []
    return [*groups, pa.Table.from_batches(gathered)] if gathered else groups


# ---- the engines, the scan


def export(log: Path, target: Path, engine: Engine, layout: Layout = FLAT) -> float:
    """The seconds of one run, from inspecting the target to the commit."""
    spec = TargetSpec("parquet", layout, RecordChoice(include_system=True))
    began = time.perf_counter()
    with Export(ExportRequest(log, str(target), spec, cluster="cluster"), engine) as run:
        run.run_once()
    return time.perf_counter() - began


@contextmanager
def plain_session() -> "Iterator[SparkSession]":
    """A session as users have it: the engine's own JVM is tuned for fast compilation because it is mostly idle."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(f"local[{PROCESSES}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR").getOrCreate()
    yield session
    session.stop()


def scan(log: Path, session: "SparkSession", columns: str = "", condition: str = "true") -> float:
    """Seconds of `format("commitlog")` into a sink that discards the rows; all columns if none are given."""
    rows = session.read.format("commitlog").option("includeSystem", "true").option("columns", columns).load(str(log))
    return _throw_away(rows.where(condition))


def scan_prepared(files: list[Path], session: "SparkSession") -> float:
    """The same for prepared batches: Spark's own share of the time."""
    return _throw_away(session.read.format("prepared").option("files", ",".join(map(str, files))).load())


def _throw_away(rows: "DataFrame") -> float:
    began = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def prepare(log: Path, folder: Path) -> list[Path]:
    """Writes what `format("commitlog")` would return, one file per range."""
    folder.mkdir()
    files = []
    for number, byte_range in enumerate(_plan(log)):
        batches = RangeScan(byte_range, ScanOptions("", "broker", RecordChoice(include_system=True))).batches()
        files.append(folder / f"{number}.arrow")
        with pa.ipc.new_file(str(files[-1]), MESSAGES) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return files


def prepared_source() -> "type[DataSource]":
    """A data source that yields batches from memory-mapped Arrow files.

    Defined locally, so that Spark ships it to its workers as a whole.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    spark_schema = from_arrow_schema(MESSAGES)

    class Reader(DataSourceReader):
        def __init__(self, files: list[str]) -> None:
            self._files = files

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(name) for name in self._files]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            file = pa.ipc.open_file(pa.memory_map(partition.value))
            for number in range(file.num_record_batches):
                yield file.get_batch(number)

    class Prepared(DataSource):
        @classmethod
        def name(cls) -> str:
            return "prepared"

        def schema(self) -> StructType:
            return spark_schema

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  they are as they are
            return Reader(self.options["files"].split(","))

    return Prepared


# ---- what it took


@dataclass
class Taken:
    """The rounds of one subject."""

    rates: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """Of a GiB, of all our processes."""
    others: list[float] = field(default_factory=list)
    worker_mib: float = 0.0


class Watch(threading.Thread):
    """Watches our worker processes: the highest memory use of any, and the CPU time of all."""

    def __init__(self, kind: str, but: frozenset[int]) -> None:
        super().__init__(daemon=True)
        self._kind = kind
        self._but = but
        self._over = threading.Event()
        self.most_mib = 0.0

    def run(self) -> None:
        """Samples until `stop`."""
        while not self._over.wait(0.5):
            for child in psutil.Process().children(recursive=True):
                try:
                    if child.pid not in self._but and any(self._kind in part for part in child.cmdline()):
                        self.most_mib = max(self.most_mib, _resident_mib(child.pid))
                except (psutil.Error, OSError):
                    continue

    def stop(self) -> None:
        """Ends the watch."""
        self._over.set()
        self.join()


def _resident_mib(pid: int) -> float:
    """The highest resident memory, including shared and mapped pages."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


@contextmanager
def watched(taken: Taken, kind: str, size: int, but: frozenset[int]) -> Iterator[None]:
    """Records the workers' memory and CPU time, ours and that of others. `but`: processes that are not workers."""
    watch = Watch(kind, but)
    watch.start()
    began, all_before, ours_before = time.perf_counter(), _busy_s(), _our_s()
    yield
    seconds = time.perf_counter() - began
    ours = _our_s() - ours_before
    taken.others.append(max(0.0, (_busy_s() - all_before - ours) / seconds))
    taken.cpu_s.append(ours * (1 << 30) / size)
    watch.stop()
    taken.worker_mib = max(taken.worker_mib, watch.most_mib)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _our_s() -> float:
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue
    return total


def measure(log: Path, scratch: Path, rounds: int, body_bytes: int) -> dict[str, Taken]:
    """Measures all subjects in turn; the scan separately, in a session configured like those of users."""
    from spark_exporter.running.engines.spark import SparkEngine  # noqa: PLC0415

    writers = MemoryWriters(log)
    size = sum(each.size_bytes for each in _plan(log))
    taken: dict[str, Taken] = defaultdict(Taken)

    def take_turns(subjects: dict[str, tuple[str, Callable[[], float]]]) -> None:
        """Runs all subjects in turn. The last one has already run once."""
        began = time.perf_counter()
        [*_, (last, (_, run))] = subjects.items()
        run()
        print(
            f"  {body_bytes} B: the first {last}, with Spark's start, {time.perf_counter() - began:.1f} s", flush=True
        )
        for number in range(rounds):
            for name, (kind, run) in subjects.items():
                shutil.rmtree(scratch, ignore_errors=True)
                with watched(taken[name], kind, size, writers.pids):
                    seconds = run()
                taken[name].rates.append(size / MIB / seconds)
                taken[name].ratios.append(taken[name].rates[-1] / taken["W"].rates[-1])
                print(
                    f"  {body_bytes} B, round {number + 1}: {name:19} {taken[name].rates[-1]:6.0f} MiB/s "
                    f"{taken[name].ratios[-1]:5.2f} W, {taken[name].cpu_s[-1]:.1f} core-s a GiB, "
                    f"others {taken[name].others[-1]:.2f} cores",
                    flush=True,
                )

    memory = ("spawn_main", lambda: writers.write(scratch / "w"))
    spark = SparkEngine(f"local[{PROCESSES}]")
    try:
        take_turns({
            "W": memory,
            "local": ("spawn_main", lambda: export(log, scratch / "local", LocalEngine(PROCESSES))),
            "local, by topic": ("spawn_main", lambda: export(log, scratch / "topic", LocalEngine(PROCESSES), BY_TOPIC)),
            "local, small topics": (
                "spawn_main", lambda: export(log, scratch / "small", LocalEngine(PROCESSES), SMALL_TOPICS),
            ),
            "spark": ("pyspark.daemon", lambda: export(log, scratch / "spark", spark)),
        })  # fmt: skip
        spark.close()
        with plain_session() as session:
            scans = spark_scans(log, prepare(log, scratch.parent / "prepared"), session)
            for run in scans.values():
                run()
            take_turns({"W": memory, **{name: ("pyspark.daemon", run) for name, run in scans.items()}})
    finally:
        spark.close()
        writers.close()
        for folder in (scratch, scratch.parent / "prepared"):
            shutil.rmtree(folder, ignore_errors=True)
    return taken


def spark_scans(log: Path, prepared: list[Path], session: "SparkSession") -> dict[str, Callable[[], float]]:
    """The scans by their names in the table; the last ones push a filter down."""
    session.dataSource.register(prepared_source())
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return {
        "scan": lambda: scan(log, session),
        "prepared": lambda: scan_prepared(prepared, session),
        **{f"scan, {name}": partial(scan, log, session, columns) for name, columns in COLUMNS.items()},
        "scan, one topic": lambda: scan(log, session, condition="topic = 'Topic3'"),
    }


def _plan(log: Path) -> tuple[ByteRange, ...]:
    source = open_source(log)
    return source.plan(source.first_offset, source.find_end(), PROCESSES).ranges


def table(results: dict[int, dict[str, Taken]]) -> str:
    """The results as a table."""
    lines = [
        "| bodies | | MiB/s, median (least to most) | of W | floor | core-s a GiB | MiB a worker | others, cores |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for body_bytes, taken in results.items():
        for name, each in taken.items():
            floor = FLOORS.get(body_bytes, {}).get(name)
            # The batches of `prepared` are mapped into the scanning processes, so their memory use means nothing.
            worker_mib = "" if name.startswith(("W", "scan", "prepared")) else f"{each.worker_mib:.0f}"
            said = f"{floor:.2f} W" if floor else f"{SCAN_FLOOR_MIB_S:.0f} MiB/s" if name == "scan" else ""
            lines.append(
                f"| {body_bytes} B | {name} | {statistics.median(each.rates):.0f} ({min(each.rates):.0f} to {max(each.rates):.0f}) "
                f"| {statistics.median(each.ratios):.2f} | {said} | {statistics.median(each.cpu_s):.1f} | {worker_mib} "
                f"| {statistics.median(each.others):.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark described above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--body", type=int, action="append", help="body size in bytes, repeatable (1024, 100)")
    parser.add_argument("--topics", type=int, default=14, help="number of topics, of very different sizes")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="folder for log and targets")  # noqa: S108
    given: Any = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["MIMALLOC_PURGE_DELAY"] = "20000"  # W uses the allocator settings that the engines give their workers
    results: dict[int, dict[str, Taken]] = {}
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=given.folder))
    try:
        for body_bytes in given.body or [1024, 100]:
            log = folder / "store" / "commitlog"
            make_log(log, body_bytes, given.topics, int(given.gib * SEGMENT) + LAST_SEGMENT)
            results[body_bytes] = measure(log, folder / "scratch", given.rounds, body_bytes)
            shutil.rmtree(folder / "store")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"\n{given.gib:g} GiB of log, {given.topics} topics, {PROCESSES} cores of {os.cpu_count()}\n\n{table(results)}"
    )


if __name__ == "__main__":
    main()
