"""docs/reference/headrace.md, made from the commands' own help."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from appliance.cli.main import headrace

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "headrace.md"

_WIDTH: Final = 100
_HEAD: Final = """\
<!-- made by `make docs` from the commands themselves: do not edit -->

# The `headrace` command

The output of `--help` of each command.
"""


def format_page() -> str:
    """The page as it should be."""
    sections = [f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in _walk(headrace, "headrace", None)]
    return _HEAD + "".join(sections)


def _walk(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=path.rsplit(maxsplit=1)[-1],
        parent=parent,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        color=False,
    )
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, f"{path} {name}", context)


def main() -> None:
    """Write the page."""
    PAGE.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
