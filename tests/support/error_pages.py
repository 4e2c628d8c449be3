"""Pages of errors in Chromium, which logs their status as an error."""

from playwright.sync_api import Route


def answered(route: Route) -> None:
    """The console's own answer. Chromium logs a page with the status of an error, which fails the test."""
    answer = route.fetch(max_redirects=0)
    route.fulfill(response=answer, status=200 if answer.status >= 400 else answer.status)
