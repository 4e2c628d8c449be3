"""How the tests with a browser are written."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

BROWSER_TESTS = Path(__file__).parent.parent / "browser"


def _calls(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Two methods called one after the other, each as a statement of its own, and the line of the second."""
    for node in ast.walk(tree):
        body = getattr(node, "body", [])  # that of a lambda is no list
        for before, after in pairwise(body if isinstance(body, list) else []):
            match before, after:
                case (
                    ast.Expr(ast.Call(ast.Attribute(attr=first))),
                    ast.Expr(ast.Call(ast.Attribute(attr=second), lineno=line)),
                ):
                    yield first, second, line


def test_page_that_a_click_leads_to_is_awaited_before_another_is_opened() -> None:
    """Otherwise the second request may stop the first, or Chromium says "Not attached to an active page"."""
    early = [
        f"{path.name}:{line}"
        for path in sorted(BROWSER_TESTS.glob("*.py"))
        for first, second, line in _calls(ast.parse(path.read_text()))
        if first in ("click", "press") and second in ("goto", "reload", "go_back")
    ]
    assert early == []
