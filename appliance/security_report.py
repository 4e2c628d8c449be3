"""The security report of a configuration: for each listener who can do what, and how to close what is open.

It reads the configuration and the files that it names, and connects to nothing.
"""

import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from appliance.effective_configuration import BrokerConfiguration, Configuration
from broker.access.acl_folder import AclFolder
from broker.access.errors import BadAclFile
from broker.config import BrokerConfig
from headrace.model.address_list import parse_address, parse_networks
from headrace.model.tls_settings import DISABLED, ENFORCING, TlsSettings
from headrace.remoting.certificate_expiry import expiries
from nameserver.config import NameServerConfig
from web.config import ConsoleConfig

_KNOWN_SECRETS: Final = frozenset({"12345678", "secretKey", "rocketmq2", "rocketmq", "password"})
"""Secret keys of RocketMQ's sample files and documentation, and the most common ones."""
_SHORT_SECRET: Final = 16


class SecurityFinding(Struct, frozen=True):
    """One fact about a listener or a file."""

    text: str
    advice: str = ""
    """How to close what is open; empty: nothing is."""


class SecuritySection(Struct, frozen=True):
    """What there is to say about one listener, or about files."""

    title: str
    findings: tuple[SecurityFinding, ...]


def security_report(configuration: Configuration) -> list[SecuritySection]:
    """The sections, listeners first."""
    sections = []
    if configuration.appliance.nameserver_enable:
        sections.append(SecuritySection(_name_server_title(configuration), tuple(_name_server(configuration))))
    for broker in configuration.brokers:
        sections.append(SecuritySection(_broker_title(broker), tuple(_broker(broker))))
        if broker.appliance.ha_enable and not broker.is_slave:
            sections.append(SecuritySection(_ha_title(broker), tuple(_ha(broker))))
        if broker.broker.acl_enable:
            title = f"ACL files of {broker.name}"
            sections.append(SecuritySection(title, tuple(_acl_files(broker))))
    if configuration.appliance.console_enable:
        sections.append(SecuritySection(_console_title(configuration.console), tuple(_console(configuration.console))))
    certificates = tuple(_certificates(configuration.tls))
    if certificates:
        sections.append(SecuritySection("certificates", certificates))
    files = tuple(_files(configuration))
    return [*sections, SecuritySection("files", files)] if files else sections


def is_loopback(host: str) -> bool:
    """Whether only processes of this host can connect to a listener on `host`."""
    address = parse_address(host)
    if address is not None:
        return address.is_loopback
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(host) and all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)


# ---- listeners

_LOOPBACK: Final = SecurityFinding("only processes on this host can connect; they may do everything")


def _name_server_title(configuration: Configuration) -> str:
    return f"name server {configuration.host or '*'}:{configuration.appliance.nameserver_port}"


def _name_server(configuration: Configuration) -> Iterator[SecurityFinding]:
    if is_loopback(configuration.host):
        yield _LOOPBACK
        return
    yield SecurityFinding("anyone who can reach the port may read routes, topic names and key-value settings")
    yield from _administration("name server", "register brokers", configuration.nameserver, configuration.tls)
    yield from _tls(configuration.tls)


def _broker_title(broker: BrokerConfiguration) -> str:
    host, config = broker.host or "*", broker.broker
    return f"{broker.name} {host}:{config.listen_port}, VIP channel {host}:{config.fast_port}"


def _broker(broker: BrokerConfiguration) -> Iterator[SecurityFinding]:
    config = broker.broker
    if is_loopback(broker.host) and not config.acl_enable:
        yield _LOOPBACK
        return
    if config.acl_enable:
        yield SecurityFinding("requests must be signed by an account in the ACL files (aclEnable=true)")
    else:
        yield SecurityFinding(
            "anyone who can reach the port may send, pull and read all messages (aclEnable=false)",
            "set aclEnable=true and create accounts with: headrace acl add; or restrict the port with a firewall",
        )
    if is_loopback(broker.host):
        yield SecurityFinding("only processes on this host can connect")
    else:
        yield from _administration("broker", "change or delete topics", config, broker.tls)
        yield from _tls(broker.tls)


def _administration(
    server: str, example: str, config: BrokerConfig | NameServerConfig, tls: TlsSettings
) -> Iterator[SecurityFinding]:
    """Who may change a server that listens on more than loopback."""
    if config.allow_unauthenticated_admin:
        yield SecurityFinding(
            f"anyone who can reach the port may administer the {server}, such as {example} (allowUnauthenticatedAdmin=true)",
            "remove allowUnauthenticatedAdmin; set adminAllow to the addresses of administrators",
        )
        return
    networks = parse_networks("adminAllow", config.admin_allow)
    everyone = [network for network in networks if network.prefixlen == 0]
    if everyone:
        yield SecurityFinding(
            f"every address may administer the {server} (adminAllow={config.admin_allow})",
            "set adminAllow to the addresses of administrators",
        )
    who = ["this host", *(str(network) for network in networks)]
    if tls.client_auth != "none":
        who.append("clients with a verified certificate")
    if isinstance(config, BrokerConfig) and config.acl_enable:
        who.append("admin accounts")
    yield SecurityFinding(f"may administer the {server}: {', '.join(who)}")


