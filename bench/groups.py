"""Three brokers in one appliance beside one: the same sends, in turns, and whether all that was acknowledged is there.

    python bench/groups.py                      three rounds of each; appends a section to bench/RESULTS.md
    python bench/groups.py --brokers 2 --rounds 1 --seconds 3 --print

Messages of 1 KiB over 12 connections with 32 in flight, which are divided among the brokers, each with a load generator of its own.
Generators and brokers share the machine's cores, so that the rates say what this machine gives; processor time for each message says what
another one would. After each round the records in the stores are counted: none that was acknowledged may be missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from compare import TOPIC, ask  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)
from report import (  # type: ignore[import-not-found]  # noqa: E402
    RESULTS,
    commit,
    geometric_mean,
    machine,
    row,
)

from support.reference import SCRIPT  # noqa: E402  (tests/ is not a package)
from support.several_brokers import SeveralBrokers  # noqa: E402

CONNECTIONS = 12
WARMUP_S = 3


@dataclass
class Round:
    """What one round of one layout gave."""

    rate: float
    cpu_us: float
    p99_us: float
    acknowledged: int
    stored: int


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=3, choices=(2, 3, 4, 6))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--print", action="store_true", help="print only, leave RESULTS.md alone")
    options = parser.parse_args()
    rounds: dict[int, list[Round]] = {1: [], options.brokers: []}
    for _ in range(options.rounds):
        for count, done in rounds.items():
            done.append(measure(count, options.seconds))
            print(f"{count} brokers: {done[-1]}", file=sys.stderr)
    section = "\n".join(report(rounds, options.seconds))
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")


def measure(count: int, seconds: float) -> Round:
    """One appliance with so many brokers, from its start on empty stores to its end."""
    work = Path(tempfile.mkdtemp(prefix="bench-groups-"))
    names = [f"broker-{number}" for number in range(count)]
    try:
        # Two listed brokers at least, so that both layouts have the same folders; the load goes to the first `count`.
        tables: dict[str, dict[str, Any]] = {name: {} for name in (names if count > 1 else [*names, "idle"])}
        with SeveralBrokers(work / "data", tables, settings={}) as appliance:
            for name in names:
                port = appliance.port_of[name]
                ext = {
                    "topic": TOPIC,
                    "defaultTopic": "TBW102",
                    "readQueueNums": "4",
                    "writeQueueNums": "4",
                    "perm": "6",
                }
                more = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
                assert ask(port, 17, {**ext, **more}, b"")[0] == 0
            pids = ",".join(map(str, appliance.pids()))
            addresses = [appliance.address_of(name) for name in names]
            warm_up = load(addresses, WARMUP_S, pids)
            said = load(addresses, seconds, pids)
            stored = sum(ends(appliance.port_of[name]) for name in names)
        rate = sum(one["rate"] for one in said)
        # Each generator divides the processor time of all brokers by its own messages.
        cpu_us = sum(one["server_cpu_us_per_message"] * one["rate"] for one in said) / count / rate
        acknowledged = sum(one["acknowledged"] for one in (*warm_up, *said))
        return Round(rate, cpu_us, max(one["p99_us"] for one in said), acknowledged, stored)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def load(addresses: list[str], seconds: float, pids: str) -> list[dict[str, Any]]:
    """Sends to all these brokers at once, each with a generator of its own; what the generators counted."""
    generators = [
        subprocess.Popen(
            [
                sys.executable, str(SCRIPT), "load", "send", "--broker", address, "--topic", TOPIC, "--seconds", str(seconds),
                "--warmup", "0", "--pids", pids, "--conns", str(CONNECTIONS // len(addresses)), "--inflight", "32", "--size", "1024",
            ],
            stdout=subprocess.PIPE, text=True,
        )
        for address in addresses
    ]  # fmt: skip
    said = [json.loads(generator.communicate(timeout=120)[0]) for generator in generators]
    assert not any(one["errors"] for one in said), said
    return said


def ends(port: int) -> int:
    """How many messages the topic's queues hold at a broker."""
    code, body = ask(port, 202, {"topic": TOPIC}, b"")
    assert code == 0, body
    return sum(int(one) for one in _numbers_after(body.decode(), '"maxOffset":'))


def _numbers_after(text: str, word: str) -> list[str]:
    return [part[: next(i for i, c in enumerate(part) if not c.isdigit())] for part in text.split(word)[1:]]


def report(rounds: dict[int, list[Round]], seconds: float) -> list[str]:
    """A Markdown section: where and what it was, then a table."""
    one, several = rounds.values()
    count = max(rounds)
    lines = [
        f"## {count} brokers in one appliance beside one: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
        f"Sends of 1 KiB, {CONNECTIONS} connections x 32 in flight in all, asynchronous flush; timed part of each round: {seconds:g} s.",
        "",
        row("", *(f"{n} {'broker' if n == 1 else 'brokers'}, {i + 1}" for n, done in rounds.items() for i in range(len(done))), "ratio"),
        "|---|" + "---:|" * (len(one) + len(several) + 1),
    ]  # fmt: skip
    for title, figure, shape in (
        ("messages/s", "rate", ",.0f"), ("CPU, us a message", "cpu_us", ".2f"), ("p99 of a request, us", "p99_us", ",.0f"),
    ):  # fmt: skip
        ratio = geometric_mean([getattr(r, figure) for r in several]) / geometric_mean(
            [getattr(r, figure) for r in one]
        )
        lines.append(row(title, *(format(getattr(r, figure), shape) for r in (*one, *several)), f"**{ratio:.2f}**"))
    missing = [max(0, r.acknowledged - r.stored) for r in (*one, *several)]
    lines.append(row("acknowledged and missing", *map(str, missing), ""))
    return lines


if __name__ == "__main__":
    main()
