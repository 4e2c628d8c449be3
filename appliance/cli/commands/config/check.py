"""`headrace config check`."""

import click


@click.command("check", short_help="Check a configuration file.")
@click.argument("file")
def command(file: str) -> None:
    """Check FILE: appliance.toml by its ending, any other name is taken for a broker.conf.

    Prints a warning for each key that has no effect here. Fails, with one line, on a value that cannot be and, in
    appliance.toml, on an unknown key.
    """
    from appliance.configuration import check_file  # noqa: PLC0415  slow to import

    warnings = check_file(file)
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"{file}: " + (f"usable, with {len(warnings)} warnings" if warnings else "in order"))
