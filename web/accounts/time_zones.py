"""Time zones in which users read and enter times."""

import functools
import os
import re
import time
import zoneinfo
from pathlib import Path
from typing import Final

BROWSER: Final = ""
"""The choice of a user for the zone of the browser, the default."""
SERVER: Final = "server"
"""The choice of a user for the zone of the console's machine, whatever it is."""
UTC: Final = "UTC"
_NAME: Final = re.compile(r"[A-Z]\w+(/[\w+-]+)+", re.ASCII)
"""Names that browsers know: a region and a place. The others are old ones of the same zones."""
_LOCAL: Final = Path("/etc/localtime")


@functools.cache
def zones() -> tuple[str, ...]:
    """The names of the IANA zones that this machine has, sorted."""
    return tuple(sorted(filter(_NAME.fullmatch, zoneinfo.available_timezones())))


def server_zone() -> str:
    """The name of the zone of this machine; empty if it is not known."""
    names = (os.environ.get("TZ", "").removeprefix(":"), str(_LOCAL.resolve()).partition("/zoneinfo/")[2])
    found = next(filter(None, names), "")
    if found in zones():
        return found
    return UTC if time.timezone == 0 and not time.daylight else ""


def is_choice(choice: str) -> bool:
    """Whether a user may choose it."""
    return choice in {BROWSER, SERVER, UTC} or choice in zones()


def zone_of(choice: str) -> str:
    """The name of the chosen zone; empty: that of the browser."""
    return server_zone() if choice == SERVER else choice
