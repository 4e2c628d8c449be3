"""`headrace filter check`."""

import click

from appliance.cli.filter_functions import check_function, read_function


@click.command("check", short_help="Check that a function can be loaded.")
@click.argument("file")
def command(file: str) -> None:
    """Load the filter function in FILE as the broker does, in a process without access to files or the network, and report errors.

    Also checks whether this machine can run filter functions at all. Needs no appliance and changes nothing; the function is
    not called.
    """
    name, source = read_function(file)
    check_function(name, source)
    print(f"{name}: OK")
