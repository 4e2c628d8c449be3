"""The two ids of a message: where it lies, and which one it is.

    offset message id   address (4 or 16) | port (4) | physical offset (8)                                made by the broker
    unique id           address (4 or 16) | pid (2) | constant (4) | ms since month began (4) | count (2)  made by the client

Both are written in hexadecimal, upper case: 32 digits with IPv4, 56 with IPv6 (remoting spec 5.7). The clock of the unique id begins anew on
the first of each month, local time.
"""

import ipaddress
import itertools
import os
import time
from typing import Final

from headrace.model.host import Host, decode_host, encode_host

_V4_DIGITS: Final = 32


def encode_offset_message_id(host: Host, physical_offset: int) -> str:
    """The offset message id of the record at `physical_offset` of the broker at `host`."""
    return (encode_host(host) + (physical_offset & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[Host, int]:
    """Host and physical offset in an offset message id. Raises ValueError if it is none."""
    if len(message_id) not in (_V4_DIGITS, 56):
        raise ValueError(f"not an offset message id: {message_id!r}")
    data = bytes.fromhex(message_id)
    if len(data) * 2 != len(message_id):  # fromhex skips blanks
        raise ValueError(f"not an offset message id: {message_id!r}")
    return decode_host(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)


def _month_start_ms(now_ms: int, months_before: int = 0) -> int:
    local = time.localtime(now_ms / 1000)
    return int(time.mktime((local.tm_year, local.tm_mon - months_before, 1, 0, 0, 0, 0, 0, -1)) * 1000)


class UniqueIdGenerator:
    """Makes unique ids for one process. Not for a forked child of it: that makes its own.

    `address` is the machine's; without one the low bytes of the time stand there. Ids of one generator differ as long as fewer than 65,536
    are made in a millisecond. May be called from any thread.
    """

    def __init__(self, address: str | None = None, pid: int | None = None, constant: bytes | None = None) -> None:
        head = (
            ipaddress.ip_address(address).packed
            if address
            else (time.time_ns() // 1_000_000 & 0xFFFFFFFF).to_bytes(4, "big")
        )
        head += ((os.getpid() if pid is None else pid) & 0xFFFF).to_bytes(2, "big")
        head += os.urandom(4) if constant is None else constant
        self._head = head.hex().upper()
        self._count = itertools.count()  # its next() is one step for all threads
        self._month = (0, 0)
        self._start = (-1, self._head)

    def create(self, now_ms: int | None = None) -> str:
        """The next unique id, of the time `now_ms` or now."""
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        # order: taken as one, for other threads may be here.
        at, front = self._start
        if at != now_ms:
            start, end = self._month
            if now_ms >= end:
                start, end = self._month = _month_start_ms(now_ms), _month_start_ms(now_ms, -1)
            # A clock that was set back may stand before the month.
            elapsed = max(0, now_ms - start) & 0xFFFFFFFF
            front = f"{self._head}{elapsed:08X}"
            self._start = now_ms, front
        return f"{front}{next(self._count) & 0xFFFF:04X}"


_generator: tuple[int, UniqueIdGenerator] | None = None


def create_unique_id() -> str:
    """A unique id out of this process's own generator, which knows no address."""
    global _generator
    pid = os.getpid()
    if _generator is None or _generator[0] != pid:  # a forked child must not go on with its parent's ids
        _generator = pid, UniqueIdGenerator()
    return _generator[1].create()


def unique_id_time_ms(unique_id: str, now_ms: int | None = None) -> int:
    """When a unique id was made, ms: a time within the month before `now_ms` (or now). Raises ValueError if it is none."""
    if len(unique_id) not in (_V4_DIGITS, 56):
        raise ValueError(f"not a unique id: {unique_id!r}")
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    elapsed = int(unique_id[-12:-4], 16)
    made = _month_start_ms(now_ms) + elapsed
    return made if made < now_ms else _month_start_ms(now_ms, 1) + elapsed
