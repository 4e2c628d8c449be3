"""Runs the same loads on Apache's broker and on the appliance, and appends the ratios to bench/RESULTS.md.

    make bench                       both servers in turns, three rounds, about half an hour
    make bench QUICK=1               one short round, about five minutes
    python bench/compare.py --rounds 1 --seconds 3 --only headrace --print
    python bench/compare.py --loads pipelined,pull,signed,signed-pull,tls,tls-pull       what signatures and TLS cost

Every round starts a server on an empty store with its defaults (asynchronous flush) and measures the time from its start to the
first acknowledged message, then the loads of bench/loads.py in their order, and its memory. A second server has SYNC_FLUSH: sends
that are answered when they are on the disk. A third has access control enabled and an account that may do everything: sends and
pulls that are signed, each with its own signature. The rows of TLS and signatures also give the rate as a part of the rate
without. A fourth (`--loads restart`) is filled and started again, after a clean stop and after kill -9.

After the loads of a server its queues must hold every acknowledged message once; the appliance's stores are verified as well. Exits
with 1 if that is not so or a ratio misses its goal.

The load generator (bench/reference/load) is light; it shares the machine's cores with the server, as does the Java client, which
is most of what that row measures. CPU is user and system time of all processes of the server.
The machine's memory is full of cached pages while servers are measured (bench/full_memory.py).
"""

import argparse
import contextlib
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import psutil
from full_memory import FullMemory  # type: ignore[import-not-found]
from loads import (  # type: ignore[import-not-found]  # bench/ is not a package
    ACCOUNT,
    CLEAN_START,
    KILL_START,
    LOADS,
    MEMORY,
    SINGLE,
    START,
    Load,
)
from report import HEADRACE, REFERENCE, RESULTS, ROOT, TITLES, Figures, Report, Round  # type: ignore[import-not-found]

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from headrace.client.settings import ClientConfig, Credentials  # noqa: E402  (the repository is not installed)
from headrace.sync import Admin  # noqa: E402
from support.appliance import HEADRACE as HEADRACE_COMMAND  # noqa: E402
from support.appliance import Appliance  # noqa: E402
from support.java import Java  # noqa: E402
from support.reference import SCRIPT, Reference  # noqa: E402
from support.servers import Server, free_ports  # noqa: E402

