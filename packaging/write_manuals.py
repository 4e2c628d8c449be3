"""Writes the man page and the shell completion of the `headrace` command: `python packaging/write_manuals.py FOLDER`.

    FOLDER/headrace.1                          the help of every command
    FOLDER/headrace.{bash,zsh,fish}            completion, which asks the command itself for its options

The page has the date of SOURCE_DATE_EPOCH, so that packages built from equal sources are equal.
"""

# ruff: noqa: INP001 (a program, no package)

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from appliance.cli.main import headrace
from headrace import __version__

SHELLS: Final = ("bash", "zsh", "fish")
_WIDTH: Final = 78


def format_man_page(seconds: float) -> str:
    """The page in roff, with the date of these seconds since 1970."""
    day = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    lines = [
        f'.TH HEADRACE 1 "{day}" "Headrace {__version__}" "Headrace"',
        ".SH NAME",
        r"headrace \- run and manage a message broker for unmodified Apache RocketMQ 4.x clients",
        ".SH SYNOPSIS",
        ".B headrace",
        r".I COMMAND \fR[\fIOPTION\fR]... [\fIARGUMENT\fR]...",
        ".SH DESCRIPTION",
    ]
    for number, (path, text) in enumerate(_walk(headrace, "headrace", None)):
        if number == 1:
            lines.append(".SH COMMANDS")
        if number:
            lines.append(f'.SS "{path}"')
        lines += [".nf", *map(_escape, text.splitlines()), ".fi"]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        ".B HEADRACE_DATA",
        "The data folder of commands without \\-\\-data.",
        ".SH FILES",
        ".TP",
        ".I /etc/headrace",
        "The configuration of the service: appliance.toml, broker.conf, namesrv.conf, and accounts in acl/.",
        ".TP",
        ".I /var/lib/headrace",
        "The data of the service.",
        ".TP",
        ".I /var/log/headrace",
        "Its logs.",
    ]
    return "".join(f"{line}\n" for line in lines)


def format_completion(shell: str) -> str:
    """The completion script of one of SHELLS."""
    completion = get_completion_class(shell)
    assert completion is not None
    # Not source(), which runs the shell to look at its version.
    made = completion(headrace, {}, "headrace", "_HEADRACE_COMPLETE")
    return made.source_template % made.source_vars()


def _walk(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=path.rsplit(maxsplit=1)[-1], parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH, color=False
    )  # fmt: skip
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, f"{path} {name}", context)


def _escape(line: str) -> str:
    text = line.rstrip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def main(folder: Path) -> None:
    """Write all files into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    page = format_man_page(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    (folder / "headrace.1").write_text(page, encoding="utf-8")
    for shell in SHELLS:
        (folder / f"headrace.{shell}").write_text(format_completion(shell), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
