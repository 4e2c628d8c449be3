"""Options that several commands have."""

import click

data_option = click.option(
    "--data", metavar="DIR", default="./data", show_default=True, help="The appliance's data folder."
)
"""Which appliance is meant."""

broker_option = click.option("--broker", metavar="NAME", help="Name of the broker; required if DIR has several.")
"""Which broker of the appliance is meant."""

timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=120.0, show_default=True, metavar="SECONDS",
    help="How long to wait for completion.",
)  # fmt: skip
"""How long a command waits for the supervisor."""
