"""HMAC-SHA1 (RFC 2104) for the hot paths: `begin`, `update` as often as needed, `finish`, `is_same`; or `sign_two`, for two requests at once.

SHA-1 is a chain of instructions that wait for each other, so a processor has time for a second one: two hashes in turns take 1.2 times as long as one.
Both hashes of an HMAC begin with a block that depends on the secret alone; `new_state` is what a hash knows after that block, so it is hashed once
for each account and not for each request.

A compiled module takes the C functions of the `.pxd` beside this file, which call OpenSSL directly; `load` is called once and tells whether that
is possible. `sign_two` is ours, because OpenSSL has no such function; `has_two` tells whether the processor has the instructions. A module that is not compiled takes the functions below. RocketMQ's signatures are HMAC-SHA1; nothing else uses this.

This is a package because it must not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import binascii
import hashlib
import hmac

BLOCK_SIZE = 64
TEXT_SIZE = 28
"""Characters of a signature in Base64."""
SPARE_SIZE = 64
"""Bytes that `sign_two` may use behind the values."""

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


def has_two() -> bool:
    """Whether `sign_two` can be used."""
    return True


def sign_two(
    inner: bytes,
    outer: bytes,
    values: memoryview,
    size: int,
    data: bytes,
    at: int,
    length: int,
    other_values: memoryview,
    other_size: int,
    other_at: int,
    other_length: int,
    out: memoryview,
    other_out: memoryview,
) -> None:
    """Stores the signatures of two requests of one account as `finish` does.

    Signed are `size` bytes of `values`, which has room for SPARE_SIZE more, and `length` bytes of `data` from `at` on; the same of the other request.
    """
    for signed, signed_size, body_at, body_length, target in (
        (values, size, at, length, out),
        (other_values, other_size, other_at, other_length, other_out),
    ):
        begin(inner)
        update(signed, 0, signed_size)
        update(data, body_at, body_length)
        finish(outer, target)
