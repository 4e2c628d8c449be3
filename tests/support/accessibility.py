"""Rules of accessibility: axe-core on a page of a browser, in the light and the dark theme."""

from importlib.resources import files
from typing import Any, Final

from playwright.sync_api import Page

_OPEN: Final = "for (const one of document.querySelectorAll('details')) one.open = true"
_PLAIN: Final = "for (const one of document.querySelectorAll('.scroll')) one.style.background = 'var(--surface)'"
"""The shadows at the edges of tables are gradients, on which axe does not check the contrast of text."""
_WIDE: Final = """() => [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => `${one.ariaLabel}: ${one.scrollWidth - one.clientWidth}`)"""
_RUN: Final = "options => axe.run(document, options).then(result => result.violations)"


def findings(page: Page) -> list[str]:
    """What is wrong with the page as it is shown, with everything unfolded: a line for each element. In the dark theme colours only."""
    page.evaluate(_OPEN)
    page.evaluate(_PLAIN)
    page.evaluate(
        files("axe_playwright_python").joinpath("axe.min.js").read_text()
    )  # not as an element of the page, which its security policy would refuse
    page.emulate_media(color_scheme="light")
    found = _run(page, {"resultTypes": ["violations"]}, "light")
    page.emulate_media(color_scheme="dark")
    colours = {"resultTypes": ["violations"], "runOnly": ["color-contrast", "link-in-text-block"]}
    return found + _run(page, colours, "dark")


def wide_tables(page: Page) -> list[str]:
    """The tables that have to be scrolled sideways, and by how many pixels."""
    found: list[str] = page.evaluate(_WIDE)
    return found


def _run(page: Page, options: dict[str, Any], theme: str) -> list[str]:
    return [
        f"{theme} {rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['html'][:200]}"
        for rule in page.evaluate(_RUN, options)
        for node in rule["nodes"]
    ]
