"""`headrace config check`."""

from typing import TYPE_CHECKING

import click

from appliance.cli.counted import counted
from appliance.cli.options import data_option
from appliance.cli.text_table import text_table

if TYPE_CHECKING:
    from appliance.effective_configuration import BrokerConfiguration


@click.command("check", short_help="Check a configuration file.")
@click.argument("file")
@data_option
def command(file: str, data: str) -> None:
    """Check FILE. A file whose name ends in .toml is read as appliance.toml, any other file as broker.conf; namesrv.conf cannot be checked.

    Prints a warning for each key that has no effect and, for appliance.toml, the brokers of the appliance. Fails with a one-line error if a
    value is invalid, two brokers use the same port, folder or file, or, in appliance.toml, a key is unknown.
    """
    from appliance.configuration_reader import check_file  # noqa: PLC0415  slow to import

    checked = check_file(file, data)
    for warning in checked.warnings:
        print(f"warning: {warning}")
    print(f"{file}: " + (f"OK, {counted(len(checked.warnings), 'warning')}" if checked.warnings else "OK"))
    if checked.brokers:
        for line in text_table(("broker", "role", "port", "VIP channel", "HA", "store"), map(_row, checked.brokers)):
            print(line)


def _row(broker: "BrokerConfiguration") -> tuple[str, ...]:
    return (
        broker.name,
        broker.store.broker_role,
        str(broker.broker.listen_port),
        str(broker.broker.fast_port),
        str(broker.ha_port) if broker.appliance.ha_enable else "off",
        str(broker.store_paths.root),
    )
