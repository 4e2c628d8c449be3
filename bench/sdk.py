"""Compares the speed of the Python client with the official Java client's, on the same appliance in one run.

    python bench/sdk.py                          all loads, both clients; appends a section to bench/RESULTS.md
    python bench/sdk.py --loads async,push --only headrace --print
    python bench/sdk.py --profile async          where the time goes (cProfile), printed

Messages have 1 KiB. The client has one core to itself, and so do the appliance's processes (`--no-pin` leaves placement to the
kernel). Two rates are given: messages per second of wall-clock time, and per second of the client's own CPU time (user and system,
whole process), which is what a client can do on a dedicated core. On a busy machine only the latter is meaningful.

    async     256 sends in flight, each awaited; uvloop
    asyncio   the same on asyncio's own loop
    linger    the same as async, with automatic batching (Java has none)
    sync      16 threads, each waiting for each of its sends
    push      a push consumer with a handler that does nothing (a coroutine; uvloop), from the first message on
"""

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from report import commit, machine, row  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)

from headrace import Message, Producer, PushConsumer, StartFrom  # noqa: E402
from headrace.sync import Producer as SyncProducer  # noqa: E402
from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.java import class_path  # noqa: E402
from support.sdk import await_registered  # noqa: E402

RESULTS = ROOT / "bench" / "RESULTS.md"
BODY = b"x" * 1024
TOPIC = "SdkLoad"
PUSH_TOPIC = "SdkLoadPush"
IN_FLIGHT = 256
THREADS = 16
WARMUP_S = 1.0
JAVA_LOADS = {"async": IN_FLIGHT, "sync": THREADS, "push": 0}


@dataclass(frozen=True)
class Figures:
    """The result of one client: messages, and seconds of wall-clock and of its own CPU time."""

    messages: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Messages per second of the client's CPU time."""
        return self.messages / self.cpu


class Stopwatch:
    """Wall-clock and CPU time of this process since it was created."""

    def __init__(self) -> None:
        self._began, self._used = time.perf_counter(), self._cpu()

    @staticmethod
    def _cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def stop(self, messages: int) -> Figures:
        """The figures since then."""
        return Figures(messages, time.perf_counter() - self._began, self._cpu() - self._used)


# ---- the loads, in a separate process


async def send_async(name_server: str, seconds: float, linger: float | None = None) -> Figures:
    """Runs `IN_FLIGHT` coroutines that each send one message after another."""
    sent, end = 0, 0.0
    loop = asyncio.get_running_loop()

    async def one(producer: Producer) -> None:
        nonlocal sent
        while loop.time() < end:
            await producer.send(Message(TOPIC, BODY, tags="TagA"))
            sent += 1

    async with Producer("sdk-load", name_server, linger=linger, send_timeout=30) as producer:
        for took in (WARMUP_S, seconds):
            sent, end, watch = 0, loop.time() + took, Stopwatch()
            await asyncio.gather(*(one(producer) for _ in range(IN_FLIGHT)))
            figures = watch.stop(sent)
    return figures


