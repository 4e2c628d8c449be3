"""`headrace tls init`."""

import ipaddress
import re
from pathlib import Path
from typing import Final

import click

_DAYS: Final = 825
_HOST_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


@click.command("init", short_help="Create a private CA and certificates for servers and clients.")
@click.argument("folder", metavar="DIR")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Host name or IP address by which clients reach the servers. Can be repeated; localhost is always included.",
)
@click.option(
    "--client", default="client", show_default=True, metavar="NAME", help="Common name of the client certificate."
)
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, 3650),
    default=_DAYS,
    show_default=True,
    help="Validity of server and client certificates.",
)
def command(folder: str, hosts: tuple[str, ...], client: str, days: int) -> None:
    """Create a private certificate authority in DIR, and use it to issue a server certificate and a client certificate.

    Also writes DIR/tls.properties, which both Headrace and RocketMQ's servers read. All files have mode 0600. Existing files are never
    overwritten: the command fails instead.

    Keep ca.key offline: whoever has it can issue certificates that your servers and clients accept.
    """
    from appliance.tls_folder import make_tls_folder  # noqa: PLC0415  slow to import

    for host in hosts:
        _check_host(host)
    directory = Path(folder).absolute()
    make_tls_folder(directory, hosts, client, days)
    _print_next_steps(directory, client)


def _check_host(host: str) -> None:
    """Raises click.BadParameter unless it is a host name, also `*.example.org`, or an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise click.BadParameter(f"{host!r}: expected a host name or an IP address", param_hint="--host") from None


def _print_next_steps(directory: Path, client: str) -> None:
    print(
        f"""Created in {directory}:
  ca.pem, ca.key          the private CA; move ca.key to a safe place
  server.pem, server.key  for name servers and brokers
  client.pem, client.key  for one client or operator (CN={client})
  tls.properties          settings that use these files

Servers: add to appliance.toml
  tlsConfigFile = "{directory}/tls.properties"
  tlsMode = "permissive"    # "enforcing" once all clients use TLS

Java clients: start with
  -Dtls.enable=true -Dtls.test.mode.enable=false -Dtls.client.authServer=true
  -Dtls.client.trustCertPath={directory}/ca.pem
  -Dtls.client.certPath={directory}/client.pem -Dtls.client.keyPath={directory}/client.key

Python clients:
  from headrace import ClientConfig, Tls
  ClientConfig(tls=Tls(ca="{directory}/ca.pem", certificate="{directory}/client.pem", key="{directory}/client.key"))"""
    )
