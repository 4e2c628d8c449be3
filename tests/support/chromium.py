"""What tests with a browser share."""

from urllib.parse import urlsplit

from playwright.sync_api import Page

from support.console import PASSWORD


def log_in(page: Page, port: int, path: str = "/") -> None:
    """Logs in to the console as the administrator and waits until the page at the path has loaded.

    Without the wait, what a test does next may still act on the page that is being left, which Chromium refuses to reload.
    """
    address = f"http://127.0.0.1:{port}{path}"
    page.goto(address)
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: urlsplit(url).path == urlsplit(address).path)