def _tls(tls: TlsSettings) -> Iterator[SecurityFinding]:
    """How far what is sent is protected on the way."""
    advice = "set tlsMode=enforcing when all clients use TLS; headrace tls init creates the certificates"
    if tls.mode == DISABLED:
        yield SecurityFinding("messages and signatures can be read and changed in transit (tlsMode=disabled)", advice)
    elif tls.mode != ENFORCING:
        yield SecurityFinding(
            "clients may use plain text, which can be read and changed in transit (tlsMode=permissive)", advice
        )
    else:
        yield SecurityFinding("all connections use TLS (tlsMode=enforcing)")
    if tls.mode != DISABLED and not tls.server.certificate:
        yield SecurityFinding(
            "the certificate is self-signed, so clients cannot verify the server",
            "create certificates with: headrace tls init DIR, and set tlsConfigFile",
        )
    if tls.client_auth == "require":
        yield SecurityFinding(
            "only clients with a certificate issued by a trusted CA can connect; without ACL, each of them may administer"
        )


def _ha_title(broker: BrokerConfiguration) -> str:
    return f"{broker.name} HA {broker.host or '*'}:{broker.broker.listen_port + 1}"


def _ha(broker: BrokerConfiguration) -> Iterator[SecurityFinding]:
    if is_loopback(broker.host):
        yield SecurityFinding("only processes on this host can connect; they may copy all messages")
    elif broker.store.ha_tls_enable and broker.tls.client_auth == "require":
        yield SecurityFinding("only slaves with a client certificate may copy messages (haTlsEnable=true)")
    else:
        yield SecurityFinding(
            "anyone who can reach the port may copy all messages",
            "allow only the slaves to connect (firewall), set haTlsEnable=true and require client certificates, or set haEnable=false",
        )


def _console_title(console: ConsoleConfig) -> str:
    return f"console {console.console_host or '*'}:{console.console_port}"


def _console(console: ConsoleConfig) -> Iterator[SecurityFinding]:
    if is_loopback(console.console_host):
        yield SecurityFinding("only processes on this host can connect; pages and changes need a login")
        return
    yield SecurityFinding(
        "anyone who can reach the port can open the login page, query the health endpoints and read the name servers' addresses"
    )
    if console.console_trusted_proxies:
        yield SecurityFinding(
            f"clients that bypass the proxies ({console.console_trusted_proxies}) use plain HTTP",
            "allow only the proxies to connect (firewall)",
        )
    else:
        yield SecurityFinding(
            "passwords and sessions can be read and changed in transit (plain HTTP)",
            "set consoleHost=127.0.0.1 and put a reverse proxy with HTTPS in front of it",
        )


# ---- files


def _acl_files(broker: BrokerConfiguration) -> Iterator[SecurityFinding]:
    folder = AclFolder(Path(broker.broker.rocketmq_home), broker.broker.acl_plain_file)
    try:
        files, rules = folder.files(), folder.load().rules
    except (BadAclFile, OSError) as error:
        yield SecurityFinding(f"cannot be read: {error}", "fix the file; the broker cannot start until it is readable")
        return
    for file in files:
        yield from _permissions(file, 0o077, "secret keys")
    if rules.white_addresses:
        yield SecurityFinding(
            f"{len(rules.white_addresses)} global white address{'es' if len(rules.white_addresses) > 1 else ''}:"
            " requests from matching addresses need no account",
            "remove globalWhiteRemoteAddresses, or make sure that only administrators use these addresses",
        )
    for account in rules.accounts.values():
        if account.secret_key in _KNOWN_SECRETS:
            yield SecurityFinding(
                f"account {account.access_key} has a secret key that is publicly known",
                f"choose another one: headrace acl add {account.access_key} --secret KEY",
            )
        elif len(account.secret_key) < _SHORT_SECRET:
            yield SecurityFinding(
                f"account {account.access_key} has a secret key of fewer than {_SHORT_SECRET} characters",
                f"choose a longer one: headrace acl add {account.access_key} --secret KEY",
            )
    admins = [account.access_key for account in rules.accounts.values() if account.is_admin]
    yield SecurityFinding(f"accounts: {len(rules.accounts)}; admin accounts: {', '.join(admins) or 'none'}")


def _certificates(tls: TlsSettings) -> Iterator[SecurityFinding]:
    now = datetime.now(UTC)
    for expiry in expiries(tls.certificates, tls.authorities):
        advice = (
            "replace the file with a new certificate, for example one created by headrace tls init"
            if expiry.is_due(now)
            else ""
        )
        yield SecurityFinding(expiry.describe(now), advice)


def _files(configuration: Configuration) -> Iterator[SecurityFinding]:
    for broker in configuration.brokers:
        if broker.broker_conf is not None:
            yield from _permissions(broker.broker_conf, 0o022, "options")
    if configuration.appliance_toml is not None:
        if configuration.console.console_secret_key:
            yield from _permissions(configuration.appliance_toml, 0o077, "the console's secret key")
        else:
            yield from _permissions(configuration.appliance_toml, 0o022, "options")
    if configuration.console.console_oidc_client_secret_file:
        path = Path(configuration.console.console_oidc_client_secret_file)
        yield from _permissions(path, 0o077, "the console's client secret at the OpenID provider")
    for key in filter(None, (configuration.tls.server.key, configuration.tls.client.key)):
        yield from _permissions(Path(key), 0o077, "the private key")
    yield from _permissions(Path(configuration.paths.data), 0o022, "the store")


def _permissions(path: Path, forbidden: int, what: str) -> Iterator[SecurityFinding]:
    """A finding if `path` gives users other than its owner any of the permissions `forbidden`."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return
    if mode & forbidden:
        verb = "read or change" if forbidden & 0o044 else "change"
        allowed = mode & ~forbidden
        yield SecurityFinding(f"{path}: other users may {verb} {what} (mode {mode:04o})", f"chmod {allowed:04o} {path}")
