"""The page of replication in Chromium, on a master and a slave: in sync, stopped, disconnected, and in sync again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from headrace import Message
from headrace.sync import Admin, Producer
from support.appliance import Appliance
from support.chromium import log_in
from support.console import first_administrator, is_up
from support.servers import free_port, free_ports, wait_until

pytestmark = pytest.mark.slow
SIZES = {"mappedFileSizeCommitLog": "16777216", "queueTableCapacity": "4096", "brokerName": "a"}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def master(tmp_path: Path, port: int) -> Iterator[Appliance]:
    with Appliance(tmp_path / "master", settings=SIZES, console_port=port) as master:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(tmp_path / "master" / "console", port)
        yield master


def slave_of(master: Appliance, folder: Path, ha_port: int, ports: tuple[int, int]) -> Appliance:
    """A slave that copies from a port of this machine."""
    replicated = {"brokerId": "1", "brokerRole": "SLAVE", "haMasterAddress": f"127.0.0.1:{ha_port}"}
    names = {"nameserverEnable": "false", "namesrvAddr": master.name_server}
    return Appliance(folder, settings={**SIZES, **replicated, **names}, ports=ports)


def reload_until(page: Page, table: str, *texts: str) -> None:
    """Until the table's only row has all texts."""

    def is_shown() -> bool:
        page.reload()
        rows = page.locator(f"#table-{table} tbody tr").all_inner_texts()
        return len(rows) == 1 and all(text in rows[0] for text in texts)

    wait_until(is_shown, 60, f"{texts} in {table}")


def test_slave_is_disconnected_then_in_sync_then_gone(master: Appliance, port: int, tmp_path: Path, page: Page) -> None:
    log_in(page, port)
    expect(page.get_by_role("heading", level=1)).to_have_text("Dashboard")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Replication")
    reload_until(page, "masters", "no slaves", "ASYNC_MASTER")
    ports = free_ports()
    with Producer("p", master.name_server) as producer, Admin(master.name_server) as admin:
        admin.create_topic("Copied")
        for _ in range(20):
            producer.send(Message("Copied", b"x" * 1_000))
        with slave_of(master, tmp_path / "slave", free_port(), ports):
            reload_until(page, "slaves", "disconnected", "KiB")
            reload_until(page, "masters", "disconnected")
        with slave_of(master, tmp_path / "slave", master.ports[1] + 1, ports) as slave:
            reload_until(page, "slaves", "in sync", slave.broker)
            reload_until(page, "masters", "in sync")
            end = admin.runtime_info(master.broker)["commitLogMaxOffset"]
            reload_until(page, "slaves", f"{int(end):,}")
            page.set_viewport_size({"width": 390, "height": 800})
            wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") <= 390, 20, "charts are narrow")
            page.get_by_role("button", name="Menu").click()
            page.get_by_role("button", name="中文").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("主从复制")
            expect(page.locator("#table-slaves")).to_contain_text("已同步")
            page.get_by_role("button", name="菜单").click()
            page.get_by_role("button", name="English").click()
        reload_until(page, "masters", "no slaves")
