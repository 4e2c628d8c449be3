"""What every answer and every change must obey: security headers, the origin of changes, addresses behind proxies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.model.address_list import Network, parse_address
from web.errors import Invalid, Refused

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
HTTPS_HEADERS: Final[Mapping[str, str]] = {"Strict-Transport-Security": "max-age=31536000"}
"""Of answers that the browser gets over HTTPS."""


class Proxies:
    """Reverse proxies that are trusted to name the browser's address and scheme."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def address(self, peer: str, headers: Any) -> str:
        """The browser's address: the last in X-Forwarded-For that is not a trusted proxy's, if the peer is one.

        What stands before an entry that is not an address could be anybody's invention: the proxy that sent it is named.
        """
        address = _plain(peer)
        hops = joined(headers, "x-forwarded-for").split(",")
        while self.trusts(address) and hops:
            hop = parse_address(hops.pop().strip())
            if hop is None:
                break
            address = str(hop)
        return address

    def is_https(self, peer: str, headers: Any) -> bool:
        """Whether the browser speaks HTTPS with the proxy."""
        return self.trusts(peer) and _last(headers, "x-forwarded-proto").lower() == "https"

    def host(self, peer: str, headers: Any) -> str:
        """The host in the browser's address bar, with its port."""
        forwarded = _last(headers, "x-forwarded-host") if self.trusts(peer) else ""
        return (forwarded or _last(headers, "host")).lower()

    def trusts(self, address: str) -> bool:
        """Whether it is a trusted proxy's address."""
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def is_local(self, peer: str, headers: Any) -> bool:
        """Whether a program on this machine sent the request, and not a reverse proxy, nor a page of a site whose name was pointed here."""
        parsed = parse_address(peer)
        if parsed is None or not parsed.is_loopback or self.trusts(peer):
            return False
        if "forwarded" in headers or "x-forwarded-for" in headers:
            return False
        try:
            host = urlsplit(f"//{_last(headers, 'host')}").hostname or ""
        except ValueError:
            return False
        named = parse_address(host)
        return host == "localhost" or (named is not None and named.is_loopback)


def check_text(headers: Any) -> None:
    """Raises Invalid if a header is not UTF-8: what is read of such a one could not be shown, stored or compared."""
    for name, value in headers.items():
        if not (name.isascii() and value.isascii()):
            try:
                value.encode()
                name.encode()
            except UnicodeEncodeError:
                shown = name.encode("ascii", "replace").decode()[:80]
                raise Invalid("the header {shown} is not valid UTF-8", shown=shown) from None


def check_origin(headers: Any, host: str) -> None:
    """Raises Refused for a change that another site's page has sent. Programs that send neither header pass; they have no cookie either."""
    site = joined(headers, "sec-fetch-site")
    if site and site not in {"same-origin", "none"}:
        raise Refused("the request comes from another site", "Open the console directly, in a new window or tab.")
    origin = joined(headers, "origin")
    if origin and _host_of(origin) != host:
        raise Refused(
            "the request comes from {origin}, but the address of the console is {host}",
            "Behind a reverse proxy, pass the Host header on, or list the proxy in consoleTrustedProxies (headrace console: --trusted-proxies).",
            origin=origin[:200],
            host=host[:200],
        )


def joined(headers: Any, name: str) -> str:
    """A header's values as one: a header on several lines means the same as one line with commas. Empty if there is none."""
    return ",".join(headers.getall(name, []))


def _last(headers: Any, name: str) -> str:
    """The value that the nearest proxy added."""
    return joined(headers, name).rpartition(",")[2].strip()


def _plain(peer: str) -> str:
    """An IPv4 address also for a client of an IPv6 socket."""
    parsed = parse_address(peer)
    return peer if parsed is None else str(parsed)


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
