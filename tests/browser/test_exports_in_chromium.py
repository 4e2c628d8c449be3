"""An administrator's task in Chromium: export a topic, and read the table."""

import tarfile
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from playwright.sync_api import Page, expect

from headrace.sync import Message, Producer
from support.appliance import Appliance
from support.chromium import log_in
from support.console import first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
QUICK = {"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "65536", "flushCommitLogThoroughInterval": "200"}


def test_topic_is_exported_and_read_with_pyarrow(tmp_path: Path, page: Page) -> None:
    port = free_port()
    with Appliance(tmp_path / "data", settings=QUICK, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(appliance.data / "console", port)
        with Producer("producers", appliance.name_server) as producer:
            for number in range(30):
                producer.send(Message("Orders" if number % 3 else "Bills", f"message {number}"))
        log_in(page, port, "/topics/Orders")
        page.get_by_role("main").get_by_role("link", name="Export messages", exact=True).click()
        expect(page.get_by_label("Target: the name of a folder")).to_have_value("Orders")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("The export has started.")
        expect(page.locator("#running")).to_contain_text("exported 20 of 30 records", timeout=60_000)
        expect(page.locator("#running")).to_contain_text("belong to topics or times that were not chosen")
        page.set_viewport_size({"width": 1440, "height": 900})
        output = page.locator("#running pre")
        assert output.evaluate("pre => pre.scrollWidth <= pre.clientWidth"), "the output wraps"
        box, form = output.bounding_box(), page.locator("#running form").bounding_box()
        assert box is not None
        assert form is not None
        assert form["y"] >= box["y"] + box["height"] + 8, "the form does not touch the output"
        expect(page.locator("#table-runs tbody tr")).to_contain_text("done")
        expect(page.locator("#table-progress")).not_to_contain_text("Nothing has been exported yet.")
        expect(page.get_by_text("The export has started.")).to_have_count(0)
        page.get_by_role("button", name="Export new messages").click()  # it appears when the export has ended
        expect(page.locator("#running")).to_contain_text("exported 0 of 0 records", timeout=60_000)
        expect(page.locator("dl.facts").first).to_contain_text("20")
        with page.expect_download() as begun:
            page.get_by_role("link", name="Download as a tar archive").click()
        archive = tmp_path / begun.value.suggested_filename
        begun.value.save_as(archive)
        page.wait_for_load_state()  # a key is lost before the shortcuts' script listens
        page.keyboard.press("g")
        page.keyboard.press("e")
        expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
        expect(page.locator("#table-targets")).to_contain_text("Orders")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        with tarfile.open(archive) as opened:
            opened.extractall(tmp_path / "downloads", filter="data")
        expected = sorted(f"message {number}".encode() for number in range(30) if number % 3)
        for folder in (appliance.data / "exports", tmp_path / "downloads"):
            table = ds.dataset(sorted(map(str, (folder / "Orders").glob("dt=*/*.parquet")))).to_table()
            assert set(table.column("topic").to_pylist()) == {"Orders"}
            assert sorted(table.column("body").to_pylist()) == expected


def test_part_that_is_renewed_every_second_keeps_the_focus_and_loses_no_click(tmp_path: Path, page: Page) -> None:
    port = free_port()
    with Appliance(tmp_path / "data", settings=QUICK, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(appliance.data / "console", port)
        with Producer("producers", appliance.name_server) as producer:
            producer.send(Message("Orders", "one"))
        log_in(page, port, "/exports")
        page.get_by_text("Start an export").click()
        page.get_by_label("Target: the name of a folder").fill("all")
        page.get_by_role("button", name="Start", exact=True).click()
        stop = page.get_by_role("button", name="Stop")
        stop.wait_for()
        running = page.content()  # the page is renewed as if the export never ended
        page.route("**/exports/all", lambda route: route.fulfill(body=running, content_type="text/html; charset=utf-8"))
        page.route("**/exports/all/stop", lambda route: route.fulfill(status=204))
        stop.focus()
        for _ in range(2):
            page.locator("#running").evaluate("running => { running.isOld = true; }")
            page.wait_for_function("() => !document.querySelector('#running').isOld")
            expect(stop).to_be_focused()
        stop.hover()
        page.mouse.down()
        for _ in range(2):
            page.wait_for_event("requestfinished", lambda request: request.headers.get("hx-request") == "true")
        with page.expect_request("**/exports/all/stop"):
            page.mouse.up()
        page.goto("about:blank")  # asks no more
