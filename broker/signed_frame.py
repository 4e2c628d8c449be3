# cython: wraparound=False, cdivision=True

"""Checks the signature of a scanned frame in place: part of the hot paths, while access control is on.

The signed bytes are the values of all extFields but the signature, sorted by name, then the body (remoting spec 6.2). What is not plain
here, a long body among it, is left to the plain path, which checks the signature in `headrace.protocol.signature`'s way.
"""

import binascii
import hashlib
import hmac

import cython

from broker.header_scan import HeaderScan
from broker.sha1 import BLOCK_SIZE, DIGEST_SIZE

if not cython.compiled:
    from broker.header_scan import escaped_string_end, string_end, unescape
    from broker.sha1 import begin, end, load, update
    from headrace.protocol.big_endian import address_of, copy_bytes, find_byte

MAX_SIGNED_FIELDS = 32
MAX_VALUE_LENGTH = 65_536
"""Bytes of a value with escapes; a frame with a longer one goes to the plain path."""

_MAX_FIELDS = MAX_SIGNED_FIELDS
_MAX_LENGTH = MAX_VALUE_LENGTH
_BLOCK = BLOCK_SIZE
_DIGEST = DIGEST_SIZE
_INNER_PAD = 0x36
_OUTER_PAD = 0x5C


class SigningKey:
    """The secret of an account, padded for the two hashes of HMAC-SHA1 (RFC 2104)."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _BLOCK:
            secret = hashlib.sha1(secret).digest()
        padded = secret.ljust(_BLOCK, b"\0")
        self.inner = bytes([byte ^ _INNER_PAD for byte in padded])
        self.outer = bytes([byte ^ _OUTER_PAD for byte in padded])


class SignedFrame:
    """Checks one frame after the other."""

    def __init__(self) -> None:
        self._value_memory = memoryview(bytearray(MAX_VALUE_LENGTH))
        self._value = address_of(self._value_memory)
        self._digest_memory = memoryview(bytearray(DIGEST_SIZE))
        self._digest = address_of(self._digest_memory)
        self._encode = binascii.b2a_base64
        self._is_same = hmac.compare_digest
        self._has_sha1 = load()
        if not cython.compiled:
            self._names = [0] * _MAX_FIELDS
            self._name_ends = [0] * _MAX_FIELDS
            self._values = [0] * _MAX_FIELDS
            self._value_ends = [0] * _MAX_FIELDS
        self._count = 0

    def is_signed(self, p: bytes, scan: HeaderScan, signature: int, key: SigningKey) -> bool:
        """Whether the frame that was scanned is signed with `key`; field `signature` has the signature, in Base64.

        False also for a frame that is not for the hot path.
        """
        start = scan.starts[signature]
        length = scan.lengths[signature]
        if not self._has_sha1 or length < 0 or not self._sort_fields(p, scan, start) or not self._hash(p, scan, key):
            return False
        # Base64 as it is encoded here ends its line.
        given = copy_bytes(p, start, start + length) + b"\n"
        return bool(self._is_same(self._encode(copy_bytes(self._digest, 0, _DIGEST)), given))

    def _hash(self, p: bytes, scan: HeaderScan, key: SigningKey) -> bool:
        """Makes `_digest` the HMAC of the fields' values and the body."""
        if not begin() or not update(key.inner, 0, _BLOCK):
            return False
        for place in range(self._count):
            at = self._values[place]
            stop = self._value_ends[place]
            if find_byte(p, 92, at, stop) < 0:
                if not update(p, at, stop - at):
                    return False
            else:
                if stop - at > _MAX_LENGTH:
                    return False
                size = unescape(p, at, stop, self._value, 0)
                if size < 0 or not update(self._value, 0, size):
                    return False
        return (
            update(p, scan.body_at, scan.body_length)
            and end(self._digest)
            and begin()
            and update(key.outer, 0, _BLOCK)
            and update(self._digest, 0, _DIGEST)
            and end(self._digest)
        )

    def _sort_fields(self, p: bytes, scan: HeaderScan, signature_at: int) -> bool:
        """Notes names and values of the fields, sorted by name, without the one whose value is at `signature_at`."""
        # The scan has found that this is an object of plain strings, with one that may have escapes.
        at = scan.fields_at
        stop = scan.body_at
        count = 0
        while True:
            name = at + 1
            name_end = string_end(p, name, stop)
            value = name_end + 3
            at = escaped_string_end(p, value, stop)
            if value != signature_at:
                if count == _MAX_FIELDS:
                    return False
                place = count
                while place > 0 and _is_before(p, name, name_end, self._names[place - 1], self._name_ends[place - 1]):
                    self._names[place] = self._names[place - 1]
                    self._name_ends[place] = self._name_ends[place - 1]
                    self._values[place] = self._values[place - 1]
                    self._value_ends[place] = self._value_ends[place - 1]
                    place -= 1
                self._names[place] = name
                self._name_ends[place] = name_end
                self._values[place] = value
                self._value_ends[place] = at
                count += 1
            at += 1
            if p[at] != 44:  # the object's end: no comma
                break
            at += 1
        self._count = count
        return True


def _is_before(p: bytes, at: int, stop: int, other: int, other_stop: int) -> bool:
    """Whether the name from `at` to `stop` comes before the other one. In Java's order: names have ASCII characters only, mostly."""
    while at < stop and other < other_stop:
        if p[at] != p[other]:
            return p[at] < p[other]
        at += 1
        other += 1
    return other < other_stop
