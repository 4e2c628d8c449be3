"""Bits of the sysFlag of a pull request (remoting spec 4.10)."""

from typing import Final

COMMIT_OFFSET: Final = 0x1
SUSPEND: Final = 0x2
SUBSCRIPTION: Final = 0x4
CLASS_FILTER: Final = 0x8
LITE_PULL: Final = 0x10


def build(
    *, commit_offset: bool = False, suspend: bool = False, subscription: bool = False, lite_pull: bool = False
) -> int:
    """Returns the flag: commit the given offset, hold the request if there are no messages, the request contains the expression, from a lite pull consumer."""
    return commit_offset * COMMIT_OFFSET | suspend * SUSPEND | subscription * SUBSCRIPTION | lite_pull * LITE_PULL
