"""`headrace filter check`."""

import click

from appliance.cli.filter_functions import check_function, read_function


@click.command("check", short_help="Say whether a function can be used.")
@click.argument("file")
def command(file: str) -> None:
    """Load the filter function in FILE as the broker does, in a process that has neither files nor network, and say what is wrong with it.

    Also says whether this machine can run filter functions at all. No appliance is needed, nothing is changed, and the function is not
    shown any message.
    """
    name, source = read_function(file)
    check_function(name, source)
    print(f"{name} can be used")
