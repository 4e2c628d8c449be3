"""Pictures of every page of the console, of an appliance with traffic: `make screenshots` writes them to docs/console.

    python -m support.console_pictures FOLDER [all]

By default each page is taken twice: light, in English and 1440 pixels wide; dark, in Chinese and 390 wide. With `all`, in each of the eight combinations.
Names are PAGE-THEME-LANGUAGE-WIDTH.webp. The program prints a warning for each page that is wider than its window.
"""

import asyncio
import contextlib
import io
import itertools
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from headrace import Message, Producer, Reject
from headrace.client.consuming.received_message import ReceivedMessage
from support.appliance import Appliance
from support.console import PASSWORD, first_administrator, is_up
from support.console import Browser as PlainBrowser
from support.consuming import create_topic, eventually, push
from support.sdk import producing
from support.servers import free_port, wait_until
from web.history.history_file import HistoryFile

TOPICS: Final = {"Orders": 8, "Payments": 4, "Shipments": 4, "Inventory": 2, "Notifications": 4}
ACL: Final = """globalWhiteRemoteAddresses:
- 127.0.0.1
accounts:
- accessKey: operations
  secretKey: the-secret-of-operations
  admin: true
- accessKey: billing-service
  secretKey: the-secret-of-billing
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Orders=SUB
  - Payments=PUB|SUB
- accessKey: web-shop
  secretKey: the-secret-of-the-shop
  topicPerms:
  - Orders=PUB
"""
SETTINGS: Final = {"mappedFileSizeCommitLog": "16777216", "aclEnable": "true", "brokerName": "broker-a"}
PER_SECOND: Final = {"Orders": 2, "Shipments": 10}
"""Messages that are sent while the pictures are taken."""
SETTLED_S: Final = 75
"""After which the averages of a minute are those of the steady traffic."""
PAYMENTS: Final = 30
TALLEST: Final = 2_400
"""Pixels of a page that are shown."""
TAIL_ROWS: Final = 5
COMBINATIONS: Final = [*product(("light", "dark"), ("en", "zh"), (1440, 390))]
KEPT: Final = [("light", "en", 1440), ("dark", "zh", 390)]


def pages(port: int) -> dict[str, str]:
    """Name and address of each page: those without parts of the path, and of the others one each."""
    browser = PlainBrowser(port)
    browser.log_in("admin", PASSWORD)
    letters = browser.read("/dead-letters/fraud-check")["letters"]["rows"]
    letter_id = letters[0]["original_id"]
    broker = browser.read("/cluster")["brokers"]["rows"][0]["address"]
    name_server = browser.read("/cluster")["name_servers"]["rows"][0]["address"]
    member = browser.read("/groups/shipping")["members"]["rows"][0]["client"]
    listed = [row["path"].removeprefix("/api/v1") for row in _operations(browser) if row["method"] == "GET"]
    plain = {
        path.strip("/").replace("/", "-") or "dashboard": path
        for path in listed
        if "{" not in path and not path.startswith("/history")  # data only, without a page
    }
    return {
        **plain,
        "charts": "/charts?series=cluster.in,cluster.out&unit=rate&range=6h",
        "topic": "/topics/Orders",
        "topic-consumers": "/topics/Orders/consumers",
        "topic-tail": "/topics/Orders/tail",
        "group": "/groups/billing",
        "group-reset": "/groups/billing/reset?topic=Orders&to=start",
        "group-member": f"/groups/shipping/members/{quote(member, safe='')}?stacks=yes",
        "messages": "/messages?by=time&topic=Orders",
        "message": f"/messages/{letter_id}",
        "message-key": "/messages?by=key&topic=Orders&key=order-7",
        "dead-letters-group": "/dead-letters/fraud-check",
        "trace": "/traces?key=order-7",
        "search": "/search?q=ship",
        "broker": f"/cluster/brokers/{quote(broker, safe='')}",
        "broker-option": f"/cluster/brokers/{quote(broker, safe='')}?key=fileReservedTime",
        "name-server": f"/cluster/name-servers/{quote(name_server, safe='')}",
        "writes": "/cluster/writes/broker-a",
        "acl-check": "/acl/check?action=pub&resource=Orders",
        "acl-account": "/acl/accounts/billing-service",
        "alert-rule": "/alerts/rules/orders%20behind",
        "alert-channel": "/alerts/channels/on-call",
        "user": "/users/vera",
        "not-found": "/topics/NoSuchTopic",
    }


