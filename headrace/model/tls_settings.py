"""TlsSettings: RocketMQ's properties for TLS, as `tls.properties` holds them (remoting spec 1.7).

    tls.server.mode                                  disabled, permissive (default), enforcing
    tls.test.mode.enable                             true: a self-signed certificate
    tls.server.certPath, keyPath, keyPassword        the server's certificate chain and its key, PEM
    tls.server.need.client.auth                      none, optional, require
    tls.server.authClient, tls.server.trustCertPath  verify client certificates against these authorities
    tls.enable                                       a broker connects to its name servers by TLS
    tls.client.…                                     the same for connections that a server makes

Only text is handled here; `headrace.remoting.tls_context` reads the files that it names. Processes without an event loop check configurations too.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from headrace.errors import ConfigError

DISABLED: Final = "disabled"
PERMISSIVE: Final = "permissive"
ENFORCING: Final = "enforcing"
MODES: Final = (DISABLED, PERMISSIVE, ENFORCING)
"""Plain text only; plain text and TLS on one port; TLS only."""

CLIENT_AUTH: Final = ("none", "optional", "require")
"""Whether a client certificate is not requested, verified if present, or required."""

MODE: Final = "tls.server.mode"
TEST_MODE: Final = "tls.test.mode.enable"
ENABLE: Final = "tls.enable"
NEED_CLIENT_AUTH: Final = "tls.server.need.client.auth"
AUTH_CLIENT: Final = "tls.server.authClient"
AUTH_SERVER: Final = "tls.client.authServer"
_NAMES: Final = {
    "certificate": "certPath",
    "key": "keyPath",
    "key_password": "keyPassword",
    "trust": "trustCertPath",
}
KEYS: Final = (
    MODE, TEST_MODE, ENABLE, NEED_CLIENT_AUTH, AUTH_CLIENT, AUTH_SERVER, "tls.config.file",
    *(f"tls.{side}.{name}" for side in ("server", "client") for name in _NAMES.values()),
)  # fmt: skip
"""All keys of a tls.properties."""


class Identity(Struct, frozen=True):
    """Files of one side, all PEM; an empty path means none. `prefix`: of the names of the properties; empty if the settings are not properties."""

    prefix: str
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    trust: str = ""
    """Certificates of the authorities that the other side's certificate is verified against."""

    def __repr__(self) -> str:
        return f"Identity({self.prefix!r}, files={self.files!r})"  # without the password

    def name_of(self, field: str) -> str:
        """Returns the name of the setting for a field: `tls.server.certPath` for `certificate`."""
        return f"{self.prefix}{_NAMES[field]}" if self.prefix else f"tls {field}"

    @property
    def files(self) -> tuple[str, ...]:
        """The paths that are given."""
        return tuple(path for path in (self.certificate, self.key, self.trust) if path)


class TlsSettings(Struct, frozen=True):
    """The TLS settings of servers. Raises ConfigError for contradictory settings."""

    mode: str = PERMISSIVE
    server: Identity = Identity("tls.server.")
    client_auth: str = "none"
    connects_by_tls: bool = False
    """Whether connections that a server makes itself, such as a broker's to its name servers, use TLS."""
    client: Identity = Identity("tls.client.")
    verifies_servers: bool = False
    """Whether those connections verify the server's certificate."""
    self_made: str = ""
    """The file of the self-signed certificate of a server without a configured one."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"{MODE}={self.mode}: expected {', '.join(MODES[:-1])} or {MODES[-1]}", MODE)
        if self.client_auth not in CLIENT_AUTH:
            expected = f"{', '.join(CLIENT_AUTH[:-1])} or {CLIENT_AUTH[-1]}"
            raise ConfigError(f"{NEED_CLIENT_AUTH}={self.client_auth}: expected {expected}", NEED_CLIENT_AUTH)
        for identity in (self.server, self.client):
            if bool(identity.certificate) != bool(identity.key):
                given, missing = map(
                    identity.name_of, ("certificate", "key") if identity.certificate else ("key", "certificate")
                )
                raise ConfigError(f"{given} is set, {missing} is not; set both", missing)
        if self.client_auth != "none" and not self.server.trust:
            key = self.server.name_of("trust")
            raise ConfigError(
                f"{NEED_CLIENT_AUTH}={self.client_auth} requires {AUTH_CLIENT}=true and {key} (the CA certificates that issued the client certificates)",
                key,
            )

    @property
    def certificates(self) -> tuple[str, ...]:
        """The files of the certificates in use; the self-signed one may not exist yet."""
        server = "" if self.mode == DISABLED else self.server.certificate or self.self_made
        return tuple(dict.fromkeys(filter(None, (server, self.client.certificate))))

    @property
    def authorities(self) -> tuple[str, ...]:
        """The files of the authorities that clients and other servers are verified against."""
        return tuple(dict.fromkeys(filter(None, (self.server.trust, self.client.trust))))

    @property
    def is_self_made(self) -> bool:
        """Whether servers present a self-signed certificate."""
        return not self.server.certificate


def parse_tls_settings(texts: Mapping[str, str], mode: str = "", self_made: str = "") -> TlsSettings:
    """Returns the settings in a tls.properties. `mode`, if given, overrides the property. Raises ConfigError.

    compat: RocketMQ ignores certificates while tls.test.mode.enable is true, which is its default. Here a configured certificate is used
    unless test mode is set explicitly.
    """
    given = {key: text.strip() for key, text in texts.items()}
    mode = mode or given.get(MODE, "").lower() or PERMISSIVE
    is_test = _flag(given, TEST_MODE, default=False)
    verifies_clients = _flag(given, AUTH_CLIENT, default=False)
    verifies_servers = _flag(given, AUTH_SERVER, default=False)
    client_auth = given.get(NEED_CLIENT_AUTH, "").lower() or "none"
    if client_auth == "optional" and not verifies_clients:
        # compat: RocketMQ then requests a certificate and accepts any, which proves nothing.
        client_auth = "none"
    return TlsSettings(
        mode=mode,
        server=Identity("tls.server.") if is_test else _identity(given, "server", with_trust=verifies_clients),
        client_auth="none" if is_test else client_auth,
        # compat: RocketMQ's brokers connect by TLS if they enforce it themselves.
        connects_by_tls=_flag(given, ENABLE, default=mode == ENFORCING),
        client=Identity("tls.client.") if is_test else _identity(given, "client", with_trust=verifies_servers),
        verifies_servers=verifies_servers and not is_test,
        self_made=self_made,
    )


def _identity(given: Mapping[str, str], side: str, *, with_trust: bool) -> Identity:
    prefix = f"tls.{side}."
    certificate, key, password, trust = (given.get(prefix + name, "") for name in _NAMES.values())
    return Identity(prefix, certificate, key, password, trust if with_trust else "")


def _flag(given: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = given.get(key, "").lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"{key}={text}: expected true or false", key)
    return text == "true" if text else default
