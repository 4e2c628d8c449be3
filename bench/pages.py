"""How fast the pages of the console appear with 2,000 topics, 50,000 queues, 500 consumer groups and 100 clients, and how many requests they cost brokers.

    python bench/pages.py                        seven visits of each page; appends a section to bench/RESULTS.md
    python bench/pages.py --rounds 2 --print
    python bench/pages.py --topics 200 --groups 50 --clients 10 --print

An appliance with a console gets the topics, a message in each queue, groups with offsets of which one in four is behind, dead letters of one group in five,
and clients, each of which is a member of several groups and a producer. Then headless Chromium opens every page of the console that needs no name, as an
administrator: *first paint* is its First Contentful Paint, *server* the time from its request to the last byte of the page. All pages are opened in
turn, with pauses in which the answers of brokers that the console shares among pages expire: no page profits from the one before. The requests to
brokers are counted in a console without a browser, which has a sample of the cluster but no answers.

Exit status: 1 if the median first paint of a page is 300 ms or more.
"""

import argparse
import asyncio
import contextlib
import http.client
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from playwright.async_api import async_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "bench")]

from report import RESULTS, commit, machine, row  # type: ignore[import-not-found]  # noqa: E402  (bench/ is not a package)

from headrace import (  # noqa: E402
    Admin,
    ClientConfig,
    Message,
    MessageQueue,
    Producer,
    SubscriptionGroupConfig,
    TopicConfig,
)
from headrace.client.cluster.instance import ClientInstance  # noqa: E402
from headrace.errors import HeadraceError  # noqa: E402
from headrace.model.names import dlq_topic  # noqa: E402
from headrace.model.subscription import SubscriptionData  # noqa: E402
from headrace.protocol.bodies import ConsumerData, HeartbeatData, ProducerData  # noqa: E402
from headrace.protocol.remoting_command import RemotingCommand, create_request  # noqa: E402
from headrace.protocol.request_code import RequestCode  # noqa: E402
from support.appliance import Appliance  # noqa: E402  (tests/ is not a package)
from support.console import Browser, first_administrator, is_up  # noqa: E402
from support.servers import free_port, wait_until  # noqa: E402
from web.application import ConsoleSettings, make_console  # noqa: E402
from web.config import ConsoleConfig  # noqa: E402
from web.routes import Access, Query, Visit  # noqa: E402
from web.sampling.sampler import BROKER_DEADLINE_S  # noqa: E402

T = TypeVar("T")

GOAL_MS: Final = 300
QUEUES: Final = (10, 20, 25, 30, 40)
"""Of the topics in turn: 25 on average."""
WAYS: Final = (
    "/topics?kind=all&sort=-write_queues&page=20",
    "/topics?filter=9",
    "/groups?page=5",
    "/search?q=topic-19",
)
"""Pages with arguments, besides those without."""
AT_ONCE: Final = 32
HEARTBEAT_S: Final = 30
EXPIRED_S: Final = 2.5
"""Answers of brokers are shared for 2 s, those of a few requests for 5 s, in which another page is opened."""
FIRST_PAINT: Final = """() => new Promise((resolve) => {
    const { requestStart, responseEnd } = performance.getEntriesByType("navigation")[0];
    new PerformanceObserver((list) => {
        const paint = list.getEntriesByName("first-contentful-paint")[0];
        if (paint) resolve([paint.startTime, responseEnd - requestStart]);
    }).observe({ type: "paint", buffered: true });
})"""


@dataclass
class Times:
    """The visits of one page, ms."""

    first_paint: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Size:
    """How much the cluster has."""

    topics: int
    groups: int
    clients: int

    @property
    def queues(self) -> int:
        """In all topics."""
        return sum(QUEUES[number % len(QUEUES)] for number in range(self.topics))


