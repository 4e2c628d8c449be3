"""Who a client is: `address@instance[@unit][@STREAM]` (client spec 1.2).

Consumers of one group share out their queues by the order of these ids, so no two live ones may have the same: the instance name has the process's
id and a clock reading in it unless the user gives one, and is worked out when a client starts, so that a forked child has its own.
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
    """`pid#nanoseconds`, different at each call."""
    # Clocks may stand still between two calls; the count keeps the names apart.
    return f"{os.getpid()}#{time.monotonic_ns() + next(_starts)}"


def build_client_id(
    instance_name: str, client_ip: str | None = None, unit_name: str | None = None, *, stream: bool = False
) -> str:
    """The client id. `stream` marks lite pull consumers."""
    unit = f"@{unit_name}" if unit_name and unit_name.strip() else ""
    return f"{client_ip or local_address()}@{instance_name}{unit}{STREAM_SUFFIX if stream else ''}"


@lru_cache(maxsize=1)
def local_address() -> str:
    """This machine's address as other machines most likely see it; 127.0.0.1 where it has none."""
    # No packet is sent: connecting a datagram socket only asks the kernel which address it would use.
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
