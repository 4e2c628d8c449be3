"""Runs the same loads on Apache's broker and on the appliance and appends the ratios to bench/RESULTS.md.

    make bench                       both servers, two rounds, about ten minutes
    python bench/compare.py --rounds 1 --seconds 3 --only headrace --print
    python bench/compare.py --loads pipelined,pull,signed,signed-pull,tls,tls-pull       what signatures and TLS cost

Every round starts a server on an empty store with its defaults (asynchronous flush) and measures, in this order: the time
from its start to the first acknowledged message; sends of 1 KiB over 8 connections with 32 in flight; 64 synchronous
producers; pulls of 32; the official Java client sending from 16 threads; sends and pulls over TLS, with the certificate that the server makes;
batches; 1,000 sends a second. A second server has SYNC_FLUSH: sends that are answered when they are on the disk. A third
has access control enabled and an account that may do everything: sends and pulls that are signed, each with its own signature. The rows of TLS and
signatures also give the rate as a part of the rate without. The load generator (bench/reference/load) is light; it shares the machine's cores with the server, as
does the Java client, which is most of what that row measures. CPU is user and system time of all processes of the server.
"""

import argparse
import json
import math
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.java import Java  # noqa: E402
from support.reference import SCRIPT, Reference  # noqa: E402
from support.servers import Server, free_ports  # noqa: E402

