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
    """Stop ROLE until it is started again. Without ROLE, stop the whole appliance.

    With several brokers, ROLE is BROKER/ROLE or a broker name. Stopping a broker also releases the lock on
    its store, so that another process can use it. `headrace status` lists the roles.

    Roles stop in dependency order. All accepted messages are durable when this command returns. Fails if the
    shutdown was unclean.
    """
    if role is not None:
        answer = ask_supervisor(data, {"command": "stop", "role": role}, timeout_s)
        if not answer.get("clean", True):
            raise ApplianceError(f"unclean shutdown of {role}: its next start recovers the store")
        print(f"{role} is stopped")
        return
    supervisor_fd = os.pidfd_open(ask_supervisor(data, {"command": "status"}, timeout_s=5.0)["status"]["pid"])
    answer = ask_supervisor(data, {"command": "stop"}, timeout_s)
    # Its last act is the answer; only when it is gone too are lock and ports free.
    select.select([supervisor_fd], [], [], timeout_s)
    if not answer["clean"]:
        raise ApplianceError("unclean shutdown: the next start recovers the store (see logs/headrace.log)")
    print("the appliance has stopped")
