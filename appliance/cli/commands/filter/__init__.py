"""`headrace filter`: its commands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__,
    name="filter",
    help="Filter functions in Python: which messages a consumer is given, chosen by the broker.",
)
