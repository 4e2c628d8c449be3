"""`headrace filter enable`."""

import click

from appliance.cli.filter_functions import folder_of, known_function
from appliance.cli.options import data_option
from appliance.errors import ApplianceError
from store.filter.python.functions import BadFunctionFile


@click.command("enable", short_help="Put a function back into use.")
@click.argument("name")
@data_option
def command(name: str, data: str) -> None:
    """Put the filter function NAME back into use, as it is, after it was taken out of use for failing three times within a minute.

    A running broker does so within a second or two. The function's numbers begin anew.
    """
    folder = folder_of(data)
    known_function(folder, name)
    try:
        found = folder.find(name)
    except BadFunctionFile as error:
        raise ApplianceError(f"{name}: {error}") from error
    if found is not None:
        folder.put(name, found.source)
    print(f"{name} is enabled")
