"""`headrace console`."""

import dataclasses
import logging
import os
import signal
from pathlib import Path

import click

from appliance import exit_code, process
from appliance.errors import ConfigurationError, PreflightFailed
from appliance.log_line import LineFormatter


@click.command("console", short_help="Run the console alone, for any RocketMQ 4.9 cluster.")
@click.option(
    "--namesrv", metavar="ADDRESSES", required=True, help="Name servers of the cluster, separated by semicolons."
)
@click.option(
    "--data",
    metavar="DIR",
    default="./console",
    show_default=True,
    help="The console's folder: accounts, audit log, history.",
)
@click.option(
    "--config",
    "file",
    metavar="FILE",
    help="File with the console's keys of appliance.toml, such as consoleOidcIssuer. Flags override it.",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, metavar="N", help="Port to listen on.  [default: 8080]")
@click.option("--base-path", metavar="PATH", help="Path prefix of all pages, such as /headrace, for a reverse proxy.")
@click.option(
    "--trusted-proxies",
    metavar="NETWORKS",
    help="Reverse proxies whose X-Forwarded-… headers are used, separated by commas.",
)
def command(
    namesrv: str,
    data: str,
    file: str | None,
    host: str | None,
    port: int | None,
    base_path: str | None,
    trusted_proxies: str | None,
) -> int:
    """Run the console alone, without a broker: for a cluster of Headrace or of Apache RocketMQ 4.9.

    It reads ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY and ROCKETMQ_TLS_… from the environment, as Headrace's Python client does. An appliance
    runs a console of its own (`headrace run`). SIGTERM and SIGINT stop it.
    """
    from appliance.configuration_reader import read_console  # noqa: PLC0415  only what this command needs
    from headrace.client.settings import ClientConfig, Credentials  # noqa: PLC0415
    from headrace.errors import ConfigError  # noqa: PLC0415
    from web.listener import bind  # noqa: PLC0415

    flags = {
        "consoleHost": host,
        "consolePort": port,
        "consoleBasePath": base_path,
        "consoleTrustedProxies": trusted_proxies,
    }
    config = read_console(file, flags)
    try:
        cluster = ClientConfig.from_env(name_servers=namesrv)
    except (ConfigError, ValueError) as error:
        raise ConfigurationError(str(error)) from error
    if config.console_access_key:
        account = Credentials(config.console_access_key, config.console_secret_key)
        cluster = dataclasses.replace(cluster, credentials=account)
    try:
        listener = bind(config.console_host, config.console_port)
        folder = Path(data)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PreflightFailed(str(error)) from error

    from web import daemon  # noqa: PLC0415
    from web.application import ConsoleSettings  # noqa: PLC0415

    _log_to_stderr()
    stop_fd, stop_write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(stop_write_fd, b"\0"))
    daemon.spare_brokers()
    process.take_long_slices()
    daemon.run(
        lambda: None,
        lambda: click.echo(f"headrace: console at {config.url}"),
        stop_fd,
        listener,
        ConsoleSettings(config, cluster, folder),
    )
    return exit_code.CLEAN


def _log_to_stderr() -> None:
    """Lines as those of an appliance's log, of the role `console`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("text"))
    handler.addFilter(_add_role)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def _add_role(record: logging.LogRecord) -> bool:
    record.role = "console"
    return True
