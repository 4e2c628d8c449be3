"""A login at an OpenID provider in a real browser, with the console's policy in force."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.console import RunningConsole
from support.oidc import Provider

pytestmark = pytest.mark.slow


def test_user_of_a_provider_logs_in_and_out(tmp_path: Path, page: Page) -> None:
    with Provider() as provider, RunningConsole(tmp_path / "console", **provider.options(tmp_path)) as console:
        page.goto(f"{console.config.url}account")
        page.get_by_role("link", name="Log in with Example SSO").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Your account oidc:alice")
        assert page.url == f"{console.config.url}account"
        expect(page.get_by_role("main")).to_contain_text("operator")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("link", name="使用 Example SSO 登录")).to_be_visible()
