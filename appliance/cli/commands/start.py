"""`headrace start`."""

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor


@click.command("start", short_help="Start a role that was stopped.")
@click.argument("role")
@data_option
@timeout_option
def command(role: str, data: str, timeout_s: float) -> None:
    """Start ROLE of a running appliance after it was stopped; done when it is running.

    A whole appliance is started with `headrace run`.
    """
    answer = ask_supervisor(data, {"command": "start", "role": role}, timeout_s)
    print(f"{role} is running, pid {answer['pid']}")
