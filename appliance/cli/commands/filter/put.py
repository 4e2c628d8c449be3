"""`headrace filter put`."""

import click

from appliance.cli.filter_functions import check_function, folder_of, read_function
from appliance.cli.options import broker_option, data_option


@click.command("put", short_help="Install or update a function.")
@click.argument("file")
@data_option
@broker_option
@click.option(
    "--name", metavar="NAME", help="Name under which the function is installed. Default: the file name without .py."
)
@click.option(
    "--no-check",
    is_flag=True,
    help="Do not test-load the function, for example because the broker runs on another machine.",
)
def command(file: str, data: str, broker: str | None, name: str | None, no_check: bool) -> None:
    """Install the filter function in FILE, or update the one of the same name.

    \b
    FILE is a Python file that defines the function `wants`:
        def wants(message):
            return message.properties.get("city") == "Rome" and len(message.body) > 100

    `message` has topic, body (bytes), properties, tags, keys, born_timestamp and more. The function is first loaded in a separate
    process without access to files or the network, and rejected if that fails. A running broker uses the new version within two
    seconds, a stopped one when it starts. Consumers name it in a subscription of type PYTHON; the broker must run with
    pythonFilterWorkers greater than 0.
    """  # noqa: D301  (click's mark for preformatted lines)
    folder = folder_of(data, broker)
    name, source = read_function(file, name)
    if not no_check:
        check_function(name, source)
    is_new = folder.version(name) is None
    folder.put(name, source)
    print(f"{name} {'installed' if is_new else 'updated'}")
