"""Until when the certificates of TLS settings are valid; warnings about those that expire soon.

It reads only the validity of certificates that OpenSSL checks otherwise, so that processes without TLS need no library for it.
"""

import asyncio
import binascii
import logging
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from headrace.model.tls_settings import TlsSettings

logger = logging.getLogger(__name__)

WARN_DAYS: Final = 30
"""How many days before its end a certificate is reported."""
REPORT_INTERVAL_S: Final = 86_400.0
_PEM: Final = re.compile(rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END ")
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_DAY_S: Final = 86_400


class CertificateExpiry(Struct, frozen=True):
    """The end of the validity of a certificate file."""

    path: str
    not_after: datetime

    def days_left(self, now: datetime) -> int:
        """Whole days until it expires; negative if it has expired."""
        return int((self.not_after - now).total_seconds() // _DAY_S)

    def is_due(self, now: datetime) -> bool:
        """Whether to report it: it has expired, or will soon."""
        return self.days_left(now) < WARN_DAYS

    def describe(self, now: datetime) -> str:
        """One phrase for operators: `certificate PATH expires in 12 days (2026-12-05 10:00 UTC)`."""
        days, end = self.days_left(now), f"{self.not_after:%Y-%m-%d %H:%M} UTC"
        if days < 0:
            return f"certificate {self.path} has expired ({end})"
        return f"certificate {self.path} expires {f'in {_days(days)}' if days else 'within a day'} ({end})"


def expiries(certificates: Iterable[str], authorities: Iterable[str]) -> list[CertificateExpiry]:
    """The expiry of each of these files that exists. Of a chain, the first certificate to expire counts; of trusted authorities, the last."""
    found = [CertificateExpiry(path, min(ends)) for path in certificates if (ends := _ends_in(path))]
    return found + [CertificateExpiry(path, max(ends)) for path in authorities if (ends := _ends_in(path))]


class ExpiryReport:
    """Logs the certificates of a server that expire soon: at once, then daily."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: TlsSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._timer = loop.call_soon(self._report)

    def _report(self) -> None:
        self._timer = self._loop.call_later(REPORT_INTERVAL_S, self._report)
        now = datetime.now(UTC)
        for expiry in expiries(self._settings.certificates, self._settings.authorities):
            if expiry.is_due(now):
                days = expiry.days_left(now)
                logger.log(
                    logging.ERROR if days < 0 else logging.WARNING,
                    "%s path=%s not_after=%s days_left=%d",
                    "certificate expired" if days < 0 else "certificate expires soon",
                    expiry.path,
                    expiry.not_after.isoformat(),
                    days,
                )

    def close(self) -> None:
        """Stops the reports."""
        self._timer.cancel()


def _ends_in(path: str) -> list[datetime]:
    """The ends of validity of all certificates in a PEM file. What cannot be read is left to OpenSSL, which reports it when it is used."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return []
    found = []
    for match in _PEM.finditer(content):
        try:
            found.append(not_after(binascii.a2b_base64(match[1])))
        except (ValueError, IndexError):
            continue
    return found


def not_after(certificate: bytes) -> datetime:
    """The end of the validity of a certificate in DER (RFC 5280, 4.1). Raises ValueError or IndexError for other bytes."""
    _, body, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, body)
    fields = _elements(certificate, at)
    tag, _, end = next(fields)
    if tag == _VERSION:
        next(fields)  # the serial number
    next(fields)  # the algorithm of the signature
    next(fields)  # the issuer
    _, validity, _ = next(fields)
    _, _, end = _element(certificate, validity)
    tag, start, end = _element(certificate, end)
    text = certificate[start:end].decode("ascii")
    if tag == _UTC_TIME:
        # RFC 5280: years from 50 on are in the twentieth century.
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _elements(der: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    while True:
        tag, start, end = _element(der, at)
        yield tag, start, end
        at = end


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag, and where the content begins and ends."""
    tag, size, start = der[at], der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(der[start : start + count], "big")
        start += count
    if start + size > len(der):
        raise ValueError("the certificate is incomplete")
    return tag, start, start + size


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
