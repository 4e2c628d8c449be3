"""SSLContexts of servers and clients: TLS 1.2 and 1.3, ciphers with forward secrecy, no compression, no renegotiation.

A file that is missing or wrong raises ConfigError, whose text names the setting, the file and the reason.
"""

import ssl
from typing import Final

from headrace.errors import ConfigError
from headrace.model.tls_settings import Identity, TlsSettings

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2, in OpenSSL's notation; all those of TLS 1.3 are safe."""

_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns the context of a listener. The settings name a certificate. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_identity(context, settings.server)
    if settings.client_auth != "none":
        _load_trust(context, settings.server)
        context.verify_mode = _VERIFY[settings.client_auth]
    return context


def client_context(identity: Identity, *, verify: bool, check_host_name: bool) -> ssl.SSLContext:
    """Returns the context of outgoing connections. Without `identity.trust` the system's authorities are trusted. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    context.check_hostname = verify and check_host_name
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    elif identity.trust:
        _load_trust(context, identity)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if identity.certificate:
        _load_identity(context, identity)
    return context


def outgoing_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """Returns the context of connections that a server makes itself; None for plain text. Raises ConfigError.

    compat: RocketMQ's servers do not compare host names.
    """
    if not settings.connects_by_tls:
        return None
    return client_context(settings.client, verify=settings.verifies_servers, check_host_name=False)


def check_files(settings: TlsSettings) -> None:
    """Reads all certificates and keys that the settings name. Raises ConfigError."""
    if not settings.is_self_made:
        server_context(settings)
    client_context(settings.client, verify=settings.verifies_servers, check_host_name=False)


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    certificate, key = identity.certificate, identity.key
    _check_readable(identity.name_of("certificate"), certificate)
    _check_readable(identity.name_of("key"), key)
    try:
        # Always pass a password: otherwise OpenSSL may prompt for it on the terminal.
        context.load_cert_chain(certificate, key, identity.key_password)
    except ssl.SSLError as error:
        raise ConfigError(_about_identity(identity, error), identity.name_of("certificate")) from error
    except OSError as error:
        raise ConfigError(f"{identity.name_of('certificate')}={certificate}: {error.strerror}") from error


def _about_identity(identity: Identity, error: ssl.SSLError) -> str:
    certificate = f"{identity.name_of('certificate')}={identity.certificate}"
    key = f"{identity.name_of('key')}={identity.key}"
    reason = error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"{key} is not the private key of {certificate}"
    if "DECRYPT" in reason or _is_encrypted(identity.key):
        return f"{key}: cannot be decrypted; check {identity.name_of('key_password')}"
    return f"{certificate}, {key}: expected a certificate and its key in PEM format{_words(error)}"


def _is_encrypted(path: str) -> bool:
    # OpenSSL reports a wrong password as an unreadable file.
    try:
        with open(path, "rb") as file:
            return b"ENCRYPTED" in file.read(4096)
    except OSError:
        return False


def _load_trust(context: ssl.SSLContext, identity: Identity) -> None:
    name = identity.name_of("trust")
    _check_readable(name, identity.trust)
    try:
        context.load_verify_locations(identity.trust)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{name}={identity.trust}: expected certificates in PEM format{_words(error)}", name
        ) from error
    except OSError as error:
        raise ConfigError(f"{name}={identity.trust}: {error.strerror}", name) from error


def _check_readable(name: str, path: str) -> None:
    # OpenSSL's own error names neither file nor reason.
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{name}={path}: {error.strerror}", name) from error


def _words(error: ssl.SSLError) -> str:
    """The reason in parentheses, if there is one."""
    return f" ({error.reason.replace('_', ' ').lower()})" if error.reason else ""
