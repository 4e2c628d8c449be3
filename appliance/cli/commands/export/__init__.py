"""`headrace export`: its subcommands are the modules of this package; `run` is the default."""

import click

from appliance.cli.command_folder import CommandFolder


class _ExportCommands(CommandFolder):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`headrace export SOURCE TARGET` means `headrace export run SOURCE TARGET`."""
        if args and args[0] not in {*self.list_commands(ctx), "--help"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


command = _ExportCommands(
    __name__,
    name="export",
    help="""Export the CommitLog to Parquet, Iceberg or Delta.

    Reads stores of Headrace and of Apache RocketMQ 4.x and 5.x. `headrace export SOURCE TARGET` is short for `headrace export run SOURCE TARGET`.""",
)
