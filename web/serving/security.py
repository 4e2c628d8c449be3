"""What every answer and every change must obey: security headers, the origin of changes, addresses behind proxies."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from web.errors import Refused

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HEADERS: Final[Mapping[str, str]] = {
    # No inline code, no eval, nothing from other hosts, no frames.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Proxies:
    """Reverse proxies that are trusted to name the browser's address and scheme."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def address(self, peer: str, headers: Mapping[str, Any]) -> str:
        """The browser's address: the last in X-Forwarded-For that is not a trusted proxy's, if the peer is one."""
        address = peer
        hops = [hop.strip() for hop in _last(headers, "x-forwarded-for").split(",")]
        while self._trusts(address) and hops:
            address = hops.pop() or address
        return address

    def is_https(self, peer: str, headers: Mapping[str, Any]) -> bool:
        """Whether the browser speaks HTTPS with the proxy."""
        return self._trusts(peer) and _last(headers, "x-forwarded-proto").strip().lower() == "https"

    def host(self, peer: str, headers: Mapping[str, Any]) -> str:
        """The host in the browser's address bar, with its port."""
        forwarded = _last(headers, "x-forwarded-host").strip() if self._trusts(peer) else ""
        return (forwarded or _last(headers, "host")).lower()

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def check_origin(headers: Mapping[str, Any], host: str) -> None:
    """Raises Refused for a change that another site's page has sent. Programs that send neither header pass; they have no cookie either."""
    site = _last(headers, "sec-fetch-site")
    if site and site not in {"same-origin", "none"}:
        raise Refused("the request comes from another site", "Open the console directly, in a new window or tab.")
    origin = _last(headers, "origin")
    if origin and urlsplit(origin).netloc.lower() != host:
        raise Refused(
            f"the request comes from {origin[:200]}, but the address of the console is {host[:200]}",
            "Behind a reverse proxy, pass the Host header on, or list the proxy in consoleTrustedProxies.",
        )


def _last(headers: Mapping[str, Any], name: str) -> str:
    value = headers.get(name)
    return value if isinstance(value, str) else ""
