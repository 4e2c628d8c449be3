"""`headrace stop`."""

import os
import select

import click

from appliance.cli.options import data_option, timeout_option
from appliance.cli.supervisor_client import ask_supervisor
from appliance.errors import ApplianceError


@click.command("stop", short_help="Stop the appliance, one of its brokers, or one role.")
@click.argument("role", required=False)
@data_option
@timeout_option
def command(role: str | None, data: str, timeout_s: float) -> None:
    """Stop ROLE, which then stays down until it is started; without ROLE, stop the whole appliance.

    With several brokers ROLE is a broker's name, which stops that broker and releases its store, or BROKER/ROLE.

    The appliance stops in the order in which data flows, and what was accepted is durable before this command ends. It
    fails when the appliance could not be put in order.
    """
    if role is not None:
        answer = ask_supervisor(data, {"command": "stop", "role": role}, timeout_s)
        if not answer.get("clean", True):
            raise ApplianceError(
                f"{role} stopped, but not everything was in order: its next start will check the store"
            )
        print(f"{role} is stopped")
        return
    supervisor_fd = os.pidfd_open(ask_supervisor(data, {"command": "status"}, timeout_s=5.0)["status"]["pid"])
    answer = ask_supervisor(data, {"command": "stop"}, timeout_s)
    # Its last act is the answer; only when it is gone too are lock and ports free.
    select.select([supervisor_fd], [], [], timeout_s)
    if not answer["clean"]:
        raise ApplianceError("stopped, but not everything was in order: the next start will check the store")
    print("the appliance has stopped")
