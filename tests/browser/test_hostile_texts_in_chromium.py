"""Every page of a console whose texts others chose to harm its readers, in Chromium: no script of theirs runs, and none is stopped only by the policy."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from support.chromium import log_in
from support.console_world import World
from support.hostile_world import BASE, HOSTILE, HOSTILE_KEY, hostile_world
from support.servers import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hostile_world(tmp_path_factory.mktemp("hostile")) as world:
        yield world


def test_texts_of_others_never_run(world: World, page: Page) -> None:
    """Dialogs, and scripts that the policy stops, fail the test."""
    asked: set[str] = set()
    page.on("request", lambda one: asked.add(urlsplit(one.url).path))
    site = f"http://127.0.0.1:{world.port}{BASE}"
    log_in(page, world.port, f"{BASE}/")
    for route, path in sorted(world.pages.items()):
        page.goto(f"{site}{path}")
        for chart in page.locator("[data-chart]").all():
            chart.locator("canvas, .state").first.wait_for()
        assert page.locator("svg").count() == 0, route

    page.goto(f"{site}/topics/Orders/tail")
    row = page.locator("[data-tail] tbody tr").filter(has_text=HOSTILE)
    wait_until(lambda: _is_shown(world, row), 60, "a message in the tail")
    expect(row.first).to_contain_text(HOSTILE_KEY)
    assert page.locator("svg").count() == 0
    assert [path for path in asked if not path.startswith(f"{BASE}/")] == []


def _is_shown(world: World, row: Locator) -> bool:
    """Sends a message, too: the tail begins at the end of the topic."""
    form = {"body": HOSTILE, "tags": HOSTILE, "keys": HOSTILE_KEY, "properties": f"{HOSTILE_KEY}={HOSTILE}"}
    assert world.admin.send("/topics/Orders/messages", form).status == 303
    return row.count() > 0
