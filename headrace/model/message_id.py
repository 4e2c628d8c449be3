"""The two ids of a message: where it is stored, and which message it is.

    offset message id   address (4 or 16) | port (4) | physical offset (8)                                created by the broker
    unique id           address (4 or 16) | pid (2) | constant (4) | ms since month began (4) | count (2)  created by the client

Both are upper-case hexadecimal: 32 digits with IPv4, 56 with IPv6 (remoting spec 5.7). The clock of the unique id restarts on the first of each
month, local time.
"""

import ipaddress
import itertools
import os
import time
from typing import Final

from headrace.model.host import Host, decode_host, encode_host

_V4_DIGITS: Final = 32


def encode_offset_message_id(host: Host, physical_offset: int) -> str:
    """Returns the offset message id of the record at `physical_offset` of the broker at `host`."""
    return (encode_host(host) + (physical_offset & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[Host, int]:
    """Returns host and physical offset of an offset message id. Raises ValueError if it is invalid."""
    if len(message_id) not in (_V4_DIGITS, 56):
        raise ValueError(f"{message_id!r} is not an offset message id; expected 32 or 56 hexadecimal digits")
    data = bytes.fromhex(message_id)
    if len(data) * 2 != len(message_id):  # fromhex skips spaces
        raise ValueError(f"{message_id!r} is not an offset message id; expected 32 or 56 hexadecimal digits")
    return decode_host(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)


def _month_start_ms(now_ms: int, months_before: int = 0) -> int:
    local = time.localtime(now_ms / 1000)
    return int(time.mktime((local.tm_year, local.tm_mon - months_before, 1, 0, 0, 0, 0, 0, -1)) * 1000)


class UniqueIdGenerator:
    """Creates unique ids for one process. A forked child needs a generator of its own.

    `address` is the machine's; without one the low bytes of the time take its place. The ids of one generator are different as long as fewer than
    65,536 are created in a millisecond. May be called from any thread.
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
        self._count = itertools.count()  # its next() is atomic
        self._month = (0, 0)
        self._start = (-1, self._head)

    def create(self, now_ms: int | None = None) -> str:
        """Returns the next unique id, for the time `now_ms` or now."""
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        # order: read as one tuple, because other threads may be here.
        at, front = self._start
        if at != now_ms:
            start, end = self._month
            if now_ms >= end:
                start, end = self._month = _month_start_ms(now_ms), _month_start_ms(now_ms, -1)
            # A clock that was set back may be before the month.
            elapsed = max(0, now_ms - start) & 0xFFFFFFFF
            front = f"{self._head}{elapsed:08X}"
            self._start = now_ms, front
        return f"{front}{next(self._count) & 0xFFFF:04X}"


_generator: tuple[int, UniqueIdGenerator] | None = None


def create_unique_id() -> str:
    """Returns a unique id of this process's own generator, which has no address."""
    global _generator
    pid = os.getpid()
    if _generator is None or _generator[0] != pid:  # a forked child must not continue its parent's ids
        _generator = pid, UniqueIdGenerator()
    return _generator[1].create()


def unique_id_time_ms(unique_id: str, now_ms: int | None = None) -> int:
    """Returns when a unique id was created, ms: a time within the month before `now_ms` (or now). Raises ValueError if it is invalid."""
    if len(unique_id) not in (_V4_DIGITS, 56):
        raise ValueError(f"{unique_id!r} is not a unique id; expected 32 or 56 hexadecimal digits")
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    elapsed = int(unique_id[-12:-4], 16)
    made = _month_start_ms(now_ms) + elapsed
    return made if made < now_ms else _month_start_ms(now_ms, 1) + elapsed
