"""`headrace doctor security`."""

import click

from appliance import exit_code
from appliance.cli.counted import counted
from appliance.cli.options import (
    appliance_toml_option,
    broker_conf_option,
    data_option,
    host_option,
    nameserver_conf_option,
    set_option,
)


@click.command("security", short_help="Report which operations are exposed, and how to restrict them.")
@data_option
@broker_conf_option
@appliance_toml_option
@nameserver_conf_option
@host_option
@set_option
def command(
    data: str,
    broker_conf: str | None,
    appliance_toml: str | None,
    nameserver_conf: str | None,
    host: str | None,
    settings: tuple[str, ...],
) -> int:
    """Report which operations each listener of a configuration exposes, to whom, and how to restrict them.

    Takes the same configuration files, --host and --set as `headrace run`. Only reads the configuration; firewalls are not taken into
    account.

    Exit codes: 0 no open findings; 1 open findings.
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
                print(f"        fix: {finding.advice}")
    print(f"{counted(opened, 'open finding')}" if opened else "no open findings")
    return exit_code.FAILED if opened else exit_code.CLEAN
