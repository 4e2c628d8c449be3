"""The editor of access control in Chromium, on an appliance with accounts: rules are tried, then saved."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.appliance import Appliance
from support.chromium import log_in
from support.console import first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
PLAIN = "accounts:\n- accessKey: administrator\n  secretKey: secret-of-admin\n  admin: true\n"
SETTINGS = {"aclEnable": "true", "mappedFileSizeCommitLog": "16777216"}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    port = free_port()
    data: Path = tmp_path_factory.mktemp("acl-browser") / "data"
    (data / "conf").mkdir(parents=True)
    (data / "conf" / "plain_acl.yml").write_text(PLAIN)
    environment = {**os.environ, "ROCKETMQ_ACCESS_KEY": "administrator", "ROCKETMQ_SECRET_KEY": "secret-of-admin"}
    with Appliance(data, settings=SETTINGS, environment=environment, console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        first_administrator(data / "console", port)
        yield appliance


def test_account_is_tried_created_and_checked(appliance: Appliance, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    log_in(page, appliance.console_port, "/acl")
    expect(page.get_by_role("heading", level=1)).to_have_text("ACL")
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("Access key").fill("reporting")
    page.get_by_label("Topics, one name=PERMISSION per line").fill("Orders=SUB\nMail=PUB|SUB")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("cell", name="Topics: Orders=SUB").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Its secret key is shown only now:")

    page.get_by_role("link", name="Check access").click()
    page.get_by_label("Action").select_option("sub")
    page.get_by_label("Topic, or group:NAME").fill("Orders")
    page.get_by_role("button", name="Check").click()
    row = page.get_by_role("row").filter(has_text="reporting")
    expect(row).to_contain_text("Topics: Orders=SUB")
    expect(row).to_contain_text("yes")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("检查权限")
