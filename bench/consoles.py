"""What open consoles cost producers: latency of sends at a fixed rate without and with fifty open consoles, in turns.

    python bench/consoles.py                     24 short rounds of each; appends a section to bench/RESULTS.md
    python bench/consoles.py --rounds 3 --print

Of the consoles, twenty show a live tail, as many as the console serves, and thirty the dashboard, whose charts are loaded again every ten seconds. In a further
load ten of these also open a list every two seconds. They are threads of a process that runs only when nothing else does (SCHED_IDLE), because browsers run on other machines. The console itself is the
appliance's: it shares the machine's cores with the broker. What counts is the ratio of the 99th percentiles: less than 1.05.

The machine drifts within minutes by more than that. So rounds are short and many, each of the four loads is as often the first of a round as
it is the last, and the ratio is the mean of those of the rounds (geometric), with its standard error.

For comparison the fourth load has no console, but a process with the console's priority that computes as long as the console did with lists, ten milliseconds at a time: on a
machine of two cores this alone delays sends.
"""

import argparse
import contextlib
import html
import http.client
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from loads import TOPIC  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)
from report import RESULTS, commit, machine, row  # type: ignore[import-not-found]  # noqa: E402
from servers import ask  # type: ignore[import-not-found]  # noqa: E402

from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.console import PASSWORD, Browser, first_administrator, is_up  # noqa: E402
from support.reference import SCRIPT  # noqa: E402
from support.servers import free_port, wait_until  # noqa: E402

