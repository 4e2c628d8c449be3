"""The dates of certificates, and the lines about those that expire soon."""

import asyncio
import contextlib
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from headrace.model.tls_settings import Identity, TlsSettings
from headrace.remoting import HandlerTable, RemotingServer, certificate_expiry
from headrace.remoting.certificate_expiry import CertificateExpiry, expiries, not_after
from headrace.remoting.server_tls import ServerTls
from support.certificates import Certificates
from support.loops import until

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(end: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 60)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1 << 120).not_valid_before(datetime(1960, 1, 1, tzinfo=UTC)).not_valid_after(end)
    return builder.sign(KEY, hashes.SHA256())


def written(path: Path, *ends: datetime) -> str:
    path.write_bytes(b"text\n" + b"".join(certificate(end).public_bytes(Encoding.PEM) for end in ends))
    return str(path)


@pytest.mark.parametrize("year", [1975, 2000, 2026, 2049, 2050, 2051, 9999])
def test_end_of_validity_is_that_of_another_parser(year: int) -> None:
    made = certificate(datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC))
    assert not_after(made.public_bytes(Encoding.DER)) == made.not_valid_after_utc


def test_damaged_certificate_raises_only_what_is_declared() -> None:
    whole = certificate(NOW).public_bytes(Encoding.DER)
    for length in range(len(whole)):
        with contextlib.suppress(ValueError, IndexError):
            not_after(whole[:length])
    for position in range(len(whole)):
        for byte in (0, 0x80, 0xFF):
            with contextlib.suppress(ValueError, IndexError):
                not_after(whole[:position] + bytes([byte]) + whole[position + 1 :])


def test_first_certificate_of_a_chain_and_last_authority_count(tmp_path: Path) -> None:
    early, late = NOW + timedelta(days=5), NOW + timedelta(days=50)
    chain, trust = written(tmp_path / "chain.pem", late, early), written(tmp_path / "ca.pem", early, late)
    missing, empty = str(tmp_path / "missing.pem"), written(tmp_path / "empty.pem")
    assert expiries([chain, missing, empty], [trust]) == [
        CertificateExpiry(chain, early), CertificateExpiry(trust, late),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "is_due", "text"),
    [
        (timedelta(days=30, seconds=1), False, "expires in 30 days (2026-01-31 00:00 UTC)"),
        (timedelta(days=29, hours=23), True, "expires in 29 days (2026-01-30 23:00 UTC)"),
        (timedelta(days=1), True, "expires in 1 day (2026-01-02 00:00 UTC)"),
        (timedelta(hours=1), True, "expires within a day (2026-01-01 01:00 UTC)"),
        (timedelta(hours=-1), True, "has expired (2025-12-31 23:00 UTC)"),
    ],
)
def test_certificate_is_reported_from_thirty_days_before_it_expires(left: timedelta, is_due: bool, text: str) -> None:
    expiry = CertificateExpiry("/x.pem", NOW + left)
    assert expiry.is_due(NOW) == is_due
    assert expiry.describe(NOW) == f"certificate /x.pem {text}"


def test_server_logs_certificates_that_expire_soon_at_start_and_daily(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    ends = {"soon": now + timedelta(days=20.5), "expired": now - timedelta(days=2.5), "later": now + timedelta(days=40)}
    soon, expired, later = (written(tmp_path / f"{name}.pem", end) for name, end in ends.items())
    server = Identity("tls.server.", soon, later, "", expired)
    settings = TlsSettings(server=server, client=Identity("tls.client.", later, later), client_auth="optional")
    monkeypatch.setattr(certificate_expiry, "REPORT_INTERVAL_S", 0.01)

    def lines() -> list[tuple[int, str]]:
        return [(line.levelno, line.getMessage()) for line in caplog.records if "certificate" in line.getMessage()]

    async def main() -> None:
        serving = RemotingServer(HandlerTable(), tls=ServerTls(settings))
        await until(lambda: len(lines()) >= 4)
        await serving.stop(1)

    asyncio.run(main())
    first, second, again, *_ = lines()
    assert first[0] == logging.WARNING
    assert first[1].startswith(f"certificate expires soon path={soon} not_after={now.year}-")
    assert first[1].endswith("days_left=20")
    assert second[0] == logging.ERROR
    assert second[1].startswith(f"certificate expired path={expired} ")
    assert again == first


def test_certificate_in_use_depends_on_the_mode(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    assert made.settings("permissive").certificates == (str(tmp_path / "server.pem"),)
    assert made.settings("disabled").certificates == ()
    assert TlsSettings(self_made="/self.pem").certificates == ("/self.pem",)
