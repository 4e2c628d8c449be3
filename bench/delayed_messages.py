"""Delayed and timed messages: how late they are delivered, and what pending ones cost.

Only for our broker: RocketMQ 4.9 checks every 100 ms and has no timers.

    python bench/delayed_messages.py                     everything; appends a section to bench/RESULTS.md
    python bench/delayed_messages.py --only levels --print
    python bench/delayed_messages.py --only timers --count 100000 --spread 60
    python bench/delayed_messages.py --only waiting --count 1000000

    levels    10,000 messages at delay levels, half of them for an hour; how late the others are delivered
    timers    messages with random due times within a minute; how late they are delivered, and that none is early, missing or duplicated
    waiting   a million timers due hours later: the broker's memory, CPU time of all processes while idle, start-up time

Lateness is taken from the log: the store timestamp in the target topic minus the due time. The official Java client sends while the
broker delivers, on whatever processors there are.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from report import commit, machine  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)

from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.client import Client  # noqa: E402
from support.crash import records  # noqa: E402
from support.java import Java  # noqa: E402

RESULTS = ROOT / "bench" / "RESULTS.md"
LEVELS = "1s 2s 1s 1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 60m"
LEVEL_MS = {"1": 1000, "2": 2000, "6": 3000}
HOUR_MS = 3_600_000
IDLE_S = 30
TOPIC = "Kinds"

Row = tuple[str, str]


@contextmanager
def serving(**settings: str) -> Iterator[tuple[Appliance, Client]]:
    """An appliance with the topic, and the official client."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-kinds-") as folder,
        Java(Path(folder) / "java", heap="1g") as java,
        Appliance(Path(folder) / "data", settings=settings) as appliance,
    ):
        client = Client(java, appliance)
        client.create_topic(TOPIC, 4)
        yield appliance, client


def lateness(name: str, late_ms: Sequence[int], limit_ms: int) -> list[Row]:
    """Percentiles of lateness, and the share within the limit."""
    in_order = sorted(late_ms)
    within = sum(one <= limit_ms for one in in_order) / len(in_order)
    count = len(in_order)
    return [
        (f"**{name}**: messages", f"{count:,}"),
        ("earliest, p50, p99, p99.9, latest: ms after due", " / ".join(
            str(in_order[min(count - 1, int(count * share))]) for share in (0, 0.5, 0.99, 0.999, 1)
        )),
        (f"within {limit_ms} ms", f"{within:.2%}"),
    ]  # fmt: skip


