"""The descriptors that this process has open, for tests that something opens none or closes its own."""

import gc
import os


def settled_descriptors() -> list[str]:
    """The open ones, sorted, after the garbage of earlier tests was collected: otherwise the collector could close some of theirs in between.

    For the first of two looks only: at the second, collected garbage would hide a descriptor that was left open.
    """
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))