def send_sync(name_server: str, seconds: float) -> Figures:
    """Runs `THREADS` threads that each send one message after another."""
    counts: list[int] = []
    end = 0.0

    def one(producer: SyncProducer) -> None:
        own = 0
        while time.perf_counter() < end:
            producer.send(Message(TOPIC, BODY, tags="TagA"))
            own += 1
        counts.append(own)

    with SyncProducer("sdk-load", name_server, send_timeout=30) as producer:
        for took in (WARMUP_S, seconds):
            counts.clear()
            watch, end = Stopwatch(), time.perf_counter() + took
            threads = [threading.Thread(target=one, args=(producer,)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            figures = watch.stop(sum(counts))
    return figures


async def push(name_server: str, count: int) -> Figures:
    """Consumes from the first message on; timing begins after the first tenth, when all queues are being consumed."""
    taken, first = 0, count // 10
    watch = Stopwatch()
    done = asyncio.Event()
    consumer = PushConsumer(f"sdk-load-{time.time_ns()}", name_server, start_from=StartFrom.FIRST)

    @consumer.handler(PUSH_TOPIC)
    async def take(_message: Any) -> None:
        nonlocal taken, watch
        taken += 1
        if taken == first:
            watch = Stopwatch()
        elif taken == count:
            done.set()

    async with consumer:
        await done.wait()
        return watch.stop(taken - first)


async def fill(name_server: str, count: int) -> Figures:
    """Sends the messages for `push`."""
    watch = Stopwatch()
    async with Producer("sdk-load", name_server, linger=0.002, send_timeout=30) as producer:
        for at in range(0, count, 4096):
            size = min(4096, count - at)
            await asyncio.gather(*(producer.send(Message(PUSH_TOPIC, BODY, tags="TagA")) for _ in range(size)))
    return watch.stop(count)


def perform(load: str, name_server: str, seconds: float, count: int) -> Figures:
    """Runs one load with the Python client in this process."""

    def on_uvloop(main: Coroutine[Any, Any, Figures]) -> Figures:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    match load:
        case "async":
            return on_uvloop(send_async(name_server, seconds))
        case "asyncio":
            return asyncio.run(send_async(name_server, seconds))
        case "linger":
            return on_uvloop(send_async(name_server, seconds, 0.002))
        case "sync":
            return send_sync(name_server, seconds)
        case "push":
            return on_uvloop(push(name_server, count))
        case _:
            return on_uvloop(fill(name_server, count))


# ---- the run


LOADS = ("async", "asyncio", "linger", "sync", "push")
TITLES = {
    "async": f"send, {IN_FLIGHT} at once, uvloop",
    "asyncio": f"send, {IN_FLIGHT} at once, asyncio",
    "linger": f"send, {IN_FLIGHT} at once, automatic batching, uvloop",
    "sync": f"send, {THREADS} threads",
    "push": "push consumer",
}


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", default=",".join(LOADS), help=f"some of {','.join(LOADS)}")
    parser.add_argument(
        "--rounds", type=int, default=2, help="repetitions of each load, alternating clients (default 2)"
    )
    parser.add_argument("--seconds", type=float, default=4, help="timed part of each send load (default 4)")
    parser.add_argument("--messages", type=int, default=400_000, help="messages of the push load (default 400000)")
    parser.add_argument("--only", choices=("headrace", "java"), help="one client")
    parser.add_argument("--no-pin", action="store_true", help="do not pin processes to cores")
    parser.add_argument("--profile", choices=LOADS, help="profile one load with cProfile")
    parser.add_argument("--print", action="store_true", help="print only, do not change RESULTS.md")
    parser.add_argument("--at", help=argparse.SUPPRESS)  # the name server: runs one load in this process
    options = parser.parse_args()
    if options.at:
        figures = perform(options.loads, options.at, options.seconds, options.messages)
        print(json.dumps(vars(figures)))
        return
    loads = [options.profile] if options.profile else options.loads.split(",")
    work = Path(tempfile.mkdtemp(prefix="bench-sdk-"))
    cores = sorted(os.sched_getaffinity(0))
    try:
        if not options.no_pin:
            os.sched_setaffinity(0, {cores[-1]})  # the appliance inherits it
        with Appliance(work / "data") as server:
            await_registered(server.name_server)
            if not options.no_pin:
                os.sched_setaffinity(0, {cores[0]})
            if "push" in loads:
                in_python("fill", server.name_server, options)
            if options.profile:
                profile(options.profile, server.name_server, options)
                return
            measured = measure(loads, server.name_server, options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    section = "\n".join(report(loads, measured, options))
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")


Measured = dict[tuple[str, str], list[Figures]]


def measure(loads: list[str], name_server: str, options: argparse.Namespace) -> Measured:
    """Runs all loads in every round, alternating clients."""
    measured: Measured = {}
    for _ in range(options.rounds):
        for load in loads:
            for client, run in (("headrace", in_python), ("java", in_java)):
                if options.only in (None, client) and (client == "headrace" or load in JAVA_LOADS):
                    figures = run(load, name_server, options)
                    measured.setdefault((client, load), []).append(figures)
                    print(
                        f"{client} {load}: {figures.rate:,.0f}/s, {figures.cpu_rate:,.0f} a CPU second", file=sys.stderr
                    )
    return measured


def in_python(load: str, name_server: str, options: argparse.Namespace) -> Figures:
    """Runs a load in a new process."""
    command = [
        sys.executable, __file__, "--at", name_server, "--loads", load,
        "--seconds", str(options.seconds), "--messages", str(options.messages),
    ]  # fmt: skip
    return Figures(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout))


def in_java(load: str, name_server: str, options: argparse.Namespace) -> Figures:
    """Runs the same load with the official client in a new JVM, which is warmed up before timing begins."""
    topic, count = (PUSH_TOPIC, options.messages) if load == "push" else (TOPIC, JAVA_LOADS[load])
    command = [
        "java", "-Xmx1g", "-Drocketmq.client.logRoot=/tmp", "-Drocketmq.client.logLevel=ERROR", "-cp", class_path(),
        str(ROOT / "bench" / "SdkLoad.java"), name_server, load, str(options.seconds), topic, str(count),
    ]  # fmt: skip
    said = subprocess.run(command, check=True, capture_output=True, timeout=300, text=True).stdout
    return Figures(**json.loads(next(line for line in reversed(said.splitlines()) if line.startswith("{"))))


def profile(load: str, name_server: str, options: argparse.Namespace) -> None:
    """Profiles a load in this process with cProfile and prints the most expensive functions."""
    profiler = cProfile.Profile()
    figures = profiler.runcall(perform, load, name_server, options.seconds, options.messages)
    print(f"{figures.messages} messages, {figures.cpu / figures.messages * 1e6:.1f} us CPU each, under the profiler")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)


def report(loads: list[str], measured: Measured, options: argparse.Namespace) -> list[str]:
    """A Markdown section."""
    pinned = "cores not pinned" if options.no_pin else "the client on one core, the appliance on another"
    lines = [f"## The Python client: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine()]
    lines += [f"Messages of 1 KiB, {pinned}; {options.rounds} rounds of {options.seconds:g} s, mean.", ""]
    lines += [
        row("", "Python", "Java", "ratio", "Python, a CPU second", "Java, a CPU second", "ratio"),
        "|---|" + "---:|" * 6,
    ]
    for load in loads:
        cells: list[str] = []
        for figure in ("rate", "cpu_rate"):
            ours, theirs = (
                mean([getattr(one, figure) for one in measured.get((who, load), [])]) for who in ("headrace", "java")
            )
            cells += [
                f"{ours:,.0f}",
                f"{theirs:,.0f}" if theirs else "-",
                f"**{ours / theirs:.2f}**" if theirs else "-",
            ]
        lines.append(row(TITLES[load], *cells))
    return lines


def mean(values: list[float]) -> float:
    """The mean, or 0 without values."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
