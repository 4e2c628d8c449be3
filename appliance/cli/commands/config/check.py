"""`headrace config check`."""

import click

from appliance.cli.counted import counted


@click.command("check", short_help="Check a configuration file.")
@click.argument("file")
def command(file: str) -> None:
    """Check FILE. A name that ends in .toml is read as appliance.toml, any other as broker.conf.

    Prints a warning for each key that has no effect. Fails with one line if a value is invalid or, in appliance.toml, if a
    key is unknown.
    """
    from appliance.configuration_reader import check_file  # noqa: PLC0415  slow to import

    warnings = check_file(file)
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"{file}: " + (f"OK, {counted(len(warnings), 'warning')}" if warnings else "OK"))
