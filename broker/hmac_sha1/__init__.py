"""HMAC-SHA1 (RFC 2104) for the hot paths, one signature at a time: `begin`, `update` as often as needed, `finish`, `is_same`.

Both hashes of an HMAC begin with a block that depends on the secret alone; `new_state` is what a hash knows after that block, so it is hashed once
for each account and not for each request.

A compiled module takes the C functions of the `.pxd` beside this file, which call OpenSSL directly; `load` is called once and tells whether that
is possible. A module that is not compiled takes the functions below. RocketMQ's signatures are HMAC-SHA1; nothing else uses this.

This is a package because it must not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import binascii
import hashlib
import hmac

BLOCK_SIZE = 64
TEXT_SIZE = 28
"""Characters of a signature in Base64."""

_hashes = [hashlib.sha1()]


def load() -> bool:
    """Whether the other functions can be used."""
    return True


def new_state(block: bytes) -> bytes:
    """The state of a hash after its first block, of BLOCK_SIZE bytes. Its form is that of the functions that made it."""
    return block


def begin(inner: bytes) -> None:
    """Begins a signature from the state of its inner hash; one that was begun before is discarded."""
    _hashes[0] = hashlib.sha1(inner)


def update(data: bytes | memoryview, at: int, length: int) -> None:
    """Adds `length` bytes of `data` from `at` on."""
    _hashes[0].update(data[at : at + length])


def finish(outer: bytes, out: memoryview) -> None:
    """Stores the signature at the beginning of `out`, TEXT_SIZE characters and one byte more, from the state of its outer hash."""
    digest = hashlib.sha1(outer + _hashes[0].digest()).digest()
    out[: TEXT_SIZE + 1] = binascii.b2a_base64(digest, newline=False) + b"\0"


def is_same(expected: memoryview, given: bytes, at: int) -> bool:
    """Whether the TEXT_SIZE characters of `given` from `at` on are those of `expected`, in a time that does not depend on them."""
    return hmac.compare_digest(expected[:TEXT_SIZE], given[at : at + TEXT_SIZE])
