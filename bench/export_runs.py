"""Long runs of the exporter: compared with the official client, beside a broker that is killed, and on growing logs.

    python bench/export_runs.py client [--gib 4] [--server apache --server headrace] [--engine local --engine spark]
    python bench/export_runs.py follow [--minutes 5]
    python bench/export_runs.py growth [--gib 1 --gib 2 --gib 4 --gib 8] [--segments 10000]

client   Fills the store of a broker, receives all of it with a consumer of the official Java client, exports the store once with
         each engine, and compares for each queue: messages, first and last offset, and a sum over bodies and offsets. Takes ten
         minutes on two cores. The filling and receiving program reports progress on standard error, and ends the run after two
         minutes without progress.
         For messages further back than accessMessageInMemoryMaxRatio (40 percent of memory), both brokers return 8 messages or
         64 KiB per pull instead of 32 or 256 KiB. maxTransferCountOnMessageInDisk and maxTransferBytesOnMessageInDisk are raised
         to the higher values here.
follow   Runs `headrace export --follow` beside a broker under load whose retention deletes files, and which is killed once.
         Afterwards the table has each queue's offsets exactly once and without gaps, and every acknowledged message.
growth   Measures time, CPU time and the driver's memory against the size of the log, and the time to plan very many segments. The
         straight line is fitted to CPU times, which do not depend on other load on the machine.

Each prints its results and appends them to bench/RESULTS.md unless --print is given. The exit code is 1 if a check failed. Needs disk
space of about three times the exported log. `others` is the CPU time of other processes, in cores.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import pyarrow.dataset as ds  # noqa: E402  (bench/ is no package)

from headrace.protocol.record import encode_blank, encode_record  # noqa: E402
from support.appliance import Appliance  # noqa: E402
from support.java import class_path  # noqa: E402
from support.plain_sender import PlainSender  # noqa: E402
from support.reference import Reference  # noqa: E402

RESULTS = ROOT / "bench" / "RESULTS.md"
SERVERS: dict[str, type[Reference] | type[Appliance]] = {"apache": Reference, "headrace": Appliance}
ENGINES = ["local", "spark"]
TOPICS = 5
MASK = (1 << 64) - 1
GENEROUS = {"maxTransferCountOnMessageInDisk": "64", "maxTransferBytesOnMessageInDisk": "262144"}
Queues = dict[tuple[str, int], tuple[int, int, int, int]]
"""By topic and queue: messages, first and last offset, sum."""


def main() -> int:
    """Runs the comparison described above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=["client", "follow", "growth"])
    parser.add_argument("--gib", type=float, action="append", help="size of the log (client 4; growth 1, 2, 4, 8)")
    parser.add_argument(
        "--server", choices=SERVERS, action="append", help="client: the broker that writes the store (both)"
    )
    parser.add_argument("--engine", choices=ENGINES, action="append", help="client: the engine that exports (both)")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="folder for stores and tables (a temporary folder)")
    parser.add_argument("--print", action="store_true", help="print only, do not change RESULTS.md")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-export-runs-", dir=options.folder))
    try:
        with Others() as others:
            if options.run == "client":
                good, lines = compare_with_client(
                    folder, options.gib or [4.0], options.server or list(SERVERS), options.engine or ENGINES
                )
            elif options.run == "follow":
                good, lines = follow_a_broker(folder, options.minutes)
            else:
                good, lines = grow(folder, options.gib or [1.0, 2.0, 4.0, 8.0], options.segments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    section = "\n".join(
        [
            f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, the exporter: {options.run}", "", *lines, "",
            f"{psutil.cpu_count()} cores; other processes used {others.cores:.1f} of them. {'Passed.' if good else 'FAILED.'}", "",
        ]
    )  # fmt: skip
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write("\n" + section)
    return 0 if good else 1


class Others:
    """CPU time of processes other than ours and our children."""

    def __enter__(self) -> "Others":
        self.cores = 0.0
        self._began = time.monotonic()
        self._all, self._ours = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        whole, ours = self._read()
        self.cores = max(0.0, (whole - self._all - ours + self._ours) / (time.monotonic() - self._began))

    @staticmethod
    def _read() -> tuple[float, float]:
        times, ours = psutil.cpu_times(), os.times()
        return sum(times) - times.idle - times.iowait, sum(ours[:4])


def headrace(*arguments: object) -> list[str]:
    """Runs the `headrace` command."""
    return [sys.executable, "-m", "appliance.cli.main", *map(str, arguments)]


def environment() -> dict[str, str]:
    """The environment of programs that we start."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


# ---- client


def compare_with_client(
    folder: Path, sizes: list[float], servers: list[str], engines: list[str]
) -> tuple[bool, list[str]]:
    """Compares the tables of all engines with what a consumer of the official client receives."""
    lines = [
        "| store of | log, GiB | queues | messages | the client receives, s | engine | export, s | MiB/s | each queue equal |",
        "|---|" + "---:|" * 4 + "---|" + "---:|" * 3,
    ]
    problems: list[str] = []
    for name in servers:
        for size in sizes:
            work = folder / f"{name}-{size:g}"
            with SERVERS[name](work / "server", settings=GENEROUS) as server:
                say(f"{name}: filling")
                sent = int(java(server.name_server, "send", int(size * (1 << 30) * 0.8), TOPICS))
                wait_flushed(server.store)
                say(f"{name}: receiving {sent:,} messages")
                began = time.monotonic()
                received = queues_said(java(server.name_server, "receive", TOPICS, sent))
                receiving_s = time.monotonic() - began
                for engine in engines:
                    say(f"{name}: exporting, {engine}")
                    export_s, size_mib, exported = export_topics(server.store, work / engine, engine)
                    wrong = differences(sent, received, exported)
                    problems += [f"{name}, {engine}: {each}" for each in wrong]
                    lines.append(
                        f"| {'Apache' if name == 'apache' else 'Headrace'} | {size_mib / 1024:.2f} | {len(received)} | {sent:,} | {receiving_s:.0f} | "
                        f"{engine} | {export_s:.1f} | {size_mib / export_s:.0f} | {'NO' if wrong else 'yes'} |"
                    )
                    say(lines[-1])
            shutil.rmtree(work)
    if problems:
        lines += ["", *(f"- {problem}" for problem in problems)]
    return not problems, lines


def export_topics(store: Path, target: Path, engine: str) -> tuple[float, float, Queues]:
    """Seconds, MiB of log, and the contents of the table, which is removed again."""
    topics = [part for number in range(TOPICS) for part in ("--topic", f"Store{number}")]
    began = time.monotonic()
    done = subprocess.run(
        headrace("export", store, target, "--engine", engine, *topics),
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=ROOT,
    )  # fmt: skip
    seconds = time.monotonic() - began
    say(done.stdout.strip())
    done.check_returncode()
    size_mib = int(done.stdout.partition(" records (")[2].partition(" bytes, ")[0].replace(",", "")) / (1 << 20)
    exported = queues_of_table(target)
    shutil.rmtree(target)
    return seconds, size_mib, exported


def differences(sent: int, received: Queues, exported: Queues) -> list[str]:
    """The differences: none, or one line per queue."""
    wrong = [
        f"{topic} {queue}: received {received.get((topic, queue))}, exported {exported.get((topic, queue))} (messages, first, last, sum)"
        for topic, queue in sorted(received.keys() | exported.keys())
        if received.get((topic, queue)) != exported.get((topic, queue))
    ]
    count = sum(each[0] for each in exported.values())
    return wrong if count == sent else [*wrong, f"{sent:,} messages were acknowledged, {count:,} exported"]


def say(line: str) -> None:
    """Prints progress."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)


def java(name_server: str, *arguments: object) -> str:
    """Runs StoreLoad and returns its output. It reports progress on standard error, and ends by itself if it stalls."""
    program = str(ROOT / "bench" / "StoreLoad.java")
    command = ["java", "-Xmx1g", "-cp", class_path(), program, name_server, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def queues_said(text: str) -> Queues:
    """Parses the lines of StoreLoad."""
    found: Queues = {}
    for line in text.splitlines():
        topic, queue, count, first, last, total = line.split()
        if int(count):
            found[topic, int(queue)] = (int(count), int(first), int(last), int(total))
    return found


def queues_of_table(target: Path) -> Queues:
    """The same figures from the exported files."""
    counts: dict[tuple[str, int], list[int]] = {}
    data = ds.dataset(str(target), partitioning="hive")
    for batch in data.scanner(["topic", "queue_id", "queue_offset", "body"]).to_batches():
        for topic, queue, offset, body in zip(*(batch[name].to_pylist() for name in batch.schema.names), strict=True):
            each = counts.setdefault((topic, queue), [0, offset, offset, 0])
            each[0] += 1
            each[1] = min(each[1], offset)
            each[2] = max(each[2], offset)
            each[3] = each[3] + (crc32(body) + 1) * (2 * offset + 1) & MASK
    return {queue: (each[0], each[1], each[2], each[3]) for queue, each in counts.items()}


def wait_flushed(store: Path) -> None:
    """Waits until nothing more is written."""
    before = -1.0
    while (now := max(path.stat().st_mtime for path in (store / "commitlog").iterdir())) != before:
        before = now
        time.sleep(2)


# ---- follow

SEGMENT_BYTES = 16 << 20
SENDERS = 4
MESSAGE_BYTES = 4000
OLD_S = 20
"""Files that have been full for so long are made old enough for retention."""


def follow_a_broker(folder: Path, minutes: float) -> tuple[bool, list[str]]:
    """Produces, follows, deletes, and kills once, all at the same time."""
    settings = {
        "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
        "fileReservedTime": "1",
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
        "cleanResourceInterval": "2000",
        "deleteCommitLogFilesInterval": "10",
    }
    target, said = folder / "lake", folder / "follow.txt"
    ends = threading.Event()
    with Appliance(folder / "data", settings=settings) as appliance:
        senders = [PlainSender(appliance.ports[1], f"Followed{number}") for number in range(SENDERS)]
        threads = [threading.Thread(target=send_until, args=(sender, ends)) for sender in senders]
        aging = threading.Thread(target=age_files, args=(appliance.store / "commitlog", ends))
        with said.open("w") as out:
            exporter = subprocess.Popen(
                headrace("export", "--follow", 2, "--engine", "local", appliance.data, target), stdout=out, stderr=subprocess.STDOUT, env=environment()
            )  # fmt: skip
        for thread in (*threads, aging):
            thread.start()
        time.sleep(minutes * 30)
        psutil.Process(appliance.pid_of("broker")).kill()
        time.sleep(minutes * 30)
        ends.set()
        for thread in (*threads, aging):
            thread.join()
        flushed = wait_all_flushed(appliance)
        wait_exported(target, flushed, exporter)
        held = appliance.status()["held"]
        exporter.terminate()
        exporter.wait(60)
        first_left = min(int(path.name) for path in (appliance.store / "commitlog").iterdir())
        restarts = appliance.status()["roles"]["broker"]["restarts"]
    text = said.read_text()
    behind = [
        int(line.rpartition(", ")[2].split()[0].replace(",", ""))
        for line in text.splitlines()
        if line.endswith("bytes behind")
    ]
    problems, rows = check_followed(target, senders)
    if not behind or "Traceback" in text:
        problems.append(f"the exporter printed: {text[-500:]}")
    if restarts != 1 or not first_left:
        problems.append(
            f"{restarts} restarts of the broker, the log begins at {first_left}: the test conditions were not met"
        )
    return not problems, [
        (f"- {minutes:g} minutes of {SENDERS} producers: {sum(len(each.acknowledged) for each in senders):,} messages acknowledged, {flushed:,} bytes of log flushed, "
        f"of which retention deleted the first {first_left:,}; the broker was killed {restarts} time."),
        f"- {rows:,} rows in the table: each queue's offsets exactly once and without gaps, including every acknowledged message: {'yes' if not problems else 'NO'}.",
        (f"- {len(behind)} rounds with new messages; lag {statistics.median(behind or [0]):,.0f} bytes median, {max(behind or [0]):,} maximum, at the end of a round. "
        f"Held at the end: {held}."),
        *(f"- {problem}" for problem in problems),
    ]  # fmt: skip


def send_until(sender: PlainSender, ends: threading.Event) -> None:
    """Sends numbered messages, one after the other."""
    number = 0
    while not ends.is_set():
        sender.send(number, MESSAGE_BYTES, deadline_s=120)
        number += 1


def age_files(commit_log: Path, ends: threading.Event) -> None:
    """Makes files that have been full for a while two hours older, so that the broker's own retention deletes them."""
    full_since: dict[Path, float] = {}
    while not ends.wait(1):
        files = sorted(commit_log.iterdir())
        written = [path for path in files if is_written(path)]
        for path in written[:-1]:
            if time.monotonic() - full_since.setdefault(path, time.monotonic()) > OLD_S:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path, (time.time() - 7200,) * 2)


def is_written(path: Path) -> bool:
    """Whether there is a record at the start of a file."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        return bool(file.read(8).strip(b"\0"))
    return False


def wait_all_flushed(appliance: Appliance) -> int:
    """Waits until everything written is flushed; returns the flushed offset."""
    while True:
        offsets = appliance.status()["offsets"]
        if offsets["wrote_offset"] == offsets["flushed_offset"]:
            return int(offsets["flushed_offset"])
        time.sleep(0.2)


def wait_exported(target: Path, flushed: int, exporter: "subprocess.Popen[bytes]") -> None:
    """Waits until the exporter has reached this offset."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and exporter.poll() is None:
        done = subprocess.run(
            headrace("export", "status", "--json", target),
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
        )
        if done.returncode == 0 and json.loads(done.stdout)["progress"].get("broker", {}).get("end", -1) >= flushed:
            return
        time.sleep(1)


def check_followed(target: Path, senders: list[PlainSender]) -> tuple[list[str], int]:
    """The problems of the table, and its number of rows."""
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    numbers: dict[str, set[int]] = defaultdict(set)
    places: set[int] = set()
    rows = 0
    data = ds.dataset(str(target), partitioning="hive")
    for batch in data.scanner(["topic", "queue_id", "queue_offset", "keys", "commit_log_offset"]).to_batches():
        for topic, queue, offset, keys, place in zip(
            *(batch[name].to_pylist() for name in batch.schema.names), strict=True
        ):
            offsets[topic, queue].append(offset)
            numbers[topic].add(int(keys))
            places.add(place)
            rows += 1
    problems = [
        f"{topic}:{queue} has {len(each)} rows for offsets {min(each)} to {max(each)}"
        for (topic, queue), each in sorted(offsets.items())
        if sorted(each) != list(range(len(each)))
    ]
    problems += [
        f"{sender.topic}: {len(missing)} acknowledged messages are not in the table, the first is {min(missing)}"
        for sender in senders
        if (missing := set(sender.acknowledged) - numbers[sender.topic])
    ]
    if len(places) != rows:
        problems.append(f"{rows - len(places)} rows are duplicates")
    return problems, rows


# ---- growth


def grow(folder: Path, sizes: list[float], segments: int) -> tuple[bool, list[str]]:
    """Measures time and memory against log size."""
    lines = [
        "| log, GiB | messages | export, s | processor, s | processor, s a GiB | the driver's memory at most, MiB |",
        "|" + "---:|" * 6,
    ]
    points: list[tuple[float, float, float]] = []
    log = folder / "growing"
    written = 0
    writer = write_segments(log / "commitlog", 1 << 30)
    for size in sorted(sizes):
        while written < size:
            next(writer)
            written += 1
        before = sum(os.times()[2:4])
        seconds, memory_mib, rows = timed_export(log, folder / "lake")
        used = sum(os.times()[2:4]) - before
        shutil.rmtree(folder / "lake")
        points.append((size, used, memory_mib))
        lines.append(f"| {size:g} | {rows:,} | {seconds:.1f} | {used:.1f} | {used / size:.2f} | {memory_mib:.0f} |")
    shutil.rmtree(log)
    many = write_segments(folder / "many" / "commitlog", 8192)
    for _ in range(segments):
        next(many)
    began = time.monotonic()
    done = subprocess.run(
        headrace("export", "--dry-run", folder / "many", folder / "lake"), check=True, capture_output=True, text=True, env=environment(), cwd=ROOT
    )  # fmt: skip
    plan_s = time.monotonic() - began
    line = straightness(points)
    growth_mib = points[-1][2] - points[0][2]
    lines += [
        "",
        f"- No CPU time is off the straight line by more than {line:.0%}. The driver's memory grew by {growth_mib:.0f} MiB from the smallest to the largest.",
        f"- {segments:,} segments are planned in {plan_s:.1f} s ({done.stdout.splitlines()[-1].split(',')[0]}).",
    ]
    good = line < 0.25 and growth_mib < 64 and plan_s < 30
    return good, lines


def straightness(points: list[tuple[float, float, float]]) -> float:
    """The largest relative distance of a time from the line of least squares."""
    if len(points) < 3:
        return 0.0
    sizes, times = [each[0] for each in points], [each[1] for each in points]
    slope, start = statistics.linear_regression(sizes, times)
    return max(abs(start + slope * size - seconds) / seconds for size, seconds in zip(sizes, times, strict=True))


def timed_export(source: Path, target: Path) -> tuple[float, float, int]:
    """Seconds, the driver's highest memory use in MiB, and rows."""
    began = time.monotonic()
    process = subprocess.Popen(
        headrace("export", "--engine", "local", source, target), stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT
    )  # fmt: skip
    most = 0
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(status.partition("VmHWM:")[2].split()[0]))
        time.sleep(0.05)
    seconds = time.monotonic() - began
    assert process.stdout is not None
    said = process.stdout.read()
    assert process.returncode == 0, said
    return seconds, most / 1024, int(said.partition(": ")[2].partition(" rows")[0].replace(",", ""))


