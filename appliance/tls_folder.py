"""A folder with a private certificate authority, a server and a client certificate, and the tls.properties that uses them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from appliance.certificates import Authority, hosts_of, write_new
from appliance.errors import ApplianceError

_CA_DAYS: Final = 3650
_FILES: Final = ("ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key", "tls.properties")


def make_tls_folder(directory: Path, hosts: Sequence[str], client: str = "client", days: int = 825) -> None:
    """Write all files, with mode 0600. `hosts`: names and addresses of the servers; `client`: common name of the client certificate.

    Raises ApplianceError; existing files are never overwritten.
    """
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
