"""`headrace start`."""

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor


@click.command("start", short_help="Start a role or a broker that was stopped.")
@click.argument("role")
@data_option
@timeout_option
def command(role: str, data: str, timeout_s: float) -> None:
    """Start ROLE of a running appliance after it was stopped; done when it is running.

    With several brokers ROLE is a broker's name, or BROKER/ROLE. A whole appliance is started with `headrace run`.
    """
    answer = ask_supervisor(data, {"command": "start", "role": role}, timeout_s)
    print(f"{role} is running" + (f", pid {answer['pid']}" if "pid" in answer else ""))
