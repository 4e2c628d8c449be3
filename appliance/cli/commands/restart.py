"""`headrace restart`."""

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor


@click.command("restart", short_help="Restart a role or a broker.")
@click.argument("role")
@data_option
@timeout_option
def command(role: str, data: str, timeout_s: float) -> None:
    """Stop ROLE of a running appliance cleanly and start it again. Returns when it is running.

    `headrace status` lists the roles. With several brokers, ROLE is BROKER/ROLE or a broker name. Restarting a broker also recovers its store.
    """
    answer = ask_supervisor(data, {"command": "restart", "role": role}, timeout_s)
    print(f"{role} is running" + (f", pid {answer['pid']}" if "pid" in answer else ""))
