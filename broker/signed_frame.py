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

if not cython.compiled:
    from broker.header_scan import escaped_string_end, string_end, unescape
    from headrace.protocol.big_endian import address_of, copy_bytes, store_bytes

MAX_SIGNED_FIELDS = 32
LARGEST_SIGNED = 262_144
"""Bytes of fields and body; a frame with more goes to the plain path."""

_MAX_FIELDS = MAX_SIGNED_FIELDS
_LARGEST = LARGEST_SIGNED


_BLOCK = 64
_INNER_PAD = 0x36
_OUTER_PAD = 0x5C


class SigningKey:
    """The secret of an account, prepared for HMAC-SHA1: both keyed hashes are begun once, which halves the cost of a short message."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _BLOCK:
            secret = hashlib.sha1(secret).digest()
        padded = secret.ljust(_BLOCK, b"\0")
        self.inner = hashlib.sha1(bytes(byte ^ _INNER_PAD for byte in padded))
        self.outer = hashlib.sha1(bytes(byte ^ _OUTER_PAD for byte in padded))


class SignedFrame:
    """The signed bytes of one frame after the other."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(LARGEST_SIGNED))
        self._out = address_of(self._memory)
        self._encode = binascii.b2a_base64
        self._is_same = hmac.compare_digest
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
        if length < 0 or scan.end - scan.fields_at > _LARGEST or not self._sort_fields(p, scan, start):
            return False
        size = 0
        for place in range(self._count):
            size = unescape(p, self._values[place], self._value_ends[place], self._out, size)
            if size < 0:
                return False
        store_bytes(self._out, size, p, scan.body_at, scan.body_length)
        inner = key.inner.copy()
        inner.update(copy_bytes(self._out, 0, size + scan.body_length))
        outer = key.outer.copy()
        outer.update(inner.digest())
        # Base64 as it is encoded here ends its line.
        given = copy_bytes(p, start, start + length) + b"\n"
        return bool(self._is_same(self._encode(outer.digest()), given))

    def _sort_fields(self, p: bytes, scan: HeaderScan, signature_at: int) -> bool:
        """Notes names and values of the fields, sorted by name, without the one whose value is at `signature_at`."""
        # The scan has found that this is an object of plain strings, with one that may have escapes.
        at = scan.fields_at
        end = scan.body_at
        count = 0
        while True:
            name = at + 1
            name_end = string_end(p, name, end)
            value = name_end + 3
            at = escaped_string_end(p, value, end)
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


def _is_before(p: bytes, at: int, end: int, other: int, other_end: int) -> bool:
    """Whether the name from `at` to `end` comes before the other one. In Java's order: names have ASCII characters only, mostly."""
    while at < end and other < other_end:
        if p[at] != p[other]:
            return p[at] < p[other]
        at += 1
        other += 1
    return other < other_end
