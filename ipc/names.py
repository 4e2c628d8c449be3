"""Names of an instance's shared memory segments.

A machine may run several appliances, so every name contains a hash of the store's real path. The same path gives the same
names, by which visitors find the pages and a start finds segments of a crashed predecessor.
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
"""Every role of the appliance, in start order."""

BELL_ROLES = ("broker", "dispatch", "flush", "housekeeper", "ha")
"""Roles that sleep until an offset changes, and so have a bell and an `asleep` cell."""


def instance_hash(store_path: str | os.PathLike[str]) -> str:
    """8 hexadecimal digits for a store, the same for every symbolic link to it."""
    return hashlib.sha256(os.fsencode(os.path.realpath(store_path))).hexdigest()[:8]


def segment_name(store_path: str | os.PathLike[str], page: str) -> str:
    """The name of one segment as shm_open(3) takes it: `/headrace-<hash>-<page>`."""
    return f"/headrace-{instance_hash(store_path)}-{page}"
