"""LoginLimits: how often a login may fail, for each address and for each user name, before attempts are refused for a while."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

WINDOW_MS: Final = 5 * 60_000
FAILURES_OF_ADDRESS: Final = 10
FAILURES_OF_NAME: Final = 30  # limit: higher, because anyone can make the logins of a known name fail
LONGEST_NAME: Final = 64
_MOST_KEYS: Final = 10_000  # limit: memory; the key that failed longest ago is forgotten


class LoginLimits:
    """Counts failures in memory. One that is older than `WINDOW_MS` does not count any more."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._failures: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    def wait_ms(self, address: str, name: str) -> int:
        """How long the address must wait before it may try to log in as `name`; 0: it may now."""
        return max(
            self._wait_ms(("address", network_of(address)), FAILURES_OF_ADDRESS),
            self._wait_ms(("name", _key(name)), FAILURES_OF_NAME),
        )

    def failed(self, address: str, name: str) -> None:
        """Counts a failed attempt. Call it before the password is checked and `succeeded` after, so that attempts at once count."""
        now_ms = self._now_ms()
        for key in (("address", network_of(address)), ("name", _key(name))):
            recent = [at for at in self._failures.pop(key, []) if at > now_ms - WINDOW_MS]
            self._failures[key] = [*recent, now_ms][-FAILURES_OF_NAME:]
        while len(self._failures) > _MOST_KEYS:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Forgets the failures of the address and of the name."""
        self._failures.pop(("address", network_of(address)), None)
        self._failures.pop(("name", _key(name)), None)

    def _wait_ms(self, key: tuple[str, str], most: int) -> int:
        now_ms = self._now_ms()
        recent = [at for at in self._failures.get(key, []) if at > now_ms - WINDOW_MS]
        return recent[-most] + WINDOW_MS - now_ms if len(recent) >= most else 0


def _key(name: str) -> str:
    """Names that are too long for a user share one key, so that they take no memory."""
    return name if len(name) <= LONGEST_NAME else ""


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
