"""Runs one load on running servers: by the load generator, or by the official Java client."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
from loads import END_TO_END_TOPIC, TOPIC, Load  # type: ignore[import-not-found]  # bench/ is not a package
from report import Figures  # type: ignore[import-not-found]
from servers import Servers  # type: ignore[import-not-found]

from support.java import Java
from support.reference import SCRIPT
from support.servers import wait_until

READS: Final = ("pull", "push")
"""Loads that need stored messages."""
Run = Callable[[Servers, Load, float, Path], Figures]


def run(servers: Servers, load: Load, seconds: float, work: Path) -> Figures:
    """Runs a load after its warm-up. `work`: folder for the Java client."""
    java: dict[str, Run] = {"java": with_java, "push": with_consumer, "end-to-end": end_to_end}
    return java.get(load.mode, with_generator)(servers, load, seconds, work)


def with_generator(servers: Servers, load: Load, seconds: float, _: Path) -> Figures:
    """Runs a load generator for each master, all at once."""
    arguments = {
        "topic": TOPIC, "topics": servers.setup.topics, "queues": servers.setup.queues, "seconds": seconds, "warmup": load.warmup_s,
        "pids": ",".join(map(str, servers.pids())), **load.arguments,
    }  # fmt: skip
    options = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    generators = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "load", load.mode, "--broker", master, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for master in servers.masters
    ]  # fmt: skip
    ended = [generator.communicate(timeout=120) for generator in generators]
    failures = [errors for generator, (_, errors) in zip(generators, ended, strict=True) if generator.returncode]
    if failures:
        return Figures(note=f"failed: {failures[0].strip()[-200:]}")
    return figures([json.loads(said) for said, _ in ended], load)


def figures(said: list[dict[str, Any]], load: Load) -> Figures:
    """The figures of generators that ran at once. Each divides the CPU time of all brokers by its own messages."""
    rate = sum(one["rate"] for one in said)
    cpu = statistics.mean(one["server_cpu_us_per_message"] * one["rate"] for one in said)
    refused = sum(one["refused"] for one in said)
    errors = sum(one["errors"] for one in said) + (0 if load.share else refused)
    is_send = load.mode in ("send", "batch")
    note = f"{errors} errors, {refused} of them refused, first other: {said[0]['first_error']}" if errors else ""
    return Figures(
        rate,
        cpu / rate if rate else 0,
        statistics.median(one["p50_us"] for one in said),
        max(one["p99_us"] for one in said),
        min(1, rate / float(load.arguments["rate"])) if load.share else 0,
        sum(one["acknowledged"] for one in said) if is_send else 0,
        sum(one["unanswered"] for one in said) if is_send else 0,
        note,
    )


def with_java(servers: Servers, load: Load, seconds: float, work: Path) -> Figures:
    """Sends with the official client, whose just-in-time compiler was warmed up by a first run."""
    asked: dict[str, Any] = {"namesrv": servers.name_server, "topic": TOPIC, **load.arguments}
    with Java(work / "java", flags=()) as java:
        warm = java.call("bench-client", seconds=load.warmup_s, warmup=0, **asked)
        before = cpu_seconds(servers.pids())
        said = java.call("bench-client", seconds=seconds, warmup=0, **asked)
        used = cpu_seconds(servers.pids()) - before
    errors = warm["errors"] + said["errors"]
    return Figures(
        said["rate"],
        used / max(1, said["messages"]) * 1e6,
        said["p50_us"],
        said["p99_us"],
        acknowledged=warm["messages"] + said["messages"] - errors,
        unanswered=errors,  # sent again by the client, perhaps stored
        note=f"{errors} errors" if errors else "",
    )


def with_consumer(servers: Servers, load: Load, seconds: float, work: Path) -> Figures:
    """Receives stored messages with a push consumer, at most once; a third of them and `warmup_s` at most warm it up."""
    servers.wait_dispatched()
    stored = servers.stored([TOPIC])
    with Java(work / "java", flags=()) as java:

        def received() -> int:
            return int(java.call("bench-consumed"))

        java.call("bench-consume", namesrv=servers.name_server, topic=TOPIC)
        wait_until(received, 30, "the consumer receives messages")
        warm_until = time.monotonic() + load.warmup_s
        wait_until(lambda: received() > stored / 3 or time.monotonic() > warm_until, 60, "the consumer is warm")
        began, first, used = time.monotonic(), received(), cpu_seconds(servers.pids())
        end = began + seconds
        wait_until(lambda: received() >= stored or time.monotonic() > end, 60, "the load has ended")
        took, last, used = time.monotonic() - began, received(), cpu_seconds(servers.pids()) - used
    note = f"{last:,} messages of {stored:,} were received" if last > stored else ""
    return Figures((last - first) / took, used / max(1, last - first) * 1e6, note=note)


def end_to_end(servers: Servers, load: Load, seconds: float, work: Path) -> Figures:
    """Sends messages to a push consumer in the same JVM, so that one clock counts."""
    servers.create_topic(END_TO_END_TOPIC)
    asked: dict[str, Any] = {"namesrv": servers.name_server, "topic": END_TO_END_TOPIC, **load.arguments}
    with Java(work / "java", flags=()) as java:
        said = java.call("bench-end-to-end", seconds=seconds, warmup=load.warmup_s, **asked)
    note = (
        f"{said['errors']} errors, {said['received']:,} received of {said['messages']:,} sent"
        if said["errors"] or said["received"] != said["messages"]
        else ""
    )
    return Figures(
        said["rate"],
        p50_us=said["p50_us"],
        p99_us=said["p99_us"],
        acknowledged=said["messages"],
        unanswered=said["errors"],
        note=note,
    )


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of the processes."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(one.user + one.system for one in times)


def anonymous_mib(pids: list[int]) -> float:
    """Memory of the processes that no file backs; pages that processes share count once for each, in parts."""
    words = [line.split() for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line[1]) for line in words if line[0] == "Pss_Anon:") / 1024
