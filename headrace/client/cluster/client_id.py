"""Client ids: `address@instance[@unit][@STREAM]` (client spec 1.2).

The consumers of a group divide its queues by the order of these ids, so no two live ones may be equal. Unless the user gives an instance name, it
contains the process id and a clock reading. It is built when a client starts, so that a forked child gets its own.
"""

import ipaddress
import itertools
import os
import socket
import time
from functools import lru_cache
from typing import Final

STREAM_SUFFIX: Final = "@STREAM"

_starts: Final = itertools.count()


def fresh_instance_name() -> str:
    """Returns `pid#nanoseconds`, different at each call."""
    # The clock may return the same value twice; the count keeps the names different.
    return f"{os.getpid()}#{time.monotonic_ns() + next(_starts)}"


def build_client_id(
    instance_name: str, client_ip: str | None = None, unit_name: str | None = None, *, stream: bool = False
) -> str:
    """Returns the client id. `stream` marks lite pull consumers."""
    unit = f"@{unit_name}" if unit_name and unit_name.strip() else ""
    return f"{client_ip or local_address()}@{instance_name}{unit}{STREAM_SUFFIX if stream else ''}"


@lru_cache(maxsize=1)
def local_address() -> str:
    """Returns the address under which other machines most likely reach this one; 127.0.0.1 if it has none."""
    # No packet is sent: connecting a datagram socket only makes the kernel choose the local address.
    for family, target in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                found = ipaddress.ip_address(probe.getsockname()[0])
        except (OSError, ValueError):
            continue
        if not found.is_loopback and not found.is_unspecified:
            return f"[{found}]" if found.version == 6 else str(found)
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