TAILS, DASHBOARDS, LISTS = 20, 30, 10
LOADS = {"none": "none", "consoles": "50 consoles", "lists": "with lists", "busy": "busy process"}
USERS = 7
"""A user may open three tails."""
RATE = 2_000
WARM_UP_S = 1
PIECE_S = 0.01
FIGURES = (("p50_us", "p50 of a send, us"), ("p99_us", "p99 of a send, us"), ("p999_us", "p99.9 of a send, us"))
PAGES = ("/topics", "/groups", f"/topics/{TOPIC}", "/cluster", "/")


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--print", action="store_true", help="print only, leave RESULTS.md alone")
    parser.add_argument("--visit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lists", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.visit:
        visit(options.visit, options.lists)
        return
    done: dict[str, list[dict[str, Any]]] = {name: [] for name in LOADS}
    share = 0.0
    with tempfile.TemporaryDirectory(prefix="bench-consoles-") as work:
        port = free_port()
        with Appliance(Path(work) / "data", console_port=port) as appliance:
            wait_until(lambda: is_up(port), 60, "console")
            admin = first_administrator(Path(work) / "data" / "console", port)
            for number in range(USERS):
                admin.send("/users", {"user": f"user-{number}", "password": PASSWORD, "role": "viewer"}, "/tokens")
            make_topic(appliance)
            send(appliance, 3)
            console = psutil.Process(appliance.pid_of("console"))
            for number in range(options.rounds):
                for name in turned(number):
                    with beside(name, port, share, console.nice()):
                        before = sum(console.cpu_times()[:2])
                        done[name].append(send(appliance, options.seconds))
                    if name == "lists":
                        share = (sum(console.cpu_times()[:2]) - before) / (options.seconds + WARM_UP_S)
                        print(f"round {number + 1}: the console used {share:.1%} of a core", file=sys.stderr)
                    print(f"round {number + 1} {name}: p99 {done[name][-1]['p99_us']:.0f} us", file=sys.stderr)
    section = "\n".join(report(done, options.seconds))
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(f"\n{section}\n")


def turned(number: int) -> list[str]:
    """The loads of a round in their order. The first round begins with that without consoles, and every fourth again."""
    names, first = list(LOADS), number % len(LOADS)
    return [*names[first:], *names[:first]]


def beside(name: str, port: int, share: float, niceness: int) -> Any:
    """What runs beside the load of this name."""
    if name in ("consoles", "lists"):
        return visitors(port, LISTS if name == "lists" else 0)
    return busy(share, niceness) if name == "busy" else contextlib.nullcontext()


def make_topic(appliance: Appliance) -> None:
    """The topic of the load."""
    ext = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    more = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    assert ask(appliance.ports[1], 17, {**ext, **more}, b"")[0] == 0


def send(appliance: Appliance, seconds: float) -> dict[str, Any]:
    """Sends at the fixed rate; what the generator counted."""
    done = subprocess.run(
        [
            sys.executable, str(SCRIPT), "load", "send", "--broker", appliance.broker, "--topic", TOPIC, "--seconds", str(seconds),
            "--warmup", str(WARM_UP_S), "--pids", str(appliance.pid_of("broker")), "--conns", "4", "--inflight", "8", "--size", "1024", "--rate", str(RATE),
        ],
        stdout=subprocess.PIPE, text=True, check=True, timeout=300,
    )  # fmt: skip
    counted: dict[str, Any] = json.loads(done.stdout)
    assert not counted["errors"], counted
    return counted


@contextlib.contextmanager
def visitors(port: int, lists: int) -> Any:
    """Open consoles, in a process of their own, while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--visit", str(port), "--lists", str(lists)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"open\n"
        yield
        assert process.poll() is None, "the consoles have failed"
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def busy(share: float, niceness: int) -> Any:
    """A process that computes for a share of the time, PIECE_S at a time, while the context lasts."""
    program = (
        "import os, time\n"
        f"os.nice({niceness})\n"
        "while True:\n"
        f"    end = time.perf_counter() + {PIECE_S}\n"
        "    while time.perf_counter() < end: pass\n"
        f"    time.sleep({PIECE_S / max(share, 0.001) - PIECE_S})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
        assert process.poll() is None, "the busy process has failed"
    finally:
        process.kill()
        process.wait()


def visit(port: int, lists: int) -> None:
    """Opens the consoles and keeps them open until the process is killed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    browsers = [Browser(port) for _ in range(USERS)]
    for number, browser in enumerate(browsers):
        assert browser.log_in(f"user-{number}", PASSWORD).status == http.client.SEE_OTHER
    starts = [threading.Thread(target=keep, args=(tail, browsers[number % USERS])) for number in range(TAILS)]
    starts += [
        threading.Thread(target=keep, args=(dashboard, browsers[number % USERS], number < lists))
        for number in range(DASHBOARDS)
    ]
    for one in starts:
        one.start()
        time.sleep(0.05)  # people do not open them at the same instant
    sys.stdout.write("open\n")
    sys.stdout.flush()
    for one in starts:
        one.join()


def keep(live: Any, *arguments: Any) -> None:
    """Ends the process if one console fails."""
    try:
        live(*arguments)
    except Exception as error:  # noqa: BLE001  (whatever it is, the measurement is invalid)
        sys.stderr.write(f"console failed: {error!r}\n")
        os._exit(1)


def tail(browser: Browser) -> None:
    """A live tail, opened again when the stream ends."""
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
        connection.request("GET", f"/topics/{TOPIC}/tail/events?rate=10", headers={"Cookie": cookie})
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.read()
        while answer.readline():
            pass
        connection.close()


def dashboard(browser: Browser, opens_lists: bool) -> None:
    """A dashboard: its page once, its charts every ten seconds, as charts.js; of some a list every two seconds."""
    page = browser.get("/")
    assert page.status == http.client.OK, page.text
    sources = {html.unescape(source) for source in re.findall('data-source="([^"]+)"', page.text)}
    assert sources
    turn = 0
    while True:
        opened = [*sources] if turn % 5 == 0 else []
        if opens_lists:
            opened.append(PAGES[turn % len(PAGES)])
        for path in opened:
            page = browser.get(path)
            assert page.status == http.client.OK, page.text
        turn += 1
        time.sleep(2)


def report(done: dict[str, list[dict[str, Any]]], seconds: float) -> list[str]:
    """A Markdown section: where and what it was, then a table."""
    rounds = len(done["none"])
    lines = [
        f"## Open consoles: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
        (f"Sends of 1 KiB, {RATE:,} a second over 4 connections, asynchronous flush; {rounds} rounds of {seconds:g} s without and with {TAILS + DASHBOARDS} open "
        f"consoles: {TAILS} live tails and {DASHBOARDS} dashboards; then with {LISTS} of them opening a list every 2 s; and with a busy process instead, which takes as much time as the console then did. "
        "The order changes from round to round. Ratio: the geometric mean of those of the rounds, and its standard error."),
        "",
        row("median (least to most)", "none", *(cell for name in list(LOADS)[1:] for cell in (LOADS[name], "ratio"))),
        "|---|" + "---:|" * (2 * len(LOADS) - 1),
    ]  # fmt: skip
    for figure, title in (*FIGURES, ("server_cpu_us_per_message", "CPU of the broker, us a message")):
        values = {name: [one[figure] for one in done[name]] for name in LOADS}
        cells = [title, spread(values["none"])]
        for name in list(LOADS)[1:]:
            cells += [spread(values[name]), ratio(values[name], values["none"])]
        lines.append(row(*cells))
    return lines


def ratio(values: list[float], others: list[float]) -> str:
    """The geometric mean of the ratios of the rounds, and its standard error."""
    logarithms = [math.log(value / other) for value, other in zip(values, others, strict=True)]
    error = statistics.stdev(logarithms) / math.sqrt(len(logarithms)) if len(logarithms) > 1 else math.nan
    mean = math.exp(statistics.fmean(logarithms))
    return f"**{mean:.3f}** +- {mean * error:.3f}"


def spread(values: list[float]) -> str:
    """The median, the least and the largest."""
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


if __name__ == "__main__":
    main()
