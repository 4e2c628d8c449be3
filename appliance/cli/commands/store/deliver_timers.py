"""`headrace store deliver-timers`.

An appliance is started on the store whose broker serves nobody: it delivers all timers, and has the appliance stopped. So recovery, both
indexes, syncing and the store's lock are as always.
"""

import os
import signal
import socket
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import click

from appliance import exit_code
from appliance.cli.store_path import broker_of_path_option, store_root


@click.command("deliver-timers", short_help="Turn messages that wait for a given time into ordinary ones.")
@click.argument("path")
@broker_of_path_option
@click.option("-c", "broker_conf", metavar="FILE", help="broker.conf with the settings of this store (file sizes).")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A key of broker.conf. May be given several times."
)
def command(path: str, broker: str | None, broker_conf: str | None, settings: tuple[str, ...]) -> int:
    """Deliver at once all messages in the store at PATH that wait for a given time (TIMER_DELIVER_MS), whenever they are due.

    RocketMQ's 4.9 brokers do not know such messages and would never deliver them: run this before a store is moved there.
    Messages with a delay level need nothing, these brokers go on with them. No appliance may be running on the store.
    Should it be interrupted, run it again: none is delivered twice.

    Exit codes: 0 all delivered; 1 not all; others as `headrace run`.
    """
    root = store_root(path, broker)
    from appliance.boot import run_appliance  # noqa: PLC0415
    from appliance.configuration import BrokerConfiguration, Sources  # noqa: PLC0415
    from appliance.role_table import BrokerRole, RoleTables, appliance_roles, broker_roles  # noqa: PLC0415
    from appliance.supervisor import Announcements  # noqa: PLC0415
    from ipc.role_context import RoleContext  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        (Path(folder) / "store").symlink_to(root.resolve())
        told = Path(folder) / "delivered"
        sources = Sources(
            folder,
            broker_conf,
            None,
            None,
            (*settings, "nameserverEnable=false", "haEnable=false"),
            "127.0.0.1",
            None,
            _free_port(),
        )

        def deliver(context: RoleContext, configuration: BrokerConfiguration) -> None:
            from broker.broker import deliver_timers  # noqa: PLC0415

            delivered = deliver_timers(context, configuration.broker, configuration.store, configuration.store_paths)
            told.write_text(str(delivered))
            os.kill(os.getppid(), signal.SIGTERM)
            while not context.take_stop_order():  # the supervisor says so, in its order
                context.beat()
                time.sleep(0.01)

        def roles(configuration: BrokerConfiguration) -> list[BrokerRole]:
            return [
                replace(role, run=deliver) if role.name == "broker" else role for role in broker_roles(configuration)
            ]

        announcements = Announcements(lambda _: None, _warn)
        result = run_appliance(sources, announcements, RoleTables(appliance_roles, roles))
        if result.error is not None:
            raise result.error
        if not told.exists() or not result.is_clean:
            _warn("not all timers were delivered, or not everything could be put in order: run this again")
            return exit_code.FAILED
        print(f"{path}: {int(told.read_text())} messages delivered")
    return exit_code.CLEAN


def _free_port() -> int:
    """A port that nobody has: the supervisor checks it, though nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _warn(line: str) -> None:
    click.echo(f"warning: {line}", err=True)
