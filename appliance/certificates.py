"""Certificates for TLS: a private authority, what it issues, and the self-signed certificate of servers without a configured one.

Keys are of the curve P-256 and written as PKCS #8, which RocketMQ's servers read too. Every file has mode 0600 and is never replaced.
"""

import ipaddress
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SELF_MADE_DAYS: Final = 3650
SELF_MADE_NAME: Final = "Headrace self-signed certificate"
_CLOCK_SKEW: Final = timedelta(hours=1)  # limit: how far the clock of a client may be behind


class Authority:
    """A private certificate authority, whose key is in memory and, if `save` was called, in a file."""

    def __init__(self, name: str, days: int) -> None:
        self._key = _new_key()
        self._name = _name(name)
        self.certificate = (
            _builder(self._name, self._name, self._key, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def save(self, certificate: Path, key: Path) -> None:
        """Writes both into new files. Raises FileExistsError, OSError."""
        write_new(certificate, self.certificate.public_bytes(Encoding.PEM))
        write_new(key, _key_bytes(self._key))

    def issue(
        self, certificate: Path, key: Path, name: str, days: int, hosts: Sequence[str] = (), *, for_server: bool = False
    ) -> None:
        """Writes a certificate with its chain, and its key, into new files. `hosts`: names and addresses that it is valid for. Negative `days`: it has expired.

        Raises ValueError for an invalid name, FileExistsError, OSError.
        """
        own_key = _new_key()
        use = ExtendedKeyUsageOID.SERVER_AUTH if for_server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(_name(name), self._name, own_key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        chain = signed.public_bytes(Encoding.PEM) + self.certificate.public_bytes(Encoding.PEM)
        write_new(certificate, chain)
        write_new(key, _key_bytes(own_key))


def make_self_made(path: Path) -> None:
    """Writes a certificate signed by itself, and its key, into the new file `path`; one that is there already is kept.

    It names no host: nothing is known of the names that clients use. Raises OSError.
    """
    key = _new_key()
    name = _name(SELF_MADE_NAME)
    certificate = (
        _builder(name, name, key, SELF_MADE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        write_new(path, _key_bytes(key) + certificate.public_bytes(Encoding.PEM))
    except FileExistsError:
        pass  # another role was faster


def main(path: str) -> None:
    """A process that makes the certificate of `make_self_made`; its last line says why it cannot."""
    try:
        make_self_made(Path(path))
    except OSError as error:
        sys.exit(error.strerror)


def write_new(path: Path, content: bytes) -> None:
    """Writes a file of mode 0600 that is there completely or not at all. Raises FileExistsError, OSError."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.link(unfinished, path)
    finally:
        os.unlink(unfinished)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + timedelta(days=days)) - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def hosts_of(given: Iterable[str]) -> list[str]:
    """The names and addresses that are given, each once, behind those of this machine's loopback interface."""
    return list(dict.fromkeys(("localhost", "127.0.0.1", "::1", *given)))
