"""Channels: how people learn of alerts. Sending blocks, for at most about DEADLINE_S: call it in a thread."""

import http.client
import logging
import smtplib
import socket
import ssl
from email.message import EmailMessage
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from headrace.model.address_list import parse_address
from web.alerts.evaluator import AlertEvent
from web.config import is_loopback_host
from web.deadline import deadline
from web.errors import Invalid

TIMEOUT_S: Final = 10.0
"""To connect, and for each read."""
DEADLINE_S: Final = 30.0
"""From the connection to the last answer: a server that answers byte by byte must not hold a thread."""
LOG: Final = "log"
"""The channel that always exists."""

logger = logging.getLogger(__name__)


class NotDelivered(Exception):  # noqa: N818  an outcome
    """A channel did not take a message; the text is the reason."""


class Webhook(msgspec.Struct, frozen=True, tag="webhook", forbid_unknown_fields=True):
    """POSTs `{"events": [{"time_s", "rule", "subject", "firing", "value", "text", "what", "threshold", "reason"}, …]}`. `token` is sent as a bearer token."""

    name: str
    url: str
    token: str = ""

    def problem(self) -> Invalid | None:
        """Why it cannot be used; None if it can."""
        try:
            parts = urlsplit(self.url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_valid = False
        if not (is_valid and self.url.isascii() and self.url.isprintable()):
            return Invalid("channel {name}: expected a URL that begins with http:// or https://", name=repr(self.name))
        if self.token and parts.scheme == "http" and not is_loopback_host(parts.hostname or ""):
            return Invalid(
                "channel {name}: a token requires https, or a URL with a loopback host", name=repr(self.name)
            )
        return None

    @property
    def target_host(self) -> str:
        """Where it connects."""
        return urlsplit(self.url).hostname or ""

    def send(self, events: list[AlertEvent]) -> None:
        """Raises NotDelivered. Redirects are not followed."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname, parts.port or kind.default_port, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json", "User-Agent": "headrace-console"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.connect()
            _check_peer(connection.sock)
            with deadline(DEADLINE_S, lambda: connection.sock):
                connection.request("POST", path, msgspec.json.encode({"events": events}), headers)
                with connection.getresponse() as answer:
                    status = answer.status
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotDelivered(f"cannot deliver to {parts.hostname}: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise NotDelivered(f"{parts.hostname} answered with status {status}")


class Mail(msgspec.Struct, frozen=True, tag="mail", forbid_unknown_fields=True):
    """Sends a mail. `security`: `starttls`, `tls` or `none`. Without a user it does not log in."""

    name: str
    host: str
    sender: str
    recipients: tuple[str, ...]
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password: str = ""

    def problem(self) -> Invalid | None:
        """Why it cannot be used; None if it can."""
        addresses = (self.sender, *self.recipients)
        if not self.recipients or not all(_is_address(address) for address in addresses):
            return Invalid(
                "channel {name}: expected a sender address and at least one recipient address", name=repr(self.name)
            )
        if self.security not in ("starttls", "tls", "none") or not 0 < self.port < 65_536 or not self.host:
            return Invalid(
                "channel {name}: expected a host, a port, and one of starttls, tls, none", name=repr(self.name)
            )
        if self.password and self.security == "none":
            return Invalid("channel {name}: a password requires TLS: use starttls or tls", name=repr(self.name))
        return None

    @property
    def target_host(self) -> str:
        """Where it connects."""
        return self.host

    def send(self, events: list[AlertEvent]) -> None:
        """Raises NotDelivered if no recipient was accepted; others are logged."""
        message = EmailMessage()
        message["From"], message["To"] = self.sender, ", ".join(self.recipients)
        message["Subject"] = _one_line(
            events[0].text if len(events) == 1 else f"{len(events)} alerts, {events[0].text}"
        )
        message.set_content("".join(f"{'FIRING' if event.firing else 'resolved'}  {event.text}\n" for event in events))
        context = ssl.create_default_context()
        try:
            with (
                smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
                if self.security == "tls"
                else smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S) as server,
                deadline(DEADLINE_S, lambda: server.sock),
            ):
                _check_peer(server.sock)
                if self.security == "starttls":
                    server.starttls(context=context)
                if self.user:
                    server.login(self.user, self.password)
                refused = server.send_message(message)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotDelivered(f"cannot deliver to {self.host}: {str(error) or type(error).__name__}") from error
        for recipient, (code, text) in refused.items():
            answer = f"{code} {text.decode(errors='replace')}"
            logger.error("alert mail refused channel=%r recipient=%r error=%r", self.name, recipient, answer)


Channel: TypeAlias = Webhook | Mail


def _check_peer(connection: socket.socket | None) -> None:
    """Whatever a name resolves to: at a link-local address is the metadata service of clouds, which trusts this machine. Raises OSError."""
    if connection is not None:
        address = parse_address(connection.getpeername()[0])
        if address is None or address.is_link_local:
            raise OSError("its address is a link-local address")


def log_event(event: AlertEvent) -> None:
    """The channel `log`."""
    level = logging.WARNING if event.firing else logging.INFO
    state = "firing" if event.firing else "resolved"
    logger.log(level, "alert %s rule=%r subject=%r value=%g", state, event.rule, event.subject, event.value)


def _is_address(text: str) -> bool:
    return text.isascii() and text.isprintable() and "@" in text and not set(text) & set(' ,;<>"')


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:200]
