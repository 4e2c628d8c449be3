"""`headrace filter`: its subcommands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__,
    name="filter",
    help="Manage filter functions: Python functions that select messages for consumers in the broker.",
)
