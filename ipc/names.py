"""Names of an instance's shared memory segments.

One machine may hold several appliances, so every name carries a hash of the store's real path. The same path gives the same
names, which is how visitors find the pages and how a start finds what a crashed predecessor left behind.
"""

import hashlib
import os

ROLES = (
    "supervisor",
    "logger",
    "recover",
    "nameserver",
    "dispatch",
    "flush",
    "housekeeper",
    "ha",
    "broker",
    "console",
)
"""Every role the appliance has, in the order in which they start."""

BELL_ROLES = ("broker", "dispatch", "flush", "housekeeper", "ha")
"""Those that sleep until an offset moves, and so have a bell and an `asleep` cell."""


def instance_hash(store_path: str | os.PathLike[str]) -> str:
    """8 hexadecimal digits for a store, the same through every symbolic link to it."""
    return hashlib.sha256(os.fsencode(os.path.realpath(store_path))).hexdigest()[:8]


def segment_name(store_path: str | os.PathLike[str], page: str) -> str:
    """The name of one segment as shm_open(3) takes it: `/headrace-<hash>-<page>`."""
    return f"/headrace-{instance_hash(store_path)}-{page}"
