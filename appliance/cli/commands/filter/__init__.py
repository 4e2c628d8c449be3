"""`headrace filter`: its subcommands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__,
    name="filter",
    help="""Manage filter functions.

    A filter function is a Python function that the broker runs to select messages for a consumer.""",
)