def levels(count: int) -> list[Row]:
    """Measures messages at delay levels while many others are pending."""
    with serving(messageDelayLevel=LEVELS) as (appliance, client):
        client.call("send-with", topic=TOPIC, first=0, count=count // 2, set={"DELAY": "18"}, timeout_s=600)
        each = count // 2 // len(LEVEL_MS)
        senders = [
            threading.Thread(
                target=client.call,
                args=("send-with",),
                kwargs={"topic": TOPIC, "first": 0, "count": each, "set": {"DELAY": level}, "timeout_s": 600},
            )
            for level in LEVEL_MS
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        client.await_pullable(TOPIC, each * len(LEVEL_MS), 600)
        due = {
            one["properties"]["UNIQ_KEY"]: one["storeTimestamp"] + LEVEL_MS[one["properties"]["DELAY"]]
            for one in records(appliance.store, "SCHEDULE_TOPIC_XXXX")
            if one["properties"]["DELAY"] in LEVEL_MS
        }
        late = [one["storeTimestamp"] - due[one["properties"]["UNIQ_KEY"]] for one in records(appliance.store, TOPIC)]
    assert len(late) == each * len(LEVEL_MS)
    return lateness(f"delay levels, {count:,} waiting", late, 20)


def timers(count: int, spread_s: int) -> list[Row]:
    """Measures timers with random due times, which begin when all have been sent, or a minute later."""
    with serving() as (appliance, client):
        sent = client.call(
            "send-spread",
            topic=TOPIC,
            first=0,
            count=count,
            afterMs=60_000,
            spreadMs=spread_s * 1000,
            seed=7,
            timeout_s=600,
        )
        assert sent["acknowledged"] == count
        began_s = time.time()
        client.await_pullable(TOPIC, count, 60 + spread_s + 600)
        found: dict[str, int] = {}
        for one in records(appliance.store, TOPIC):
            assert one["properties"]["KEYS"] not in found, "delivered twice"
            found[one["properties"]["KEYS"]] = one["storeTimestamp"] - int(one["properties"]["TIMER_OUT_MS"])
    assert len(found) == count
    assert min(found.values()) >= 0, "delivered early"
    rows = lateness(f"timers over {spread_s} s", list(found.values()), 50)
    if began_s * 1000 > sent["from"]:
        rows.append(("sent while others were due already", "yes"))
    return rows


def anonymous_mib(pid: int) -> float:
    """Private memory of a process, without the mapped log."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def idle_cpu(appliance: Appliance) -> float:
    """CPU time of all processes per idle second, in ms."""
    processes = [psutil.Process(pid) for pid in appliance.pids()]

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before, began = used(), time.monotonic()
    time.sleep(IDLE_S)
    return (used() - before) / (time.monotonic() - began) * 1000


def waiting(count: int) -> list[Row]:
    """Measures timers that are due in three to six hours."""
    with serving() as (appliance, client):
        empty_mib, empty_cpu = anonymous_mib(appliance.pid_of("broker")), idle_cpu(appliance)
        began = time.monotonic()
        sent = client.call(
            "send-spread",
            topic=TOPIC,
            first=0,
            count=count,
            afterMs=3 * HOUR_MS,
            spreadMs=3 * HOUR_MS,
            seed=7,
            timeout_s=3600,
        )
        took_s = time.monotonic() - began
        assert sent["acknowledged"] == count
        time.sleep(3)  # the index is written every second
        full_mib, full_cpu = anonymous_mib(appliance.pid_of("broker")), idle_cpu(appliance)
        index_mib = sum(path.stat().st_size for path in (appliance.store / "timer").iterdir()) / (1 << 20)
        ports, data = appliance.ports, appliance.data
        appliance.stop()
        with Appliance(data, ports=ports) as again:
            start_s = again.started_in_s
            again_mib, again_cpu = anonymous_mib(again.pid_of("broker")), idle_cpu(again)
    return [
        (f"**{count:,} waiting timers**: sent and indexed, messages/s", f"{count / took_s:,.0f}"),
        (
            "broker's own memory with none, with all, after a restart: MiB",
            f"{empty_mib:.0f} / {full_mib:.0f} / {again_mib:.0f}",
        ),
        (
            "CPU of all processes while they wait: ms a second, the same",
            f"{empty_cpu:.0f} / {full_cpu:.0f} / {again_cpu:.0f}",
        ),
        ("index on disk, MiB", f"{index_mib:.0f}"),
        ("start with them, s", f"{start_s:.2f}"),
    ]


def main() -> None:
    """Runs the selected measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["levels", "timers", "waiting"])
    parser.add_argument("--count", type=int, help="number of messages, with --only")
    parser.add_argument("--spread", type=int, default=60, help="seconds over which timers are due")
    parser.add_argument("--print", action="store_true", help="do not change RESULTS.md")
    parser.add_argument("--note", default="", help="a note about the machine for the report")
    options = parser.parse_args()
    runs: dict[str, Callable[[], list[Row]]] = {
        "levels": lambda: levels(options.count or 10_000),
        "timers": lambda: timers(options.count or 100_000, options.spread),
        "waiting": lambda: waiting(options.count or 1_000_000),
    }
    lines = [
        "",
        f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}, messages that wait",
        "",
        *machine(),
        *([options.note] if options.note else []),
        "",
        "|  | Headrace |",
        "|---|---:|",
    ]
    for name, run in runs.items():
        if options.only in (None, name):
            rows = run()
            print(*(f"{what}: {said}" for what, said in rows), sep="\n", flush=True)
            lines += [f"| {what} | {said} |" for what, said in rows]
    if not options.print:
        with RESULTS.open("a") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
