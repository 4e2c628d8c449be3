"""LoginLimits: how often a login may fail, for each address and for each user name, before attempts are refused for a while.

The limit of a name bounds what many addresses can guess together. An address from which the name has logged in is exempt from it, so that
strangers cannot lock a user out.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headrace.model.address_list import parse_address
from web.errors import TooOften

FAILURES_OF_ADDRESS: Final = 10
WINDOW_OF_ADDRESS_MS: Final = 5 * 60_000
FAILURES_OF_NAME: Final = 100  # limit: ASVS 2.2.1
WINDOW_OF_NAME_MS: Final = 3_600_000
LONGEST_NAME: Final = 64
FAILED_LOGINS: Final = "too many failed logins"
WRONG_PASSWORDS: Final = "too many wrong passwords"
"""Causes of `check`."""
_MOST_KEYS: Final = 10_000  # limit: memory; the key that failed longest ago is forgotten
_MOST_KNOWN: Final = 10_000  # limit: memory; the address that logged in longest ago is forgotten


class _Failures:
    """The times of failed attempts, by key. One that is older than the window does not count any more."""

    def __init__(self, most: int, window_ms: int) -> None:
        self._most = most
        self._window_ms = window_ms
        self._times: OrderedDict[str, list[int]] = OrderedDict()

    def wait_ms(self, key: str, now_ms: int) -> int:
        recent = self._recent(self._times.get(key, []), now_ms)
        return recent[-self._most] + self._window_ms - now_ms if len(recent) >= self._most else 0

    def add(self, key: str, now_ms: int) -> None:
        recent = self._recent(self._times.pop(key, []), now_ms)
        self._times[key] = [*recent, now_ms][-self._most :]
        while len(self._times) > _MOST_KEYS:
            self._times.popitem(last=False)

    def remove_last(self, key: str) -> None:
        times = self._times.get(key, [])
        if len(times) > 1:
            times.pop()
        else:
            self._times.pop(key, None)

    def _recent(self, times: list[int], now_ms: int) -> list[int]:
        return [at for at in times if at > now_ms - self._window_ms]


class LoginLimits:
    """Counts failures in memory."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._of_address = _Failures(FAILURES_OF_ADDRESS, WINDOW_OF_ADDRESS_MS)
        self._of_name = _Failures(FAILURES_OF_NAME, WINDOW_OF_NAME_MS)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait_ms(self, address: str, name: str | None) -> int:
        """How long the address must wait before it may try to log in as `name`; 0: it may now. None: without a name of this console."""
        network, now_ms = network_of(address), self._now_ms()
        of_name = 0
        if name is not None and (network, _key(name)) not in self._known:
            of_name = self._of_name.wait_ms(_key(name), now_ms)
        return max(self._of_address.wait_ms(network, now_ms), of_name)

    def check(self, address: str, name: str | None, cause: str = FAILED_LOGINS) -> None:
        """Raises TooOften with the cause if the address must wait."""
        wait_ms = self.wait_ms(address, name)
        if wait_ms:
            raise TooOften(cause, "Try again in {minutes} min.", minutes=-(-wait_ms // 60_000))

    def failed(self, address: str, name: str | None) -> None:
        """Counts a failed attempt. Call it before the password is checked, and `succeeded` or `take_back` after, so that attempts at once count."""
        now_ms = self._now_ms()
        self._of_address.add(network_of(address), now_ms)
        if name is not None:
            self._of_name.add(_key(name), now_ms)

    def take_back(self, address: str, name: str | None) -> None:
        """Takes back the failure that was counted for this attempt; earlier ones still count: the address may have many users."""
        self._of_address.remove_last(network_of(address))
        if name is not None:
            self._of_name.remove_last(_key(name))

    def succeeded(self, address: str, name: str) -> None:
        """Takes back the failure; from now on strangers cannot lock the name out of this address."""
        self.take_back(address, name)
        network, key = network_of(address), _key(name)
        self._known.pop((network, key), None)
        self._known[network, key] = None
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _key(name: str) -> str:
    """Names that are too long for a user share one key, so that they take no memory."""
    return name if len(name) <= LONGEST_NAME else ""


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    parsed = parse_address(address)
    if parsed is None:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
