"""Runs a mixed load at 70 % of capacity for a quarter of an hour, and checks that memory, latency and CPU a message do not drift.

    python bench/endurance.py                          15 minutes; draws bench/endurance.svg, and appends a section to bench/RESULTS.md
    python bench/endurance.py --minutes 2 --print      draws build/endurance.svg

The load: sends of 1 KiB over 8 connections at 70 % of the rate that the machine takes while pulls run beside, and a consumer that pulls at full speed with
one request in flight. The rate is measured first. A window lasts ten seconds. The median of the last third of the windows is compared
with that of the first third: it may be 1.25 times as large (memory: 1.1 times and 8 MiB). Exits with 1 if it is larger.

Files of the log are deleted as soon as they are full (fileReservedTime=0, deleteWhen=every hour), so the disk needs some 20 GB: `--folder` names one. Pulls
of messages that were just deleted are answered with an error and are not counted.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import jinja2

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from full_memory import FullMemory  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)
from loads import TOPIC  # type: ignore[import-not-found]  # noqa: E402
from report import RESULTS, commit, machine, row  # type: ignore[import-not-found]  # noqa: E402
from running import anonymous_mib, cpu_seconds  # type: ignore[import-not-found]  # noqa: E402

from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.reference import SCRIPT  # noqa: E402

SHARE: Final = 0.7
WINDOW_S: Final = 10
SEND: Final = ("send", "--conns", "8", "--inflight", "32", "--size", "1024")
PULL: Final = ("pull", "--conns", "1", "--inflight", "1")
LINES: Final = {
    "rate": "messages/s",
    "p99_us": "p99 of a send, us",
    "cpu_us": "CPU, us a message",
    "memory_mib": "anonymous memory, MiB",
}
"""The figures of a window, and their words."""
MOST: Final = {"p99_us": (1.25, 0.0), "cpu_us": (1.25, 0.0), "memory_mib": (1.1, 8.0)}
"""How many times, and how much more, the last third may be of the first."""

PLOT: Final = jinja2.Template("""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {{ 170 * charts|length }}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
{% for chart in charts %}<g transform="translate(60 {{ 170 * loop.index0 + 30 }})">
<text x="0" y="-10" font-weight="bold">{{ chart.title }}</text>
<line x1="0" y1="110" x2="720" y2="110" stroke="#888"/>
<text x="-5" y="4" text-anchor="end">{{ chart.top }}</text><text x="-5" y="114" text-anchor="end">0</text>
<text x="0" y="126">0</text><text x="720" y="126" text-anchor="end">{{ minutes }} min</text>
<polyline fill="none" stroke="#06c" stroke-width="1.5" points="{{ chart.points }}"/>
</g>
{% endfor %}</svg>
""", autoescape=True)  # fmt: skip


@dataclass(frozen=True)
class Window:
    """What was measured in ten seconds. CPU is of all processes, per message sent."""

    rate: float
    p99_us: float
    cpu_us: float
    memory_mib: float


def main() -> None:
    """Measures, draws, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--folder", type=Path, help="folder for the store (default: a temporary folder)")
    parser.add_argument(
        "--print", action="store_true", help="print only, leave RESULTS.md and bench/endurance.svg alone"
    )
    options = parser.parse_args()
    count = max(3, round(options.minutes * 60 / WINDOW_S))
    settings = {"fileReservedTime": "0", "deleteWhen": ";".join(f"{hour:02}" for hour in range(24))}
    with tempfile.TemporaryDirectory(prefix="bench-endurance-", dir=options.folder) as work, FullMemory() as memory:
        memory.fill()
        with Appliance(Path(work) / "data", settings=settings) as appliance:
            generate(appliance, SEND, 3)  # creates the topic, and something to pull
            with consumer(appliance):
                capacity = generate(appliance, SEND, 10)["rate"]
                memory.fill()
                windows = list(measure(appliance, count, SHARE * capacity))
    missed = [line for name, limit in MOST.items() if (line := drift(name, windows, *limit))]
    section = "\n".join([*report(windows, capacity), *(f"- Drift: {line}" for line in missed)]) + "\n"
    print(section)
    plot = ROOT / ("build" if options.print else "bench") / "endurance.svg"
    plot.parent.mkdir(exist_ok=True)
    plot.write_text(draw(windows), encoding="utf-8")
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")
    sys.exit(bool(missed))


