"""The entry point of the `headrace` command: runs a subcommand and turns our errors into one line and an exit code."""

import sys
from typing import NoReturn

import click

from appliance import exit_code
from appliance.cli.command_folder import CommandFolder
from appliance.errors import ApplianceError

headrace = CommandFolder(
    "appliance.cli.commands",
    name="headrace",
    help="""Run and manage a Headrace appliance: a message broker for unmodified RocketMQ 4.x clients.

    Exit codes: 0 success; 1 the command failed; 2 invalid usage or configuration; 3 the appliance could not start;
    4 one of its processes kept crashing before it was ready; 5 the program was replaced while it was running.""",
)


def main() -> NoReturn:
    """The entry point of the `headrace` script."""
    try:
        code = headrace.main(prog_name="headrace", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        print("headrace: interrupted", file=sys.stderr)
        code = exit_code.FAILED
    except ApplianceError as error:
        from appliance.journal import priority_prefix  # noqa: PLC0415  slow to import

        print(f"{priority_prefix(sys.stderr, 'error')}headrace: {error}", file=sys.stderr)
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else exit_code.CLEAN)


if __name__ == "__main__":
    main()
