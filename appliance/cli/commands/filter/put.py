"""`headrace filter put`."""

import click

from appliance.cli.filter_functions import check_function, folder_of, read_function
from appliance.cli.options import data_option


@click.command("put", short_help="Put a function there, or a new version of it.")
@click.argument("file")
@data_option
@click.option("--name", metavar="NAME", help="The function's name, if it is not that of the file.")
@click.option(
    "--no-check", is_flag=True, help="Do not load it first: for a machine other than that on which it will run."
)
def command(file: str, data: str, name: str | None, no_check: bool) -> None:
    """Put the filter function in FILE there, in place of one of the same name.

    \b
    FILE is Python and defines one function:
        def wants(message):
            return message.properties.get("city") == "Rome" and len(message.body) > 100

    `message` has topic, body (bytes), properties, tags, keys, born_timestamp and the like. The function is first loaded in a process of
    its own that has neither files nor network; one that cannot be used is refused. A running broker takes the new version within a
    second or two, a stopped one when it starts. Consumers name it in a subscription of type PYTHON; it runs where
    pythonFilterWorkers is set.
    """  # noqa: D301  (click's sign for lines that stay as they are)
    folder = folder_of(data)
    name, source = read_function(file, name)
    if not no_check:
        check_function(name, source)
    is_new = folder.version(name) is None
    folder.put(name, source)
    print(f"{name} is {'there' if is_new else 'replaced'}")
