"""Runs the same loads on Apache's broker and on the appliance, and appends medians and ratios to bench/RESULTS.md.

    make bench                       both servers in turns, three rounds, about 25 minutes
    make bench QUICK=1               one short round with short warm-ups, about five minutes
    python bench/compare.py --rounds 1 --seconds 3 --only headrace --print
    python bench/compare.py --loads signed,signed-pull,tls,tls-pull       what signatures and TLS cost

The rows and their goals are in bench/loads.py. Every round starts servers on empty stores for each setup: with their defaults (asynchronous
flush), which also gives the time from a second start to the first acknowledged message, with programs and libraries in the page cache, and their
memory after the loads; with SYNC_FLUSH; with access control, for signed requests; with pulls of 1 MiB; three masters; a master with its slave.
Measured only on the appliance: 50,000 queues, and sends that are offered at up to twice its rate. `--loads restart` fills a store, starts the
server again, after a clean stop and after kill -9, and queries the stored messages by key. A row that is compared with another one of the same
server (TLS, for example) adds that one to the loads.

After the loads of a server its queues must hold every acknowledged message once. The appliance's stores of the last round are verified as
well, but none with `--quick`. Exits with 1 if a check fails or a goal is missed.

The load generator (bench/reference/load) is light; it shares the machine's cores with the server, as does the Java client, which
is most of what its rows measure. CPU is user and system time of all processes of the server.
The machine's memory is full of cached pages while servers are measured (bench/full_memory.py).
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click
from full_memory import FullMemory  # type: ignore[import-not-found]
from loads import (  # type: ignore[import-not-found]  # bench/ is not a package
    CATCH_UP,
    CLEAN_START,
    DEFAULTS,
    END_TO_END_TOPIC,
    FILLING,
    KILL_START,
    LOADS,
    MANY_START,
    MANY_STOP,
    MEMORY,
    QUERY,
    SINGLE,
    START,
    TOPIC,
    Load,
    Setup,
)
from report import HEADRACE, RESULTS, ROOT, TITLES, Figures, Report, Round  # type: ignore[import-not-found]
from running import READS, anonymous_mib, run, with_generator  # type: ignore[import-not-found]
from servers import FirstMessage, Servers  # type: ignore[import-not-found]

from headrace.errors import HeadraceError
from support.appliance import HEADRACE as HEADRACE_COMMAND
from support.java import JavaError
from support.servers import free_ports, wait_until

RESTART: Final = "restart"
FAILURES: Final = (
    AssertionError,
    HeadraceError,
    JavaError,
    KeyError,
    OSError,
    RuntimeError,
    subprocess.SubprocessError,
)
"""Of a server that does not start, or of a load."""

QUICK_WARM_UP: Final = 0.4
"""The part of a warm-up that is left with `--quick`. Apache's just-in-time compiler is then not as far: a quick ratio is a little too good."""

Done = Callable[[str], None]
"""Called when a piece of work is done, with its name."""


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    names = f"{','.join(LOADS)},{RESTART}"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="timed part of each load (default 3)")
    parser.add_argument(
        "--quick", action="store_true", help="one round, 1 second, 1 GiB, short warm-ups, stores are not verified"
    )
    parser.add_argument("--only", choices=TITLES, help="one server, without ratios")
    parser.add_argument("--loads", default=names, help=f"some of {names}")
    parser.add_argument(
        "--fill", type=float, default=5, metavar="GIB", help="messages in the store that is started again"
    )
    parser.add_argument("--folder", type=Path, help="folder for the stores (default: a temporary folder)")
    parser.add_argument("--print", action="store_true", help="print only, do not change RESULTS.md")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.fill = 1, 1, 1
    chosen = options.loads.split(",")
    loads = with_compared([name for name in chosen if name != RESTART])
    if options.quick:
        loads = {name: replace(load, warmup_s=load.warmup_s * QUICK_WARM_UP) for name, load in loads.items()}
    fill = int(options.fill * 2**30) if RESTART in chosen else 0
    servers = [options.only] if options.only else list(TITLES)
    rounds: dict[str, list[Round]] = {name: [] for name in servers}
    steps = options.rounds * sum(
        len(loads_of(name, loads))
        + any(load.setup.topics > 1 for load in loads_of(name, loads).values())
        + 4 * (fill > 0)
        for name in servers
    )
    with (
        FullMemory() as memory,
        click.progressbar(
            length=steps, label="bench", file=sys.stderr, show_pos=True, item_show_func=lambda item: item
        ) as bar,
    ):
        for number in range(options.rounds):
            for name in servers:

                def done(what: str, where: str = f"round {number + 1}, {TITLES[name]}") -> None:
                    bar.update(1, f"{where}: {what}")

                is_verified = name == HEADRACE and number == options.rounds - 1 and not options.quick
                with work_folder(name, options.folder) as work:
                    rounds[name].append(
                        measure(
                            name,
                            loads_of(name, loads),
                            options.seconds,
                            fill,
                            work,
                            memory,
                            done,
                            is_verified=is_verified,
                        )
                    )
    report = Report(rounds, {**loads, **({"query": QUERY} if fill else {})}, options.seconds)
    section = "\n".join(report.lines)
    print(section)
    if not options.print:
        with RESULTS.open("a") as out:
            out.write(section + "\n")
    if report.missed or any(one.notes for measured in rounds.values() for one in measured):
        sys.exit(1)


