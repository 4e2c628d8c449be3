"""`headrace run`."""

import contextlib
import gc
import sys
from typing import TextIO

import click

from appliance import exit_code
from appliance.cli.options import (
    appliance_toml_option,
    broker_conf_option,
    host_option,
    nameserver_conf_option,
    set_option,
)


@click.command("run", short_help="Run an appliance in the foreground.")
@click.option(
    "--data",
    metavar="DIR",
    envvar="HEADRACE_DATA",
    default="./data",
    show_default=True,
    show_envvar=True,
    help="Data folder: store, logs, control socket.",
)
@broker_conf_option
@appliance_toml_option
@nameserver_conf_option
@host_option
@click.option("--nameserver-port", type=int, metavar="N", help="Port of the name server.  [default: 9876]")
@click.option(
    "--port", type=int, metavar="N", help="Port of the broker; VIP channel: N - 2, HA: N + 1.  [default: 10911]"
)
@click.option("--console-port", type=int, metavar="N", help="Port of the web console.  [default: 8080]")
@click.option("--no-console", is_flag=True, help="Do not run the console.")
@set_option
def command(
    data: str,
    broker_conf: str | None,
    appliance_toml: str | None,
    nameserver_conf: str | None,
    host: str | None,
    nameserver_port: int | None,
    port: int | None,
    console_port: int | None,
    no_console: bool,
    settings: tuple[str, ...],
) -> int:
    """Run an appliance in the foreground: name server, broker, their workers, and the console.

    The appliance runs one broker, unless appliance.toml defines several (brokers = 3, or one [[broker]] table for each broker). With several
    brokers, broker.conf and --set apply to all of them, and --port is the port of the first.

    The store is DIR/store, in the layout of RocketMQ's storePathRootDir. A RocketMQ 4.9 store can be moved there and back.
    Dedicated options such as --port override --set. --set overrides the configuration files.

    Prints "ready in N s" when clients can connect. SIGTERM, SIGINT and `headrace stop` shut it down cleanly: accepted
    messages are made durable first.

    Exit codes: 0 stopped cleanly; 1 unclean shutdown (the next start recovers the store); 2 invalid configuration; 3 could not
    start; 4 a role kept crashing before it was ready; 5 stopped
    because a role had to be restarted after an upgrade had replaced the program; run it again.
    """
    # What the supervisor needs is imported here, so that --help and mistakes answer at once. It all stays: no collecting.
    gc.disable()
    from appliance.boot import run_appliance  # noqa: PLC0415
    from appliance.configuration_reader import Sources  # noqa: PLC0415
    from appliance.supervisor import Announcements  # noqa: PLC0415

    sources = Sources(
        data,
        broker_conf,
        appliance_toml,
        nameserver_conf,
        settings,
        host,
        nameserver_port,
        port,
        console_port,
        no_console=no_console,
    )
    result = run_appliance(sources, Announcements(_say, _warn))
    if result.error is not None:
        raise result.error
    if not result.is_clean:
        _warn("unclean shutdown: the next start recovers the store (see logs/headrace.log)")
        return exit_code.FAILED
    _say("stopped")
    return exit_code.CLEAN


def _say(line: str) -> None:
    _print(line, sys.stdout)


def _warn(line: str) -> None:
    from appliance.journal import priority_prefix  # noqa: PLC0415  slow to import

    _print(f"warning: {line}", sys.stderr, priority_prefix(sys.stderr, "warning"))


def _print(line: str, where: TextIO, prefix: str = "") -> None:
    # Nobody may be reading any more; that is no reason to end.
    with contextlib.suppress(OSError):
        print(f"{prefix}headrace: {line}", file=where, flush=True)
