"""`headrace export`: its commands are the modules of this package; without the name of one it is `run`.

`make run` has its data in ./run, so `headrace export run lake` may well mean that folder: it does where there is one, and nothing else was named.
"""

import os

import click

from appliance.cli.command_folder import CommandFolder

_RUN = "run"


class _ExportCommands(CommandFolder):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`headrace export SOURCE TARGET` means `headrace export run SOURCE TARGET`."""
        is_source = args and args[0] not in {*self.list_commands(ctx), "--help"}
        if is_source or (args and args[0] == _RUN and os.path.isdir(_RUN) and self._names_target_only(ctx, args[1:])):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)

    def _names_target_only(self, ctx: click.Context, args: list[str]) -> bool:
        command = self.get_command(ctx, _RUN)
        assert command is not None
        try:
            found = command.make_context(_RUN, list(args), parent=ctx, resilient_parsing=True).params
        except click.UsageError:
            return False
        return isinstance(found.get("source"), str) and not isinstance(found.get("target"), str)


command = _ExportCommands(
    __name__,
    name="export",
    help="""Export the CommitLog, of ours or of Apache RocketMQ 4.x and 5.x, into Parquet, Iceberg or Delta.

    `headrace export SOURCE TARGET` is short for `headrace export run SOURCE TARGET`.""",
)
