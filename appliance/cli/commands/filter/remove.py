"""`headrace filter remove`."""

import click

from appliance.cli.filter_functions import folder_of, known_function
from appliance.cli.options import data_option


@click.command("remove", short_help="Take a function away.")
@click.argument("name")
@data_option
def command(name: str, data: str) -> None:
    """Take the filter function NAME away. Pulls that name it are refused from then on, and nobody else's."""
    folder = folder_of(data)
    known_function(folder, name)
    folder.remove(name)
    print(f"{name} is gone")
