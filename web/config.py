"""The console's options: keys of `appliance.toml`, and flags of `headrace console`; and what an appliance says of its servers' options."""

import enum
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from msgspec import Struct

from headrace.model.address_list import Network, parse_address, parse_networks
from headrace.model.host import format_host
from headrace.model.option import option

_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_HOST_PATTERN = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_CLIENT_ID = re.compile(r"[\x20-\x7e]{1,255}")
_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e ]{1,1000}")
_LONGEST_URL = 1_000


@dataclass(frozen=True)
class ConsoleConfig:
    """The options of the console."""

    console_host: str = option("127.0.0.1", help="Address on which the console listens.")
    console_port: int = option(8080, help="Port of the console (flag: --console-port).")
    console_base_path: str = option(
        "",
        help="Path prefix of all pages, such as `/headrace`, for a reverse proxy that passes the prefix on; empty: none.",
    )
    console_trusted_proxies: str = option(
        "",
        help="Addresses and networks of reverse proxies, separated by commas, whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host headers are used.",
    )

    console_access_key: str = option(
        "",
        help="Access key of the console's account at brokers with aclEnable=true; the account needs admin: true. Empty: ROCKETMQ_ACCESS_KEY of the environment.",
    )
    console_secret_key: str = option(
        "",
        help="Secret key of that account. Nobody but the appliance's user should be able to read the file. Empty: ROCKETMQ_SECRET_KEY of the environment.",
        secret=True,
    )

    console_oidc_issuer: str = option(
        "",
        help="Issuer URL of an OpenID provider, exactly as in its discovery document; users may then log in there. https, or http on loopback. Empty: local accounts only.",
    )
    console_oidc_name: str = option("", help="Name of the provider on the login page; empty: the host of the issuer.")
    console_oidc_client_id: str = option("", help="Client id of the console at the provider.")
    console_oidc_client_secret_file: str = option(
        "",
        help="File with the client secret, an absolute path. Nobody but the appliance's user should be able to read it. Empty: a public client, with PKCE only.",
    )
    console_oidc_scopes: str = option(
        "openid profile email", help="Scopes that are requested, separated by spaces; openid is one of them."
    )
    console_oidc_role_claim: str = option(
        "groups",
        help="Claim of the ID token that determines the role: a string or a list of strings. `a.b` is the claim b within a, unless there is a claim `a.b`.",
    )
    console_oidc_viewers: str = option(
        "", help="Values of that claim, separated by semicolons, that give the role viewer."
    )
    console_oidc_operators: str = option("", help="Values that give the role operator.")
    console_oidc_admins: str = option(
        "", help="Values that give the role admin. The highest role counts; users without any are refused."
    )

    console_alert_hosts: str = option(
        "",
        help="Hosts of webhooks and mail servers to which alerts may be sent, separated by commas: names, `*.example.org`, addresses and networks. Empty: all but link-local addresses.",
    )

    @property
    def url(self) -> str:
        """Its address for a browser on this machine; behind a proxy it is another."""
        host = "127.0.0.1" if self.console_host in {"", "0.0.0.0", "::"} else self.console_host
        return f"http://{format_host((host, self.console_port))}{self.console_base_path}/"

    @property
    def oidc_name(self) -> str:
        """The OpenID provider's name for users; empty without a provider."""
        return self.console_oidc_issuer and (self.console_oidc_name or urlsplit(self.console_oidc_issuer).netloc)

    def may_send_alerts_to(self, host: str) -> bool:
        """Whether channels of alerts may connect to a host: a name, or an address as it is typed."""
        allowed = _entries(self.console_alert_hosts)
        address = parse_address(host)
        if not allowed:
            return True
        return any(
            fnmatchcase(host.lower(), entry.lower()) if network is None else address is not None and address in network
            for entry, network in allowed
        )

    def __post_init__(self) -> None:
        """Raises ValueError, which names the key, for an invalid value."""
        if not 1 <= self.console_port <= 65_535:
            raise ValueError(f"consolePort={self.console_port}: expected a number from 1 to 65535")
        if not _BASE_PATH.fullmatch(self.console_base_path):
            raise ValueError(
                f"consoleBasePath={self.console_base_path}: expected a path such as /headrace, without a trailing slash"
            )
        parse_networks("consoleTrustedProxies", self.console_trusted_proxies)
        for entry, network in _entries(self.console_alert_hosts):
            if network is None and not _HOST_PATTERN.fullmatch(entry):
                raise ValueError(
                    f"consoleAlertHosts={self.console_alert_hosts}: {entry!r} is none of host name, *.DOMAIN, address and network"
                )
        if bool(self.console_access_key) != bool(self.console_secret_key):
            raise ValueError("consoleAccessKey and consoleSecretKey must be set together")
        if self.console_oidc_issuer:
            self._check_oidc()

    def _check_oidc(self) -> None:
        if not is_provider_url(self.console_oidc_issuer) or "?" in self.console_oidc_issuer:
            raise ValueError(
                f"consoleOidcIssuer={self.console_oidc_issuer}: expected an https URL without a query string or user name, or an http URL with a loopback host"
            )
        if not _CLIENT_ID.fullmatch(self.console_oidc_client_id):
            raise ValueError(
                "consoleOidcIssuer requires consoleOidcClientId, the id with which the console is registered at the provider"
            )
        if "openid" not in self.console_oidc_scopes.split() or not _SCOPES.fullmatch(self.console_oidc_scopes):
            raise ValueError(
                f"consoleOidcScopes={self.console_oidc_scopes}: expected scopes separated by spaces, including openid"
            )
        if self.console_oidc_client_secret_file and not os.path.isabs(self.console_oidc_client_secret_file):
            raise ValueError(
                f"consoleOidcClientSecretFile={self.console_oidc_client_secret_file}: expected an absolute path"
            )
        if not self.console_oidc_role_claim:
            raise ValueError("consoleOidcIssuer requires consoleOidcRoleClaim, the claim that determines the role")
        if not any(
            map(split_values, (self.console_oidc_viewers, self.console_oidc_operators, self.console_oidc_admins))
        ):
            raise ValueError(
                "consoleOidcIssuer requires consoleOidcViewers, consoleOidcOperators or consoleOidcAdmins: without them nobody could log in"
            )