def with_compared(names: list[str]) -> dict[str, Load]:
    """These loads and those that they are compared with, in the order of the table."""
    needed = set(names)
    while more := {LOADS[name].without for name in needed if LOADS[name].without} - needed:
        needed |= more
    if any(LOADS[name].share for name in needed):
        needed.add("pipelined")
    return {name: load for name, load in LOADS.items() if name in needed}


def loads_of(name: str, loads: dict[str, Load]) -> dict[str, Load]:
    """The loads that are measured at a server."""
    return {key: load for key, load in loads.items() if name == HEADRACE or load.setup.has_apache}


def measure(
    name: str,
    loads: dict[str, Load],
    seconds: float,
    fill: int,
    work: Path,
    memory: FullMemory,
    done: Done,
    *,
    is_verified: bool,
) -> Round:
    """Measures one server, for each setup from its start on an empty store."""
    measured = Round()
    parts: dict[str, Callable[[Path], Servers]] = {
        setup.name: partial(measure_setup, name, setup, loads, seconds, measured, memory, done)
        for setup in dict.fromkeys(load.setup for load in loads.values())
    }
    if fill:
        parts[RESTART] = partial(measure_restarts, name, fill, seconds, measured, done)
    for number, (part, run_part) in enumerate(parts.items()):
        memory.fill()
        folder = work / str(number)
        folder.mkdir()
        try:
            servers = run_part(folder)
        except FAILURES as error:  # the other parts are measured nevertheless
            measured.notes.append(f"{TITLES[name]}, {part}: {type(error).__name__}: {error}")
            continue
        if is_verified:
            measured.notes += verify(servers.stores)
        # At once: all stores together would fill the disk beyond the share at which a broker refuses messages.
        remove(folder)
    return measured


@contextlib.contextmanager
def work_folder(name: str, folder: Path | None) -> Iterator[Path]:
    """A folder for a server, which is deleted in the end."""
    work = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=folder))
    try:
        yield work
    finally:
        for part in work.iterdir():
            remove(part)
        work.rmdir()


def remove(folder: Path) -> None:
    """Deletes the stores in a folder. One by one, 50,000 queues take minutes where a disk discards what is deleted."""
    topics = [topic for data in ("*", "*/*") for topic in folder.glob(f"{data}/store/consumequeue/*")]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(shutil.rmtree, topics))
    shutil.rmtree(folder)


def measure_setup(
    name: str,
    setup: Setup,
    loads: dict[str, Load],
    seconds: float,
    measured: Round,
    memory: FullMemory,
    done: Done,
    work: Path,
) -> Servers:
    """Starts the servers of a setup and runs its loads."""
    if setup == DEFAULTS:
        # Filling the memory has taken programs and libraries out of it, and the time of a start would be the disk's.
        (work / "before").mkdir()
        with Servers(name, setup, work / "before"):
            pass
    ports = free_ports()
    first = FirstMessage(ports) if setup == DEFAULTS else None
    ran: list[Figures] = []
    with Servers(name, setup, work, ports) as servers:
        if first is not None:
            measured.single[START] = first.wait()
        elif setup.topics > 1 or len(servers.masters) > 1 or setup.has_slave:
            for topic in setup.topic_names:
                servers.create_topic(topic, setup.queues)
        topics = list(setup.topic_names)
        for key, load in loads.items():
            if load.setup != setup:
                continue
            if setup.topics > 1:
                # The first message of a queue makes its folder and file: the load is measured on queues that exist.
                while sum(one.acknowledged for one in ran) < setup.topics * setup.queues:
                    ran.append(with_generator(servers, replace(load, warmup_s=0), 1, work))
                servers.wait_dispatched()
            memory.fill()
            if load.mode in READS and not any(one.acknowledged for one in ran):
                ran.append(with_generator(servers, as_account_of(load, FILLING), 2, work))
            if load.mode == "end-to-end":
                topics.append(END_TO_END_TOPIC)
            measured.cells[key] = figures = run(servers, offered(load, measured), seconds, work)
            ended = time.monotonic()
            ran.append(figures)
            if figures.note:
                measured.notes.append(f"{TITLES[name]}, {load.title}: {figures.note}")
            done(f"{load.title}: {figures.rate:,.0f}/s, {figures.cpu_us:.1f} us CPU")
        if setup == DEFAULTS:
            measured.single[MEMORY] = anonymous_mib(servers.pids())
        if setup.topics > 1:
            servers.wait_dispatched()
            measured.single[CATCH_UP] = time.monotonic() - ended
        servers.wait_replicated()
        check_stored(servers, topics, ran, measured, first_messages=int(first is not None))
        if setup.topics > 1:
            began = time.monotonic()
            servers.stop()
            measured.single[MANY_STOP] = time.monotonic() - began
    if setup.topics > 1:
        first = FirstMessage(ports)
        with Servers(name, setup, work, ports) as servers:
            measured.single[MANY_START] = first.wait()
        done(f"{SINGLE[MANY_START].words}: {measured.single[MANY_START]:.2f}")
    return servers