def measure(appliance: Appliance, count: int, rate: float) -> Iterator[Window]:
    """Windows of the load, one after the other."""
    pids = appliance.pids()
    with click.progressbar(range(count), label="endurance", file=sys.stderr, show_pos=True) as bar:
        for _ in bar:
            before = cpu_seconds(pids)
            sent = generate(appliance, SEND, WINDOW_S, rate)
            used = cpu_seconds(pids) - before
            yield Window(sent["rate"], sent["p99_us"], used / sent["acknowledged"] * 1e6, anonymous_mib(pids))


def generate(appliance: Appliance, load: tuple[str, ...], seconds: float, rate: float = 0) -> dict[str, Any]:
    """What the load generator counted."""
    done = subprocess.run(
        [*command(appliance, load, seconds), "--warmup", "0", "--rate", str(rate)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=300,
    )  # fmt: skip
    counted: dict[str, Any] = json.loads(done.stdout)
    assert load is PULL or not counted["errors"], counted
    return counted


def command(appliance: Appliance, load: tuple[str, ...], seconds: float) -> list[str]:
    """The command line of the load generator."""
    return [
        sys.executable, str(SCRIPT), "load", *load, "--broker", appliance.broker, "--topic", TOPIC, "--seconds", str(seconds)
    ]  # fmt: skip


@contextmanager
def consumer(appliance: Appliance) -> Iterator[None]:
    """Pulls all the time, from the beginning of the queues again and again, while the context lasts."""
    ended = threading.Event()

    def pull() -> None:
        while not ended.is_set():
            generate(appliance, PULL, 5)

    thread = threading.Thread(target=pull)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def thirds(name: str, windows: list[Window]) -> tuple[float, float]:
    """The median of a figure in the first and in the last third of the windows."""
    values = [getattr(window, name) for window in windows]
    third = len(values) // 3
    return statistics.median(values[:third]), statistics.median(values[-third:])


def drift(name: str, windows: list[Window], times: float, more: float) -> str:
    """What has grown beyond its limit; empty if it has not."""
    first, last = thirds(name, windows)
    return (
        ""
        if last <= first * times + more
        else f"{LINES[name]}: {first:,.1f} in the first third, {last:,.1f} in the last"
    )


def report(windows: list[Window], capacity: float) -> list[str]:
    """A Markdown section: where and what it was, then a table."""
    minutes = len(windows) * WINDOW_S / 60
    return [
        f"## {minutes:g} minutes at {SHARE:.0%} of capacity: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
        f"Sends of 1 KiB over 8 connections at {SHARE * capacity:,.0f} messages a second, of {capacity:,.0f}, while a consumer pulls at full speed.",
        f"{len(windows)} windows of {WINDOW_S} s.", "",
        row("", "first third", "last third", "least", "largest"), "|---|---:|---:|---:|---:|",
        *(
            row(words, *(f"{value:,.1f}" for value in (*thirds(name, windows), min(values), max(values))))
            for name, words in LINES.items()
            for values in [[getattr(window, name) for window in windows]]
        ),
        "",
    ]  # fmt: skip


def draw(windows: list[Window]) -> str:
    """The figures over time, as an SVG picture."""
    charts = []
    for name, title in LINES.items():
        values = [getattr(window, name) for window in windows]
        top = max(values)
        points = " ".join(
            f"{720 * at / (len(values) - 1):.1f},{110 - 110 * value / top:.1f}" for at, value in enumerate(values)
        )
        charts.append({"title": title, "top": f"{top:,.0f}", "points": points})
    picture: str = PLOT.render(charts=charts, minutes=f"{len(windows) * WINDOW_S / 60:g}")
    return picture


if __name__ == "__main__":
    main()
