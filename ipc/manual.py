"""Writes the manual's table of cells: `python -m ipc.manual [page]`.

The page is docs/storage/shared-memory.md. The text between the two markers is generated from `control_layout`; the rest is
written by hand and not changed. A test fails if the page is stale.
"""

import sys
from pathlib import Path

from ipc.control_layout import CELLS

BEGIN = "<!-- made by `python -m ipc.manual` from ipc/control_layout.py: do not edit -->"
END = "<!-- end of the generated part -->"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "storage" / "shared-memory.md"


def format_cells() -> str:
    """The table of cells in Markdown."""
    lines = ["| word | cell | meaning | writer | readers |", "|---|---|---|---|---|"]
    lines += [
        f"| {cell.word} | `{cell.name}` | {cell.meaning} | {cell.writer} | {', '.join(cell.readers)} |"
        for cell in CELLS
    ]
    return "\n".join(lines)


def renew(page: str) -> str:
    """The page with an updated table. Raises ValueError if its markers are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page lacks the markers of its generated part")
    return f"{before}{BEGIN}\n{format_cells()}\n{END}{after}"


def main() -> None:
    """Rewrite the page named on the command line, else the manual's own."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.write_text(renew(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
