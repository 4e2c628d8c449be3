"""`headrace tls init`."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Final

import click

from appliance.errors import ApplianceError

_DAYS: Final = 825
_CA_DAYS: Final = 3650
_FILES: Final = ("ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key", "tls.properties")
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
    """Create a private certificate authority in DIR, and a server and a client certificate that it has issued.

    Also writes DIR/tls.properties, which both Headrace and RocketMQ's servers read. All files have mode 0600. Existing files are never
    overwritten: the command fails instead.

    Keep ca.key offline: whoever has it can issue certificates that your servers and clients accept.
    """
    from appliance.certificates import Authority, hosts_of, write_new  # noqa: PLC0415  slow to import

    for host in hosts:
        _check_host(host)
    directory = Path(folder).absolute()
    existing = [name for name in _FILES if os.path.lexists(directory / name)]
    if existing:
        raise ApplianceError(f"{directory} already contains {', '.join(existing)}; choose another folder")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = Authority("Headrace private CA", _CA_DAYS)
        authority.save(directory / "ca.pem", directory / "ca.key")
        authority.issue(
            directory / "server.pem", directory / "server.key", "headrace", days, hosts_of(hosts), for_server=True
        )
        authority.issue(directory / "client.pem", directory / "client.key", client, days)
        write_new(directory / "tls.properties", _properties(directory).encode())
    except FileExistsError as error:
        raise ApplianceError(f"{error.filename2 or error.filename} already exists; choose another folder") from error
    except OSError as error:
        raise ApplianceError(f"cannot write to {directory}: {error.strerror}") from error
    except ValueError as error:
        raise ApplianceError(f"invalid name in --host or --client: {error}") from error
    _print_next_steps(directory, client)


def _check_host(host: str) -> None:
    """Raises click.BadParameter unless it is a host name, also `*.example.org`, or an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise click.BadParameter(f"{host!r}: expected a host name or an IP address", param_hint="--host") from None


def _properties(directory: Path) -> str:
    return f"""\
# disabled: plain text only; permissive: plain text and TLS; enforcing: TLS only
tls.server.mode=permissive
tls.test.mode.enable=false
tls.server.certPath={directory}/server.pem
tls.server.keyPath={directory}/server.key
# Client certificates: none, optional (verified if presented) or require
tls.server.need.client.auth=optional
tls.server.authClient=true
tls.server.trustCertPath={directory}/ca.pem
# Connections that servers make: brokers to name servers (tls.enable=true), slaves to masters (haTlsEnable=true)
tls.client.authServer=true
tls.client.trustCertPath={directory}/ca.pem
tls.client.certPath={directory}/client.pem
tls.client.keyPath={directory}/client.key
"""


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