SERVERS: Final[dict[str, type[Reference] | type[Appliance]]] = {REFERENCE: Reference, HEADRACE: Appliance}
RESTART: Final = "restart"
TOPIC: Final = "RawLoad"
ACCOUNTS: Final = """accounts:
- accessKey: bench-account
  secretKey: bench-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""
FILLING: Final = Load(
    "batches of 32 messages of 1 KiB", "batch", {"conns": 8, "inflight": 4, "size": 1024, "batch": 32}, 0
)

Done = Callable[[str], None]
"""Called when a piece of work is done, with its name."""


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="timed part of each load (default 5)")
    parser.add_argument("--quick", action="store_true", help="one round, 2 seconds, 1 GiB")
    parser.add_argument("--only", choices=SERVERS, help="one server, without ratios")
    parser.add_argument("--loads", default=f"{','.join(LOADS)},{RESTART}", help=f"some of {','.join(LOADS)},{RESTART}")
    parser.add_argument(
        "--fill", type=float, default=5, metavar="GIB", help="messages in the store that is started again"
    )
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary folder)")
    parser.add_argument("--print", action="store_true", help="print only, do not change RESULTS.md")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.fill = 1, 2, 1
    chosen = options.loads.split(",")
    loads = {name: LOADS[name] for name in chosen if name != RESTART}
    fill = int(options.fill * 2**30) if RESTART in chosen else 0
    names = [options.only] if options.only else list(SERVERS)
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    steps = options.rounds * len(names) * (len(loads) + 3 * (fill > 0))
    with (
        FullMemory() as memory,
        click.progressbar(
            length=steps, label="bench", file=sys.stderr, show_pos=True, item_show_func=lambda item: item
        ) as bar,
    ):
        for number in range(options.rounds):
            for name in names:

                def done(what: str, where: str = f"round {number + 1}, {TITLES[name]}") -> None:
                    bar.update(1, f"{where}: {what}")

                rounds[name].append(measure(name, loads, options.seconds, fill, options.folder, memory, done))
    report = Report(rounds, loads, options.seconds)
    section = "\n".join(report.lines)
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")
    if report.missed or any(one.notes for measured in rounds.values() for one in measured):
        sys.exit(1)


def measure(
    name: str, loads: dict[str, Load], seconds: float, fill: int, folder: Path | None, memory: FullMemory, done: Done
) -> Round:
    """Measures one server, each time from its start on an empty store: by default, with SYNC_FLUSH, with access control, filled."""
    measured = Round()
    for kind in ((False, False), (True, False), (False, True)):
        chosen = {key: load for key, load in loads.items() if (load.is_durable, load.is_signed) == kind}
        if chosen:
            with work_folder(name, folder) as work:
                measure_server(name, chosen, seconds, work, measured, memory, done)
    if fill:
        memory.fill()
        with work_folder(name, folder) as work:
            measure_restarts(name, fill, work, measured, done)
    return measured


@contextlib.contextmanager
def work_folder(name: str, folder: Path | None) -> Any:
    """A folder for a server, which is deleted in the end."""
    work = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=folder))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def measure_server(
    name: str, loads: dict[str, Load], seconds: float, work: Path, measured: Round, memory: FullMemory, done: Done
) -> None:
    """Starts one server in the folder `work`, with access control or SYNC_FLUSH if the loads need it, and runs the loads."""
    data, ports = work / "data", free_ports()
    is_signed = any(load.is_signed for load in loads.values())
    is_durable = any(load.is_durable for load in loads.values())
    if is_signed:
        (data / "conf").mkdir(parents=True)
        (data / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true"} if is_signed else {"flushDiskType": "SYNC_FLUSH"} if is_durable else {}
    more = (f"--home={data}",) if is_signed and name == REFERENCE else ()
    memory.fill()
    first = None if is_signed or is_durable else FirstMessage(ports)
    ran = []
    with SERVERS[name](data, ports=ports, settings=settings, more=more) as server:
        if first is not None:
            measured.single[START] = first.wait()
        for key, load in loads.items():
            memory.fill()
            run = with_java if load.mode == "java" else with_generator
            measured.cells[key] = figures = run(server, load, seconds, work)
            ran.append(figures)
            if figures.note or figures.errors:
                measured.notes.append(f"{TITLES[name]}, {load.title}: {figures.note or f'{figures.errors} errors'}")
            done(f"{load.title}: {figures.rate:,.0f}/s, {figures.cpu_us:.1f} us CPU")
        if first is not None:
            measured.single[MEMORY] = anonymous_mib(server.pids())
        check_stored(server, ran, measured, first_messages=int(first is not None))
    verify(name, server, measured)


def measure_restarts(name: str, fill: int, work: Path, measured: Round, done: Done) -> None:
    """Fills a store with so many bytes of bodies, and starts the server again: after a clean stop, and after kill -9."""
    data, ports = work / "data", free_ports()
    filled: list[Figures] = []
    with SERVERS[name](data, ports=ports) as server:
        while sum(one.acknowledged for one in filled) * 1024 < fill:
            filled.append(with_generator(server, FILLING, 5, work))
            if not filled[-1].acknowledged:
                measured.notes.append(f"{TITLES[name]}: the store could not be filled: {filled[-1].note}")
                return
    done("filled")
    first = FirstMessage(ports)
    server = SERVERS[name](data, ports=ports)
    try:
        measured.single[CLEAN_START] = first.wait()
        check_stored(server, filled, measured, first_messages=1)
        filled.append(with_generator(server, FILLING, 1, work))  # what the next start has to recover
    finally:
        server.kill()
    done(f"{SINGLE[CLEAN_START][0]}: {measured.single[CLEAN_START]:.2f}")
    first = FirstMessage(ports)
    with SERVERS[name](data, ports=ports) as server:
        measured.single[KILL_START] = first.wait()
        check_stored(server, filled, measured, first_messages=2)
    done(f"{SINGLE[KILL_START][0]}: {measured.single[KILL_START]:.2f}")
    verify(name, server, measured)


def check_stored(server: Server, ran: list[Figures], measured: Round, first_messages: int) -> None:
    """Notes it if the topic's queues do not hold each acknowledged message once."""
    access, secret = ACCOUNT.split(":")
    with Admin(ClientConfig(server.name_server, credentials=Credentials(access, secret))) as admin:
        table = admin.topic_stats(TOPIC).offset_table
    stored = sum(queue.max_offset for queue in table.values())
    acknowledged = sum(one.acknowledged for one in ran) + first_messages
    unanswered = sum(one.unanswered for one in ran)
    if not acknowledged <= stored <= acknowledged + unanswered:
        measured.notes.append(
            f"{TITLES[server.name]}: {stored:,} messages are stored, {acknowledged:,} were acknowledged"
            f" and {unanswered:,} more were sent"
        )