def main() -> None:
    """Measures, prints, and appends a section to bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="visits of each page (default 7)")
    parser.add_argument("--topics", type=int, default=2_000, help="topics, of 25 queues on average (default 2000)")
    parser.add_argument("--groups", type=int, default=500, help="consumer groups (default 500)")
    parser.add_argument("--clients", type=int, default=100, help="connected clients (default 100)")
    parser.add_argument("--print", action="store_true", help="print only, leave RESULTS.md alone")
    options = parser.parse_args()
    size = Size(options.topics, options.groups, options.clients)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-pages-") as work:
        data = Path(work) / "data"
        with Appliance(data, console_port=port) as appliance:
            wait_until(lambda: is_up(port), 60, "console")
            browser = first_administrator(data / "console", port)
            counting = Path(work) / "counting"
            counting.mkdir()
            times, requests = asyncio.run(measure(appliance, browser, size, options.rounds, counting))
            missed = [path for path, one in times.items() if statistics.median(one.first_paint) >= GOAL_MS]
            section = "\n".join(report(size, times, requests, missed))
            print(section, flush=True)  # removing the files of 50,000 queues may take minutes
            if not options.print:
                with RESULTS.open("a") as out:
                    out.write(section + "\n")
    sys.exit(1 if missed else 0)


async def measure(
    appliance: Appliance, browser: Browser, size: Size, rounds: int, folder: Path
) -> tuple[dict[str, Times], dict[str, int]]:
    """The times of each page, and the requests to brokers for each."""
    config = ClientConfig(appliance.name_server, api_timeout=60)
    await fill(config, appliance.broker, size)
    async with connected(config, appliance.broker, size):
        paths = pages(browser)
        requests = await count_requests(config, appliance, folder, paths)
        return await visit(browser, paths, rounds), requests


# ---- what the cluster has


def topic_name(number: int) -> str:
    """A topic."""
    return f"topic-{number:04}"


def group_name(number: int) -> str:
    """A group."""
    return f"group-{number:03}"


def queues_of(number: int, broker_name: str) -> list[MessageQueue]:
    """The queues of a topic."""
    return [MessageQueue(topic_name(number), broker_name, queue) for queue in range(QUEUES[number % len(QUEUES)])]


async def fill(config: ClientConfig, broker: str, size: Size) -> None:
    """Topics with a message in each queue, groups with offsets, dead letters."""
    async with Admin(config) as admin, Producer("filling", config, send_timeout=60) as producer:
        [name] = await admin.masters()
        letters = [dlq_topic(group_name(number)) for number in range(0, size.groups, 5)]
        topics = [
            TopicConfig(topic_name(n), QUEUES[n % len(QUEUES)], QUEUES[n % len(QUEUES)]) for n in range(size.topics)
        ]
        configs = [*topics, *(TopicConfig(letter, 1, 1) for letter in letters)]
        await each("topics", lambda one: admin.update_topic(one, broker=broker), configs)
        groups = [SubscriptionGroupConfig(group_name(number)) for number in range(size.groups)]
        await each("groups", lambda one: admin.update_group(one, broker=broker), groups)

        queues = [queue for number in range(size.topics) for queue in queues_of(number, name)]
        targets = [*queues, *(MessageQueue(letter, name, 0) for letter in letters)]
        await each("messages", lambda queue: producer.send(Message(queue.topic, b"x" * 200), queue=queue), targets)
        offsets = [
            (group_name(number % size.groups), queue, 0 if number % 4 == 0 else 1)
            for number in range(size.topics)
            for queue in queues_of(number, name)
        ]
        await each("offsets", lambda one: admin.update_consumer_offset(*one), offsets)


async def each(what: str, do: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """Does it for all, some at a time. Refused requests are repeated: a topic is known to name servers a moment later."""
    began, done = time.monotonic(), 0
    waiting = iter(items)

    async def work() -> None:
        nonlocal done
        for item in waiting:
            async with asyncio.timeout(120):
                while True:
                    try:
                        await do(item)
                        break
                    except HeadraceError:
                        await asyncio.sleep(0.2)
            done += 1
            if done % 5_000 == 0:
                print(f"{done:,} {what}", file=sys.stderr)

    async with asyncio.TaskGroup() as workers:
        for _ in range(AT_ONCE):
            workers.create_task(work())
    print(f"{done:,} {what} in {time.monotonic() - began:.1f} s", file=sys.stderr)


@contextlib.asynccontextmanager
async def connected(config: ClientConfig, broker: str, size: Size) -> AsyncIterator[None]:
    """Clients that are members of all groups, while the context lasts. They send heartbeats and do not consume."""
    instances = [await ClientInstance.open(config) for _ in range(size.clients)]

    async def beat() -> None:
        for number, instance in enumerate(instances):
            consumers = [
                ConsumerData(
                    group_name(group),
                    subscription_data_set=[
                        SubscriptionData.build(topic_name(topic)) for topic in range(group, size.topics, size.groups)
                    ],
                )
                for group in range(number, size.groups, size.clients)
            ]
            content = HeartbeatData(instance.client_id, [ProducerData(f"producer-{number % 40:02}")], consumers)
            await instance.invoke(broker, create_request(RequestCode.HEART_BEAT, None, content.encode()))

    async def keep() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await beat()

    try:
        await beat()
        print(f"{size.clients} clients are connected", file=sys.stderr)
        keeping = asyncio.create_task(keep())
        yield
        assert not keeping.done(), "the heartbeats have failed"
        keeping.cancel()
    finally:
        for instance in instances:
            await instance.close()


# ---- pages


def pages(browser: Browser) -> list[str]:
    """The paths of all pages without a name in them, and some with arguments."""
    operations = browser.read("/api?size=250")["operations"]["rows"]
    listed = [one["path"].removeprefix("/api/v1") or "/" for one in operations if one["method"] == "GET"]
    plain = [path for path in listed if "{" not in path]
    # Those that need arguments are refused without.
    return sorted({*WAYS, *(path for path in plain if browser.get(path).status == http.client.OK)})


async def visit(browser: Browser, paths: list[str], rounds: int) -> dict[str, Times]:
    """Opens all pages in turn, so many times."""
    times: defaultdict[str, Times] = defaultdict(Times)
    address = f"http://127.0.0.1:{browser.port}"
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"] if os.getuid() == 0 else []
        )
        context = await chromium.new_context(viewport={"width": 1440, "height": 900})
        await context.add_cookies(
            [{"name": key, "value": text, "url": address} for key, text in browser.cookies.items()]
        )
        page = await context.new_page()
        for number in range(rounds):
            for path in paths:
                await asyncio.sleep(EXPIRED_S)
                answer = await page.goto(address + path)
                assert answer is not None
                assert answer.ok, f"{path}: {answer.status}"
                paint_ms, server_ms = await page.evaluate(FIRST_PAINT)
                times[path].first_paint.append(paint_ms)
                times[path].server.append(server_ms)
            slowest = max(paths, key=lambda path: times[path].first_paint[-1])
            print(f"round {number + 1}: slowest {slowest} {times[slowest].first_paint[-1]:.0f} ms", file=sys.stderr)
        await chromium.close()
    return times


async def count_requests(config: ClientConfig, appliance: Appliance, folder: Path, paths: list[str]) -> dict[str, int]:
    """The requests to brokers for each page, of a console that takes no samples of its own accord."""
    logging.getLogger("web").setLevel(logging.ERROR)  # nobody is to log in to this console
    settings = ConsoleSettings(ConsoleConfig(), config, folder, appliance.data / "control.sock")
    console = make_console(settings)
    queries = {route.path: route for route in console.routes if isinstance(route, Query)}
    counts: dict[str, int] = {}
    async with console.cluster as cluster:
        instance = cluster.admin._instance  # noqa: SLF001  (what all requests pass)
        asked, request = 0, instance.request

        def counted(address: str, command: RemotingCommand, timeout_ms: int) -> Awaitable[RemotingCommand]:
            nonlocal asked
            asked += 1
            return request(address, command, timeout_ms)

        instance.request = counted  # type: ignore[method-assign]
        # The sample of the cluster that this page needs, even if the page does not wait until it is complete.
        await show(queries["/"], {})
        await asyncio.sleep(BROKER_DEADLINE_S + 1)
        for address in paths:
            path, _, arguments = address.partition("?")
            cluster.forget()
            asked = 0
            await show(queries[path], dict(parse_qsl(arguments)))
            counts[address] = asked
    console.close()
    return counts


async def show(query: Query, arguments: dict[str, str]) -> None:
    """Reads all that the page shows."""
    view = await query.run(Visit("admin", Access.ADMIN, "127.0.0.1", {}, arguments))
    for number, table in enumerate(view.tables):
        await table.select(arguments, f"{table.name}." if number else "").fill()


# ---- what was measured


def report(size: Size, times: dict[str, Times], requests: dict[str, int], missed: list[str]) -> list[str]:
    """A Markdown section: where and what it was, then a table."""
    rounds = len(next(iter(times.values())).server)
    lines = [
        f"## Pages of the console: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
        (f"{size.topics:,} topics, {size.queues:,} queues with a message each, {size.groups:,} groups, {size.clients:,} clients; headless Chromium on the same machine, "
        f"{rounds} visits of each page, none with shared answers of the one before."),
        "",
        row("page", "first paint, ms: median", "worst", "server, ms: median", "worst", "requests to brokers"),
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for path, one in times.items():
        figures = [f(values) for values in (one.first_paint, one.server) for f in (statistics.median, max)]
        lines.append(row(f"`{path}`", *(f"{figure:,.0f}" for figure in figures), str(requests[path])))
    lines += ["", *(f"- Goal missed: {path}: first paint {GOAL_MS} ms or later" for path in missed)]
    return (
        lines
        if missed
        else [*lines, f"Goal: the median first paint of each page is below {GOAL_MS} ms. It was reached."]
    )


if __name__ == "__main__":
    main()