def measure_restarts(name: str, fill: int, seconds: float, measured: Round, done: Done, work: Path) -> Servers:
    """Fills a store with so many bytes of bodies, and starts the server again: after a clean stop, and after kill -9."""
    setup, ports = Setup(RESTART), free_ports()
    filled: list[Figures] = []

    def add(seconds: float) -> int:
        """Adds messages, each with its number as its key; how many there are."""
        first: int = sum(one.acknowledged for one in filled)
        filled.append(with_generator(servers, with_keys(FILLING, first), seconds, work))
        if filled[-1].note or not filled[-1].acknowledged:
            message = f"{TITLES[name]}: the store could not be filled: {filled[-1].note}"
            raise RuntimeError(message)
        return first + int(filled[-1].acknowledged)

    with Servers(name, setup, work, ports) as servers:
        while (stored := add(5)) * 1024 < fill:
            pass
        servers.wait_dispatched()
        servers.stop()
    done("filled")
    first = FirstMessage(ports)
    with contextlib.ExitStack() as ending:
        servers = Servers(name, setup, work, ports)
        ending.callback(servers.kill)
        measured.single[CLEAN_START] = first.wait()
        done(f"{SINGLE[CLEAN_START].words}: {measured.single[CLEAN_START]:.2f}")
        check_stored(servers, [TOPIC], filled, measured, first_messages=1)
        servers.wait_dispatched()
        servers.cache_stores()
        measured.cells["query"] = figures = run(servers, with_keys(QUERY, stored), seconds, work)
        if figures.note:
            measured.notes.append(f"{TITLES[name]}, {QUERY.title}: {figures.note}")
        done(f"{QUERY.title}: p99 {figures.p99_us:,.0f} us")
        add(1)  # what the next start has to recover
    first = FirstMessage(ports)
    with Servers(name, setup, work, ports) as servers:
        measured.single[KILL_START] = first.wait()
        check_stored(servers, [TOPIC], filled, measured, first_messages=2)
    done(f"{SINGLE[KILL_START].words}: {measured.single[KILL_START]:.2f}")
    return servers


def offered(load: Load, measured: Round) -> Load:
    """The load with the rate at which its sends are offered, if that is a part of another row's."""
    if not load.share:
        return load
    rate = round(load.share * measured.cells["pipelined"].rate)
    return replace(load, arguments=load.arguments | {"rate": rate})


def as_account_of(load: Load, other: Load) -> Load:
    """The other load, signed if the load is."""
    signed = {name: value for name, value in load.arguments.items() if name == "account"}
    return replace(other, arguments=other.arguments | signed)


def with_keys(load: Load, keys: int) -> Load:
    """The load with keys: the first one of those that it sends, or the number of those that it may query."""
    return replace(load, arguments=load.arguments | {"keys": keys})


def check_stored(servers: Servers, topics: list[str], ran: list[Figures], measured: Round, first_messages: int) -> None:
    """Notes it if the topics' queues do not hold each acknowledged message once."""
    acknowledged = sum(one.acknowledged for one in ran) + first_messages
    unanswered = sum(one.unanswered for one in ran)
    stored = 0

    def are_stored() -> bool:
        nonlocal stored
        stored = servers.stored(topics)
        return bool(stored >= acknowledged)

    with contextlib.suppress(AssertionError):
        wait_until(are_stored, 10, "all messages are in their queues")
    if not acknowledged <= stored <= acknowledged + unanswered:
        measured.notes.append(
            f"{TITLES[servers.name]}, {servers.setup.name}: {stored:,} messages are stored, {acknowledged:,} were acknowledged"
            f" and {unanswered:,} more were sent"
        )


def verify(stores: list[Path]) -> list[str]:
    """What `headrace store verify` finds in the stores, two of which it reads at a time."""

    def found(store: Path) -> list[str]:
        command = [str(HEADRACE_COMMAND), "store", "verify", str(store)]
        said = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        return [f"store verify {store}: {said.stdout[-400:]}{said.stderr[-400:]}"] if said.returncode else []

    with ThreadPoolExecutor(2) as threads:
        return [note for notes in threads.map(found, stores) for note in notes]


if __name__ == "__main__":
    main()
