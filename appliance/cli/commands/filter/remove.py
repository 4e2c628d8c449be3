"""`headrace filter remove`."""

import click

from appliance.cli.filter_functions import folder_of, known_function
from appliance.cli.options import broker_option, data_option


@click.command("remove", short_help="Remove a function.")
@click.argument("name")
@data_option
@broker_option
def command(name: str, data: str, broker: str | None) -> None:
    """Remove the filter function NAME. Within two seconds, a running broker starts to refuse pulls that use it."""
    folder = folder_of(data, broker)
    known_function(folder, name)
    folder.remove(name)
    print(f"{name} removed")
