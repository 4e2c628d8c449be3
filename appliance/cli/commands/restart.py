"""`headrace restart`."""

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor


@click.command("restart", short_help="Stop a role or a broker in order and start it again.")
@click.argument("role")
@data_option
@timeout_option
def command(role: str, data: str, timeout_s: float) -> None:
    """Stop ROLE of a running appliance in order and start it again; done when it is running.

    With several brokers ROLE is a broker's name, whose store is recovered, or BROKER/ROLE.
    """
    answer = ask_supervisor(data, {"command": "restart", "role": role}, timeout_s)
    print(f"{role} is running" + (f", pid {answer['pid']}" if "pid" in answer else ""))
