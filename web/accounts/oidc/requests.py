"""Requests to an OpenID provider. They block, until the system's resolver has answered and then for at most about DEADLINE_S: call them in a thread."""

import base64
import http.client
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from headrace.model.address_list import parse_address
from web.config import is_loopback_host
from web.deadline import deadline

TIMEOUT_S: Final = 5.0
"""To connect to one address, and for each read."""
DEADLINE_S: Final = 10.0
"""From the answer of the resolver to the last byte of the provider's, however many addresses the name has."""
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
    context = ssl.create_default_context() if parts.scheme == "https" else None
    connection = (
        http.client.HTTPConnection(host, parts.port or http.client.HTTP_PORT)
        if context is None
        else http.client.HTTPSConnection(host, parts.port or http.client.HTTPS_PORT, context=context)
    )
    headers = {"Accept": "application/json", "User-Agent": "headrace-console"}
    body = None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode()
    if authorization:
        headers["Authorization"] = authorization
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        found = socket.getaddrinfo(host, connection.port, type=socket.SOCK_STREAM)
        until_s = time.monotonic() + DEADLINE_S
        with _connect(dict.fromkeys(str(one[4][0]) for one in found), connection.port, until_s) as plain:
            _check_peer(plain.getpeername()[0], host, issuer)
            held = plain
            if context is not None:
                held = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
            with held, deadline(until_s - time.monotonic(), lambda: held):
                if isinstance(held, ssl.SSLSocket):
                    held.do_handshake()
                connection.sock = held
                connection.request("GET" if form is None else "POST", path, body, headers)
                with connection.getresponse() as answer:
                    status, content = answer.status, answer.read(LARGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RequestFailed(f"no answer from {host}: {str(error)[:200] or type(error).__name__}") from error
    if len(content) > LARGEST_ANSWER:
        raise RequestFailed(f"the answer of {host} is larger than {LARGEST_ANSWER:,} bytes")
    if 300 <= status < 400:
        raise RequestFailed(f"{host} returned a redirect (status {status}), which is not followed")
    try:
        found = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestFailed(f"{host} answered with status {status} and invalid JSON") from error
    if not isinstance(found, dict):
        raise RequestFailed(f"{host} answered with status {status} and JSON that is not an object")
    return status, found


def _connect(addresses: Iterable[str], port: int, until_s: float) -> socket.socket:
    """A connection to the first address that accepts one. Raises OSError."""
    failure: OSError = TimeoutError("not connected in time")
    for address in addresses:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            break
        try:
            connection = socket.create_connection((address, port), min(TIMEOUT_S, left_s))
        except OSError as error:
            failure = error
        else:
            connection.settimeout(TIMEOUT_S)
            return connection
    raise failure


def _check_peer(peer: str, host: str, issuer: str) -> None:
    """A document of the provider must not lead to loopback and link-local addresses, by whatever name: services of this machine listen there, and the
    metadata service of clouds. Private addresses are allowed, because providers have them. Raises OSError.
    """
    own = urlsplit(issuer).hostname or ""
    if host == own or is_loopback_host(own):
        return
    address = parse_address(peer)
    if address is None or address.is_loopback or address.is_link_local or address.is_unspecified:
        raise OSError(f"its address {peer} is not allowed: it is loopback, link-local, unspecified or invalid")
