"""A console with one of everything: an appliance with messages, a consumer and a dead letter, and a path of every page."""

import asyncio
import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace import Reject
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.settings import ClientConfig
from headrace.sync import Admin, Message, Producer, PushConsumer
from support.appliance import Appliance
from support.console import PASSWORD, Browser, first_administrator, is_up
from support.servers import free_port, wait_until
from web.alerts.alert_book import AlertBook
from web.alerts.evaluator import AlertEvent
from web.alerts.rules import What
from web.application import ConsoleSettings, make_console
from web.config import ConsoleConfig
from web.routes import Query, Route

QUICK: Final = {
    "mappedFileSizeCommitLog": "1048576",
    "maxMessageSize": "65536",
    "flushCommitLogThoroughInterval": "200",
}
WAIT_S: Final = 60


@dataclass
class World:
    """An appliance with one of everything, and an administrator."""

    appliance: Appliance
    port: int
    admin: Browser
    pages: dict[str, str] = field(default_factory=dict)
    """A path of each declared page: those without parameters, and what links lead to."""

    def crawl(self, routes: list[str], first: list[str]) -> None:
        """Follows links until each page that can be reached has a path."""
        shapes = {route: re.compile(re.sub(r"<\w+:\w+>", "[^/]+", route)) for route in routes}
        waiting = [*first, *(route for route in routes if "<" not in route)]
        deadline_s = time.monotonic() + WAIT_S
        while waiting:
            path = waiting.pop(0)
            shape = next((route for route in routes if shapes[route].fullmatch(path.partition("?")[0])), None)
            if shape is None or shape in self.pages:
                continue
            answer = self.admin.get(path)
            if answer.status in {502, 504}:  # a busy machine
                assert time.monotonic() < deadline_s, (path, answer.cause)
                waiting.append(path)
            elif answer.status == 200:
                self.pages[shape] = path
                links = map(html.unescape, re.findall(r'href="(/[^"]*)"', answer.text))
                waiting += [link.removeprefix(self.admin.base_path) for link in links]


@contextmanager
def console_world(folder: Path) -> Iterator[World]:
    """The world, while it runs."""
    port = free_port()
    data = folder / "data"

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            raise Reject("of no use")

    (data / "console").mkdir(parents=True, mode=0o700)
    book = AlertBook(data / "console" / "alerts.db")
    book.record([AlertEvent(time.time(), "broker down", "gone", True, 1.0, "", What.BROKER_DOWN, 1.0)])
    book.close()
    with Appliance(data, settings=QUICK, console_port=port) as appliance:
        wait_until(lambda: is_up(port), WAIT_S, "console")
        world = World(appliance, port, first_administrator(data / "console", port))
        with Admin(appliance.name_server) as sdk:
            sdk.create_topic("Orders", 2)
            sdk.create_topic("Unused", 1)
        consumer = PushConsumer("billing", appliance.name_server)
        consumer.subscribe("Orders", handler=handle)
        with Producer("shop", appliance.name_server) as producer, consumer:
            for number in range(3):
                producer.send(Message("Orders", str(number), "tag", f"order-{number}"))
            _fill(world)
            routes = [route.path for route in declared_routes(folder / "declared") if isinstance(route, Query)]
            wait_until(lambda: world.admin.read("/dead-letters/billing")["count"] == 1, WAIT_S, "the dead letter")
            ranges = world.admin.read("/dead-letters/billing")["ranges"]
            form = {"range": ranges[0], "to": "group", "rate": "50"}
            assert world.admin.send("/dead-letters/billing/resend-all", form).status == 303
            world.crawl(routes, ["/dead-letters/billing/progress"])
            yield world


def declared_routes(folder: Path) -> list[Route]:
    """All routes of a console."""

    async def build() -> list[Route]:
        console = make_console(ConsoleSettings(ConsoleConfig(), ClientConfig("127.0.0.1:1"), folder))
        console.close()
        return list(console.routes)

    folder.mkdir(exist_ok=True)
    return asyncio.run(build())


def _fill(world: World) -> None:
    """What is made in the console itself."""
    for path, form in (
        ("/users", {"user": "olga", "password": PASSWORD, "role": "operator"}),
        ("/tokens", {"name": "program", "role": "viewer", "days": "1"}),
        ("/alerts/webhooks", {"name": "hook", "url": "http://127.0.0.1:9/"}),
        ("/alerts/rules", {"name": "late", "what": "lag-time", "threshold": "60", "channels": "log"}),
        ("/exports", {"target": "orders"}),
    ):
        page = world.admin.send(path, form)
        assert page.status == 303, (path, page.cause)