def _operations(browser: PlainBrowser) -> Sequence[dict[str, str]]:
    rows: Sequence[dict[str, str]] = browser.read("/api?size=250")["operations"]["rows"]
    return rows


# ---- what the pages show


def write_history(folder: Path) -> None:
    """Six hours before the appliance was restarted, with the rates of `keep_sending`; a lag that began 50 minutes ago was consumed 30 minutes later."""
    chance, now = random.Random(7), time.time() // 10 * 10
    folder.mkdir(parents=True, exist_ok=True)
    history, disk = HistoryFile(folder / "history.db"), shutil.disk_usage(folder)
    orders, shipments = (PER_SECOND[topic] for topic in ("Orders", "Shipments"))
    lag = 0.0
    for ago in range(21_600, 0, -10):
        wave = 1 + 0.2 * chance.random() + (0.8 if 9_000 < ago < 12_000 else 0)
        consumed = 0.6 if 2_000 < ago < 3_000 else 1.5 if lag else 1
        lag = max(lag + 10 * orders * wave * (1 - consumed), 0)
        history.add(
            now - ago,
            {
                "cluster.in": (orders + shipments) * wave,
                "cluster.out": (orders * (1 + consumed) + shipments) * wave,
                "cluster.lag": lag,
                "topic.in/Orders": orders * wave,
                "topic.out/Orders": orders * (1 + consumed) * wave,
                "topic.in/Shipments": shipments * wave,
                "topic.out/Shipments": shipments * wave,
                "group.out/analytics": orders * wave,
                "group.out/billing": orders * consumed * wave,
                "group.out/shipping": shipments * wave,
                "group.lag/analytics": 0,
                "group.lag/billing": lag,
                "group.time/billing": lag / orders * 1000,
                "group.lag/shipping": 0,
                "broker.in/broker-a": (orders + shipments) * wave,
                "broker.log/broker-a": 21_600 - ago,  # less than the broker's new log
                "broker.p99/broker-a": 0.3 + 0.2 * chance.random(),
                "broker.disk/broker-a": disk.used / (disk.used + disk.free) - ago * 1e-7,
            },
        )
    history.close()


async def keep_sending(shop: Producer) -> None:
    """A steady traffic, for the rates that pages show."""
    for number in itertools.count():
        for topic, rate in PER_SECOND.items():
            for _ in range(rate):
                await shop.send(Message(topic, f'{{"order": {number}}}', "created"))
        await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def clients(appliance: Appliance) -> AsyncIterator[None]:
    """Messages, groups that consume them, one that lags and one that fails. They stay connected."""
    for topic, queues in TOPICS.items():
        await create_topic(appliance, topic, queues)
    seen: list[str] = []

    def consume(message: ReceivedMessage) -> None:
        seen.append(message.topic)

    def reject(message: ReceivedMessage) -> None:
        seen.append(message.topic)
        raise Reject("the card was reported stolen")

    async with contextlib.AsyncExitStack() as running:
        shop = await running.enter_async_context(producing(appliance, "web-shop", trace=True))
        for group, topic in (("shipping", "Shipments"), ("accounting", "Payments"), ("analytics", "Orders")):
            await running.enter_async_context(push(appliance, group, topic, consume, trace=True))
        for number in range(60):
            body = f'{{"order": {number}, "customer": "c-{number % 9}", "total": {number * 7 % 90 + 9.5}}}'
            key = f"order-{number}"
            await shop.send(Message("Orders", body, "created", key, properties={"region": "eu"}))
            if number % 2:
                await shop.send(Message("Payments", body, "card", key))
            if number % 3 == 0:
                await shop.send(Message("Shipments", body, "parcel", key))
        await eventually(lambda: len(seen) >= 110, "all are consumed")
        async with push(appliance, "billing", "Orders", consume):
            await eventually(lambda: len(seen) >= 170, "billing has consumed the first")
        async with push(appliance, "fraud-check", "Payments", reject):
            await eventually(lambda: len(seen) >= 200, "fraud-check has rejected all")
        for number in range(60, 400):
            await shop.send(Message("Orders", f'{{"order": {number}}}', "created", f"order-{number}"))
        sending = asyncio.create_task(keep_sending(await running.enter_async_context(producing(appliance, "web-site"))))
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


