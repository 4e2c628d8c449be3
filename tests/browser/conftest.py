"""Headless Chromium."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

expect.set_options(timeout=20_000)  # the machine may be busy


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a fresh browser. The test fails if it logs an error, asks another host, or opens a dialog."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "install Debian's package chromium"
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda one: None if one.url.startswith("http://127.0.0.1:") else errors.append(one.url))
        page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
        page.set_default_timeout(20_000)
        yield page
        browser.close()
    assert errors == []