def verify(name: str, server: Server, measured: Round) -> None:
    """Notes what `headrace store verify` finds in a store of the appliance."""
    if name == HEADRACE:
        command = [str(HEADRACE_COMMAND), "store", "verify", str(server.store)]
        said = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if said.returncode:
            measured.notes.append(f"store verify: {said.stdout[-400:]}{said.stderr[-400:]}")


def with_generator(server: Server, load: Load, seconds: float, _: Path) -> Figures:
    """Runs one load of the load generator."""
    arguments = [f"--{name}={value}".split("=") for name, value in load.arguments.items()]
    ran = subprocess.run(
        [
            sys.executable, str(SCRIPT), "load", load.mode, "--broker", server.broker, "--topic", TOPIC, "--seconds", str(seconds),
            "--warmup", str(load.warmup_s), "--pids", ",".join(map(str, server.pids())), *(part for pair in arguments for part in pair),
        ],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if ran.returncode:
        return Figures(note=f"failed: {ran.stderr.strip()[-200:]}")
    said = json.loads(ran.stdout)
    is_send = load.mode != "pull"
    return Figures(
        said["rate"],
        said["server_cpu_us_per_message"],
        said["p50_us"],
        said["p99_us"],
        said["errors"],
        said["acknowledged"] if is_send else 0,
        said["unanswered"] if is_send else 0,
        f"{said['errors']} errors, first: {said['first_error']}" if said["errors"] else "",
    )


def with_java(server: Server, load: Load, seconds: float, work: Path) -> Figures:
    """Runs the official client, whose just-in-time compiler was warmed up by a first run."""
    asked: dict[str, Any] = {"namesrv": server.name_server, "topic": TOPIC, **load.arguments}
    with Java(work / "java", flags=()) as java:
        warm = java.call("bench-client", seconds=load.warmup_s, warmup=0, **asked)
        before = cpu_seconds(server.pids())
        said = java.call("bench-client", seconds=seconds, warmup=0, **asked)
        used = cpu_seconds(server.pids()) - before
    errors = warm["errors"] + said["errors"]
    return Figures(
        said["rate"],
        used / max(1, said["messages"]) * 1e6,
        said["p50_us"],
        said["p99_us"],
        said["errors"],
        warm["messages"] + said["messages"] - errors,
        errors,  # sent again by the client, perhaps stored
    )


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of the processes."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(one.user + one.system for one in times)


def anonymous_mib(pids: list[int]) -> float:
    """Memory of the processes that no file backs; pages that processes share count once for each, in parts."""
    words = [line.split() for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line[1]) for line in words if line[0] == "Pss_Anon:") / 1024


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


if __name__ == "__main__":
    main()
