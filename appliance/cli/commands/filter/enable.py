"""`headrace filter enable`."""

import click

from appliance.cli.filter_functions import folder_of, known_function
from appliance.cli.options import broker_option, data_option
from appliance.errors import ApplianceError
from store.filter.python.functions import BadFunctionFile


@click.command("enable", short_help="Enable a function again.")
@click.argument("name")
@data_option
@broker_option
def command(name: str, data: str, broker: str | None) -> None:
    """Enable the filter function NAME again, unchanged, after the broker disabled it for failing three times within a minute.

    Takes effect in a running broker within two seconds. The function's statistics are reset.
    """
    folder = folder_of(data, broker)
    known_function(folder, name)
    try:
        found = folder.find(name)
    except BadFunctionFile as error:
        raise ApplianceError(f"{name}: {error}") from error
    if found is not None:
        folder.put(name, found.source)
    print(f"{name} enabled")