@contextlib.contextmanager
def traffic(appliance: Appliance) -> Iterator[None]:
    """`clients` in a thread."""
    is_ready, is_over = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    async def live() -> None:
        async with clients(appliance):
            is_ready.set()
            await asyncio.to_thread(is_over.wait)

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            failures.append(error)
            is_ready.set()
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        is_ready.wait(120)
        assert not failures, failures
        yield
    finally:
        is_over.set()
        thread.join()


def configure(console: PlainBrowser) -> None:
    """Alert rules that fire, a channel, users and a token."""
    sent = {
        "/alerts/webhooks": {"name": "on-call", "url": "http://127.0.0.1:9/hook", "token": "secret"},
        "/users": {"user": "vera", "password": PASSWORD, "role": "viewer"},
        "/tokens": {"name": "deployment", "role": "viewer", "days": "90"},
    }
    for path, form in sent.items():
        assert console.send(path, form, "/tokens").status == 303, path
    rule = {"what": "lag-messages", "threshold": "100", "for_s": "0", "subjects": "bill*", "channels": "log"}
    assert console.send("/alerts/rules", {"name": "orders behind", "enabled": "true", **rule}, "/tokens").status == 303
    wait_until(lambda: console.read("/dead-letters/fraud-check")["count"] == PAYMENTS, 60, "all dead letters")
    wait_until(lambda: any(console.read("/alerts")["firing"]["rows"]), 60, "an alert")


# ---- pictures


def take(folder: Path, port: int, combinations: Sequence[tuple[str, str, int]]) -> None:
    """Takes every page in every combination."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "install Debian's package chromium"
    folder.mkdir(parents=True, exist_ok=True)
    found, sender = pages(port), PlainBrowser(port)
    sender.log_in("admin", PASSWORD)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.getuid() == 0 else []
        )
        for theme, language, width in combinations:
            page = _log_in(browser, port, theme, language, width)
            for name, path in found.items():
                page.goto(f"http://127.0.0.1:{port}{path}")
                page.wait_for_load_state("load")
                for chart in page.locator("[data-chart]").all():
                    chart.locator("canvas, .state").first.wait_for()
                if name == "topic-tail":
                    _fill_tail(page, sender)
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    sys.stdout.write(f"{name}: {wide} pixels wide in {language}, {width}\n")
                height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
                page.set_viewport_size({"width": width, "height": max(height, 700)})
                picture = Image.open(io.BytesIO(page.screenshot()))
                picture.save(folder / f"{name}-{theme}-{language}-{width}.webp", quality=60, method=4)
                page.set_viewport_size({"width": width, "height": 900})
            page.context.close()
        browser.close()


def _fill_tail(page: Page, sender: PlainBrowser) -> None:
    """Sends messages until the live tail shows some."""
    number = 0
    while page.locator("[data-tail] tbody tr").count() < TAIL_ROWS:
        form = {"body": f'{{"order": {number}, "customer": "c-{number}"}}', "keys": f"order-{number}"}
        assert sender.send("/topics/Orders/messages", form).status == 303
        number += 1
        page.wait_for_timeout(200)


def _log_in(browser: Browser, port: int, theme: str, language: str, width: int) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        locale={"en": "en-GB", "zh": "zh-CN"}[language],
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/login")
    page.locator("input[name=name]").fill("admin")
    page.locator("input[name=password]").fill(PASSWORD)
    page.locator("main button").first.click()
    page.locator("form.search").wait_for()
    return page


def main(folder: Path, combinations: Sequence[tuple[str, str, int]]) -> None:
    """Starts an appliance, fills it, takes the pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        data, port = Path(temporary) / "data", free_port()
        (data / "conf").mkdir(parents=True)
        (data / "conf" / "plain_acl.yml").write_text(ACL)
        write_history(data / "console")
        account = {"ROCKETMQ_ACCESS_KEY": "operations", "ROCKETMQ_SECRET_KEY": "the-secret-of-operations"}
        with Appliance(data, settings=SETTINGS, console_port=port, environment={**os.environ, **account}) as appliance:
            wait_until(lambda: is_up(port), 60, "console")
            console = first_administrator(data / "console", port)
            with traffic(appliance):
                configure(console)
                time.sleep(SETTLED_S)
                take(folder, port, combinations)


if __name__ == "__main__":
    main(Path(sys.argv[1]), COMBINATIONS if sys.argv[2:] == ["all"] else KEPT)
