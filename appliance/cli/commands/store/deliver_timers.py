"""`headrace store deliver-timers`.

An appliance is started on the store whose broker serves nobody: it delivers all timers, and has the appliance stopped. So recovery, both
indexes, syncing and the store's lock are as always.
"""

import os
import signal
import socket
import tempfile
import time
from pathlib import Path

import click
from msgspec.structs import replace

from appliance import exit_code
from appliance.cli.store_path import broker_of_path_option, store_root


@click.command("deliver-timers", short_help="Deliver all pending timer messages now.")
@click.argument("path")
@broker_of_path_option
@click.option(
    "-c", "broker_conf", metavar="FILE", help="Configuration file (broker.conf) with the file sizes of this store."
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a key of broker.conf. Can be repeated."
)
def command(path: str, broker: str | None, broker_conf: str | None, settings: tuple[str, ...]) -> int:
    """Deliver all pending timer messages (TIMER_DELIVER_MS) in the store at PATH now, regardless of their due time.

    RocketMQ 4.9 does not support timer messages and would never deliver them, so run this before moving a store to it.
    Messages with a delay level are not affected; RocketMQ delivers them itself. No broker, Headrace or RocketMQ, may be using the store. If
    interrupted, run the command again: no message is delivered twice.

    Exit codes: 0 all were delivered; 1 some were not; others as for `headrace run`.
    """
    root = store_root(path, broker)
    from appliance.boot import run_appliance  # noqa: PLC0415
    from appliance.configuration_reader import Sources  # noqa: PLC0415
    from appliance.effective_configuration import BrokerConfiguration  # noqa: PLC0415
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

            delivered = deliver_timers(
                context,
                configuration.broker,
                configuration.store,
                configuration.store_paths,
                may_append=not configuration.is_slave,
            )
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
            _warn("not all timers were delivered, or the shutdown was not clean; run this command again")
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