def split_values(text: str) -> list[str]:
    """The values in an option that has several, separated by semicolons: names of groups may contain commas and spaces."""
    return [value for value in map(str.strip, text.split(";")) if value]


def _entries(hosts: str) -> list[tuple[str, Network | None]]:
    """The entries of a list of hosts, and what they are as networks; None: names."""
    found: list[tuple[str, Network | None]] = []
    for entry in hosts.replace(",", " ").split():
        try:
            found.append((entry, ipaddress.ip_network(entry)))
        except ValueError:
            found.append((entry, None))
    return found


def is_loopback_host(host: str) -> bool:
    """Whether the host of a URL is this machine."""
    address = parse_address(host)
    return host == "localhost" if address is None else address.is_loopback


def is_provider_url(url: str) -> bool:
    """Whether the console may connect to this URL of an OpenID provider: https, or http on this machine; without user and fragment."""
    try:
        parts = urlsplit(url)
        host, is_valid = parts.hostname or "", (parts.port or 1) > 0
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and not set(url) & set(' "<>\\^`{|}#') and len(url) <= _LONGEST_URL
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
    return is_plain and is_safe and is_valid and bool(host) and "@" not in parts.netloc


class OptionOrigin(enum.Enum):
    """Where the value of an option comes from: words of the console."""

    DEFAULT = "default"
    FILE = "file"
    COMMAND_LINE = "command line"
    DERIVED = "from another option or the host"
    """From another option, or from the machine."""


class OwnOption(Struct, frozen=True):
    """An option of a server of the appliance, as it was when the appliance started."""

    value: str
    origin: OptionOrigin
    source: str
    """The file, the flag, or the option it is derived from; empty for a default."""
    is_changeable: bool
    """Whether a request may change it while the server runs."""
    help: str


class OwnServer(Struct, frozen=True):
    """A broker or name server of the appliance to which the console belongs."""

    options: Mapping[str, OwnOption]
    broker_conf: str = ""
    """The file into which it writes options that requests change; empty: such changes are lost at its next restart."""
