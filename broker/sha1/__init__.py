"""SHA-1 for the hot paths, one digest at a time: `begin`, `update` as often as needed, `end`. Each returns whether it succeeded.

A compiled module takes the C functions of the `.pxd` beside this file, which call OpenSSL directly; `load` is called once and tells whether that
is possible. A module that is not compiled takes the functions below. RocketMQ's signatures are HMAC-SHA1; nothing else uses this.

This is a package because it must not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import hashlib

DIGEST_SIZE = 20
BLOCK_SIZE = 64

_digests = [hashlib.sha1()]


def load() -> bool:
    """Whether the other functions can be used."""
    return True


def begin() -> bool:
    """Begins a digest; one that was begun before is discarded."""
    _digests[0] = hashlib.sha1()
    return True


def update(data: bytes | memoryview, at: int, length: int) -> bool:
    """Adds `length` bytes of `data` from `at` on."""
    _digests[0].update(data[at : at + length])
    return True


def end(out: memoryview) -> bool:
    """Stores the digest, DIGEST_SIZE bytes, at the beginning of `out`."""
    out[:DIGEST_SIZE] = _digests[0].digest()
    return True
