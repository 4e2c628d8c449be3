"""Options that several commands have."""

import click

data_option = click.option(
    "--data",
    metavar="DIR",
    envvar="HEADRACE_DATA",
    default="./data",
    show_default=True,
    show_envvar=True,
    help="The appliance's data folder.",
)
"""Which appliance is meant."""

broker_option = click.option("--broker", metavar="NAME", help="Name of the broker; required if DIR has several.")
"""Which broker of the appliance is meant."""

timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=120.0, show_default=True, metavar="SECONDS",
    help="How long to wait for completion.",
)  # fmt: skip
"""How long a command waits for the supervisor."""

broker_conf_option = click.option(
    "-c", "broker_conf", metavar="FILE", help="RocketMQ's broker configuration file (broker.conf)."
)
appliance_toml_option = click.option(
    "--config", "appliance_toml", metavar="FILE", help="Configuration file of the appliance (appliance.toml)."
)
nameserver_conf_option = click.option(
    "--nameserver-conf", metavar="FILE", help="Configuration file of the name server."
)
host_option = click.option(
    "--host",
    metavar="ADDRESS",
    help="Address to listen on. Clients are given the same address (brokerIP1), unless it is 0.0.0.0.  [default: 127.0.0.1]",
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of broker.conf or appliance.toml. Can be repeated.",
)
"""The configuration of an appliance: files, address and single keys."""
