"""`headrace doctor security`."""

import click

from appliance import exit_code
from appliance.cli.counted import counted
from appliance.cli.options import data_option


@click.command("security", short_help="Show what is open to whom, and how to close it.")
@data_option
@click.option("-c", "broker_conf", metavar="FILE", help="RocketMQ's configuration file of the broker (broker.conf).")
@click.option(
    "--config", "appliance_toml", metavar="FILE", help="Configuration file of the appliance (appliance.toml)."
)
@click.option("--nameserver-conf", metavar="FILE", help="Configuration file of the name server.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a key. Can be repeated.")
def command(
    data: str,
    broker_conf: str | None,
    appliance_toml: str | None,
    nameserver_conf: str | None,
    host: str | None,
    settings: tuple[str, ...],
) -> int:
    """Show for each listener of a configuration who may do what, and how to close what is open.

    Give the flags of `headrace run`. Nothing is started and no port is opened, so firewalls are not taken into account.

    Exit codes: 0 nothing is open; 1 something is.
    """
    from appliance.configuration_reader import Sources, read_configuration  # noqa: PLC0415  slow to import
    from appliance.security_report import security_report  # noqa: PLC0415

    configuration = read_configuration(Sources(data, broker_conf, appliance_toml, nameserver_conf, settings, host))
    opened = 0
    for section in security_report(configuration):
        print(section.title)
        for finding in section.findings:
            print(f"  {'OPEN' if finding.advice else 'ok  '}  {finding.text}")
            if finding.advice:
                opened += 1
                print(f"        to close: {finding.advice}")
    print(f"{counted(opened, 'open finding')}" if opened else "nothing is open")
    return exit_code.FAILED if opened else exit_code.CLEAN