def write_segments(folder: Path, size: int) -> Iterator[None]:
    """Grows a log by one full segment per step; records come from a pool, with adjusted offsets."""
    folder.mkdir(parents=True)
    chance = random.Random(7)
    pool = [pool_record(chance, number, min(1024, size // 8)) for number in range(12_000)]
    place, stored = struct.Struct(">qq"), struct.Struct(">q")
    number = base = 0
    while True:
        with (folder / f"{base:020}").open("wb") as file:
            at = 0
            while True:
                record = pool[number % len(pool)]
                if at + len(record) + 8 > size:
                    break
                place.pack_into(record, 20, number // 20, base + at)
                stored.pack_into(record, 56, 1_795_000_000_000 + number // 50)
                file.write(record)
                at += len(record)
                number += 1
            file.write(encode_blank(size - at).ljust(size - at, b"\0"))
        base += size
        yield


def pool_record(chance: random.Random, number: int, body_bytes: int) -> bytearray:
    """A record of JSON-like text."""
    words = [f"{chance.randrange(10**9)}" for _ in range(60)]
    body = "".join(f'"{word}":"{chance.choice(words)}",' for word in chance.choices(words, k=body_bytes // 24))
    properties = f"KEYS\x01key-{number}\x02UNIQ_KEY\x01{chance.randrange(1 << 128):032X}\x02WAIT\x01true\x02TAGS\x01t{number % 5}"
    return bytearray(
        encode_record(topic=f"Grown{number % 5}", body=body.encode(), properties=properties, queue_id=number % 4)
    )


if __name__ == "__main__":
    sys.exit(main())