RESULTS = ROOT / "bench" / "RESULTS.md"
SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}
TITLES = {"reference": "Apache", "headrace": "Headrace"}
TOPIC = "RawLoad"
ACCOUNT = "bench-account:bench-secret"
ACCOUNTS = """accounts:
- accessKey: bench-account
  secretKey: bench-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""


@dataclass
class Figures:
    """The measurements of one cell: a server, a load, a round."""

    rate: float = 0
    cpu_us: float = 0
    p50_us: float = 0
    p99_us: float = 0
    errors: int = 0
    note: str = ""


@dataclass(frozen=True)
class Load:
    """One row of the table."""

    title: str
    mode: str
    arguments: dict[str, int | str]
    warmup_s: float
    without: str = ""
    """The same load without signatures or TLS."""
    is_durable: bool = False
    """Whether it needs a server with SYNC_FLUSH."""

    @property
    def is_signed(self) -> bool:
        """Whether it needs a server that has access control enabled."""
        return "account" in self.arguments


LOADS = {
    # limit: Apache's broker reaches full speed after some 300,000 messages
    "pipelined": Load(
        "send 1 KiB, 8 connections x 32 in flight", "send", {"conns": 8, "inflight": 32, "size": 1024}, 5
    ),
    "synchronous": Load(
        "send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 1.5
    ),
    "pull": Load("pull, 32 messages of 1 KiB a request, 8 connections", "pull", {"conns": 8, "inflight": 1}, 1.5),
    "java": Load("official Java client, 16 threads sending 1 KiB", "java", {"threads": 16, "size": 1024}, 2),
    "tls": Load(
        "send 1 KiB over TLS, 8 connections x 32 in flight",
        "send", {"conns": 8, "inflight": 32, "size": 1024, "tls": "on"}, 5, "pipelined",
    ),
    "tls-pull": Load(
        "pull over TLS, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "tls": "on"}, 1.5, "pull",
    ),
    "batch": Load(
        "batches of 32 messages of 100 B, 8 connections x 4 in flight",
        "batch", {"conns": 8, "inflight": 4, "size": 100, "batch": 32}, 2,
    ),
    "paced": Load(
        "1,000 sends of 1 KiB a second, 8 connections", "send", {"conns": 8, "inflight": 4, "size": 1024, "rate": 1000}, 1
    ),
    "durable-1": Load(
        "SYNC_FLUSH, send 1 KiB, 1 synchronous producer", "send", {"conns": 1, "inflight": 1, "size": 1024}, 2,
        is_durable=True,
    ),
    "durable-8": Load(
        "SYNC_FLUSH, send 1 KiB, 8 synchronous producers", "send", {"conns": 8, "inflight": 1, "size": 1024}, 2,
        is_durable=True,
    ),
    "durable-64": Load(
        "SYNC_FLUSH, send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 2,
        is_durable=True,
    ),
    "durable-pipelined": Load(
        "SYNC_FLUSH, send 1 KiB, 8 connections x 32 in flight", "send", {"conns": 8, "inflight": 32, "size": 1024}, 2,
        is_durable=True,
    ),
    "signed": Load(
        "signed send 1 KiB, 8 connections x 32 in flight",
        "send", {"conns": 8, "inflight": 32, "size": 1024, "account": ACCOUNT}, 5, "pipelined",
    ),
    "signed-pull": Load(
        "signed pull, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "account": ACCOUNT}, 1.5, "pull",
    ),
}  # fmt: skip


@dataclass
class Round:
    """All measurements of one server in one round."""

    start_s: float = 0
    cells: dict[str, Figures] = field(default_factory=dict)


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5, help="timed part of each load (default 5)")
    parser.add_argument("--only", choices=SERVERS, help="one server, without ratios")
    parser.add_argument("--loads", default=",".join(LOADS), help=f"some of {','.join(LOADS)}")
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary folder)")
    parser.add_argument("--print", action="store_true", help="print only, do not change RESULTS.md")
    options = parser.parse_args()
    loads = {name: LOADS[name] for name in options.loads.split(",")}
    names = [options.only] if options.only else list(SERVERS)
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names:
            print(f"round {number + 1}: {TITLES[name]}", file=sys.stderr)
            rounds[name].append(measure(name, loads, options.seconds, options.folder))
    section = "\n".join(report(rounds, loads, options.seconds))
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")


def measure(name: str, loads: dict[str, Load], seconds: float, folder: Path | None) -> Round:
    """Measures one server, from its start on an empty store to its stop, another with SYNC_FLUSH, another with access control."""
    measured = Round()
    for kind in ((False, False), (True, False), (False, True)):
        chosen = {key: load for key, load in loads.items() if (load.is_durable, load.is_signed) == kind}
        if chosen:
            work = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=folder))
            try:
                measure_server(name, chosen, seconds, work, measured)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return measured


def measure_server(name: str, loads: dict[str, Load], seconds: float, work: Path, measured: Round) -> None:
    """Starts one server in the folder `work`, with access control or SYNC_FLUSH if the loads need it, and runs the loads."""
    data, ports = work / "data", free_ports()
    is_signed = any(load.is_signed for load in loads.values())
    is_durable = any(load.is_durable for load in loads.values())
    if is_signed:
        (data / "conf").mkdir(parents=True)
        (data / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true"} if is_signed else {"flushDiskType": "SYNC_FLUSH"} if is_durable else {}
    more = (f"--home={data}",) if is_signed and name == "reference" else ()
    first = None if is_signed or is_durable else FirstMessage(ports)
    with SERVERS[name](data, ports=ports, settings=settings, more=more) as server:
        if first is not None:
            measured.start_s = first.wait()
        for key, load in loads.items():
            print(f"  {load.title}", end=": ", file=sys.stderr, flush=True)
            run = with_java if load.mode == "java" else with_generator
            measured.cells[key] = figures = run(server, load, seconds, work)
            print(f"{figures.rate:,.0f}/s, {figures.cpu_us:.1f} us CPU {figures.note}", file=sys.stderr)


def with_generator(server: Server, load: Load, seconds: float, _: Path) -> Figures:
    """Runs one load of the load generator."""
    arguments = [f"--{name}={value}".split("=") for name, value in load.arguments.items()]
    done = subprocess.run(
        [
            sys.executable, str(SCRIPT), "load", load.mode, "--broker", server.broker, "--topic", TOPIC, "--seconds", str(seconds),
            "--warmup", str(load.warmup_s), "--pids", ",".join(map(str, server.pids())), *(part for pair in arguments for part in pair),
        ],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if done.returncode:
        return Figures(note=f"failed: {done.stderr.strip()[-200:]}")
    said = json.loads(done.stdout)
    return Figures(
        said["rate"],
        said["server_cpu_us_per_message"],
        said["p50_us"],
        said["p99_us"],
        said["errors"],
        f"{said['errors']} errors, first: {said['first_error']}" if said["errors"] else "",
    )


def with_java(server: Server, load: Load, seconds: float, work: Path) -> Figures:
    """Runs the official client, whose just-in-time compiler was warmed up by a first run."""
    asked: dict[str, Any] = {"namesrv": server.name_server, "topic": TOPIC, **load.arguments}
    with Java(work / "java", flags=()) as java:
        java.call("bench-client", seconds=load.warmup_s, warmup=0, **asked)
        before = cpu_seconds(server.pids())
        said = java.call("bench-client", seconds=seconds, warmup=0, **asked)
        used = cpu_seconds(server.pids()) - before
    return Figures(said["rate"], used / max(1, said["messages"]) * 1e6, said["p50_us"], said["p99_us"], said["errors"])


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of the processes."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(one.user + one.system for one in times)


class FirstMessage:
    """Starts at once to try to send a message to a broker and to look up that broker at its name server."""

    def __init__(self, ports: tuple[int, int]) -> None:
        """`ports`: of the name server and of the broker."""
        self._ports = ports
        self._began = time.monotonic()
        self._took_s = 0.0
        self._thread = threading.Thread(target=self._try, daemon=True)
        self._thread.start()

    def wait(self) -> float:
        """Seconds until both succeeded."""
        self._thread.join(30)
        if not self._took_s:
            message = f"no message could be sent to {self._ports} within 30 s"
            raise TimeoutError(message)
        return self._took_s

    def _try(self) -> None:
        send = {
            "a": "first",
            "b": TOPIC,
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": str(int(time.time() * 1000)),
            "h": "0",
            "i": "",
        }
        self._until(self._ports[1], 310, send, b"first", lambda code, _: code == 0)
        self._until(self._ports[0], 106, {}, b"", lambda _, body: f":{self._ports[1]}".encode() in body)
        self._took_s = time.monotonic() - self._began

    @staticmethod
    def _until(port: int, code: int, ext: dict[str, str], body: bytes, enough: Callable[[int, bytes], bool]) -> None:
        while True:
            try:
                if enough(*ask(port, code, ext, body)):
                    return
            except OSError:
                pass
            time.sleep(0.005)


def ask(port: int, code: int, ext: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """Sends one request on a new connection and returns code and body of the response."""
    head = {
        "code": code,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
    }
    header = json.dumps(head).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        with connection.makefile("rb") as stream:
            (length,) = struct.unpack(">i", read(stream.read, 4))
            frame = read(stream.read, length)
    end = 4 + (struct.unpack_from(">i", frame)[0] & 0xFFFFFF)
    return int(json.loads(frame[4:end])["code"]), frame[end:]


def read(source: Callable[[int], bytes], count: int) -> bytes:
    """Exactly `count` bytes. ConnectionError if there are fewer."""
    if len(found := source(count)) < count:
        message = "the connection was closed in the middle of a frame"
        raise ConnectionError(message)
    return found


# ---- the report


def report(rounds: dict[str, list[Round]], loads: dict[str, Load], seconds: float) -> list[str]:
    """A Markdown section: environment and settings, then a table."""
    lines = [
        f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}",
        "",
        *machine(),
        f"Timed part of each load: {seconds:g} s.",
        "",
    ]
    names = list(rounds)
    ratio = len(names) > 1
    lines.append(
        row(
            "",
            *(f"{TITLES[name]} {n + 1}" for name in names for n in range(len(rounds[name]))),
            *(["ratio"] if ratio else []),
        )
    )
    lines.append("|---|" + "---:|" * (sum(map(len, rounds.values())) + ratio))
    lines.append(
        figures_row("start to first message, s", {name: [one.start_s for one in rounds[name]] for name in names}, ".2f")
    )
    for key, load in loads.items():
        for words, figure, shape in (
            (f"**{load.title}**: messages/s", "rate", ",.0f"),
            ("CPU, us a message", "cpu_us", ".2f"),
            ("p50 of a request, us", "p50_us", ",.0f"),
            ("p99 of a request, us", "p99_us", ",.0f"),
        ):
            values = {name: [float(getattr(one.cells[key], figure)) for one in rounds[name]] for name in names}
            lines.append(figures_row(words, values, shape))
        if load.without in loads:
            values = {
                name: [part_of(one.cells[key], one.cells[load.without]) for one in rounds[name]] for name in names
            }
            lines.append(figures_row(f"part of the rate of: {loads[load.without].title}", values, ".2f"))
    notes = {
        f"{TITLES[name]}, {loads[key].title}: {cell.note or f'{cell.errors} errors'}"
        for name in names for one in rounds[name] for key, cell in one.cells.items() if cell.note or cell.errors
    }  # fmt: skip
    lines += ["", *(f"- {note}" for note in sorted(notes))]
    if ratio:
        lines.append(
            "Ratio: Headrace to Apache, geometric mean of the rounds. Rates: more is better; the rest: less is better."
        )
    return lines


def part_of(cell: Figures, whole: Figures) -> float:
    """The rate as a part of another; 0 if that was not measured."""
    return cell.rate / whole.rate if whole.rate else 0.0


def figures_row(title: str, values: dict[str, list[float]], shape: str) -> str:
    """One figure of all servers and rounds, with its ratio if both servers have it."""
    cells = [format(value, shape) for each in values.values() for value in each]
    if len(values) > 1:
        theirs, ours = (geometric_mean(values[name]) for name in SERVERS)
        cells.append(f"**{ours / theirs:.2f}**" if theirs and ours else "-")
    return row(title, *cells)


def geometric_mean(values: list[float]) -> float:
    """The geometric mean, or 0 if one of the values is 0."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(value > 0 for value in values) else 0.0


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def commit() -> str:
    """The measured commit, marked if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run(
        [*git, "rev-parse", "--short=10", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], check=False, capture_output=True, text=True
    ).stdout
    return f"commit {name or 'unknown'}{' with changes' if changed.strip() else ''}"


def machine() -> list[str]:
    """Processor, memory, kernel, versions."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    java = subprocess.run(["java", "-version"], check=False, capture_output=True, text=True).stderr.splitlines()[0]
    compiled = sorted(
        path.name.split(".")[0]
        for folder in ("broker", "store", "headrace", "ipc")
        for path in (ROOT / folder).rglob("*.so")
    )
    return [
        f"{psutil.cpu_count()} x {model}, {psutil.virtual_memory().total / 2**30:.0f} GiB, Linux {platform.release()}.",
        f"Python {platform.python_version()}; {java.replace(chr(34), '')}. Apache RocketMQ 4.9.7, heap 1 GiB.",
        f"Compiled modules: {', '.join(compiled) or 'none'}.",
    ]


if __name__ == "__main__":
    main()
