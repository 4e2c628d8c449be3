"""`headrace start`."""

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor


@click.command("start", short_help="Start a stopped role or broker.")
@click.argument("role")
@data_option
@timeout_option
def command(role: str, data: str, timeout_s: float) -> None:
    """Start a stopped ROLE of a running appliance. Returns when ROLE is running.

    `headrace status` lists the roles. With several brokers, ROLE is BROKER/ROLE or a broker name. To start an appliance, use `headrace run`.
    """
    answer = ask_supervisor(data, {"command": "start", "role": role}, timeout_s)
    print(f"{role} is running" + (f", pid {answer['pid']}" if "pid" in answer else ""))
