"""Requests to an OpenID provider. They block, for at most about DEADLINE_S: call them in a thread."""

import base64
import http.client
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from headrace.model.address_list import parse_address
from web.config import is_loopback_host
from web.deadline import deadline

TIMEOUT_S: Final = 5.0
"""To connect, and for each read."""
DEADLINE_S: Final = 10.0
"""From the connection to the last byte of the answer."""
LARGEST_ANSWER: Final = 256 << 10  # limit: documents and keys of real providers have less than 20 KiB


class RequestFailed(Exception):  # noqa: N818  an outcome
    """The provider did not answer, or not with a JSON object. The text is the reason, without anything that was sent."""


def basic_authorization(client_id: str, secret: str) -> str:
    """The header `Authorization` of a client (RFC 6749, section 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def ask(
    url: str, issuer: str, form: Mapping[str, str] | None = None, authorization: str = ""
) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of the answer to a GET, or to a POST of a form. Redirects are not followed. Raises RequestFailed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, parts.port or kind.default_port, timeout=TIMEOUT_S)
    headers = {"Accept": "application/json", "User-Agent": "headrace-console"}
    body = None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode()
    if authorization:
        headers["Authorization"] = authorization
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    held: socket.socket | None = None
    try:
        with deadline(DEADLINE_S, lambda: held or connection.sock):
            connection.connect()
            held = connection.sock  # the connection forgets it before the body of a last answer is read
            _check_peer(connection, host, issuer)
            connection.request("GET" if form is None else "POST", path, body, headers)
            with connection.getresponse() as answer:
                status, content = answer.status, answer.read(LARGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RequestFailed(f"no answer from {host}: {str(error)[:200] or type(error).__name__}") from error
    finally:
        connection.close()
    if len(content) > LARGEST_ANSWER:
        raise RequestFailed(f"the answer of {host} is larger than {LARGEST_ANSWER:,} bytes")
    if 300 <= status < 400:
        raise RequestFailed(f"{host} answered with a redirection (status {status}), which is not followed")
    try:
        found = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestFailed(f"{host} answered with status {status} and no valid JSON") from error
    if not isinstance(found, dict):
        raise RequestFailed(f"{host} answered with status {status} and JSON that is no object")
    return status, found


def _check_peer(connection: http.client.HTTPConnection, host: str, issuer: str) -> None:
    """A document of the provider must not lead to services of this machine or of the cloud that runs it, by whatever name."""
    own = urlsplit(issuer).hostname or ""
    if host == own or is_loopback_host(own):
        return
    peer = parse_address(connection.sock.getpeername()[0])
    if peer is None or peer.is_loopback or peer.is_link_local or peer.is_unspecified:
        raise OSError("its address belongs to this machine")
