# cython: wraparound=False, cdivision=True

"""Checks the signature of a scanned frame in place: part of the hot paths, while access control is on.

The signed bytes are the values of all extFields but the signature, sorted by name, then the body (remoting spec 6.2). A frame with a field that its
path does not know is left to the plain path, which checks the signature in `headrace.protocol.acl_signature`'s way.
"""

import hashlib
from collections.abc import Sequence

import cython

from broker.header_scan import MAX_FIELDS, HeaderScan
from broker.hmac_sha1 import BLOCK_SIZE, TEXT_SIZE

if not cython.compiled:
    from broker.header_scan import unescape
    from broker.hmac_sha1 import begin, finish, is_same, load, new_state, update
    from headrace.protocol.big_endian import address_of, store_bytes

MAX_VALUES_LENGTH = 65_536
"""Bytes of extFields; a frame with more goes to the plain path."""

_MAX_LENGTH = MAX_VALUES_LENGTH
_TEXT_SIZE = TEXT_SIZE
_INNER_PAD = 0x36
_OUTER_PAD = 0x5C


class SigningKey:
    """The secret of an account, as the states in which the two hashes of HMAC-SHA1 begin."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) > BLOCK_SIZE:
            secret = hashlib.sha1(secret).digest()
        padded = secret.ljust(BLOCK_SIZE, b"\0")
        self.inner = new_state(bytes([byte ^ _INNER_PAD for byte in padded]))
        self.outer = new_state(bytes([byte ^ _OUTER_PAD for byte in padded]))


class SignedFrame:
    """Checks one frame after the other."""

    def __init__(self, names: Sequence[bytes], signature: int, escaped: int = MAX_FIELDS) -> None:
        """`names`, `escaped`: as of the HeaderScan. `signature`: the field that has the signature, in Base64."""
        self._signature = signature
        self._escaped = escaped
        # In Java's order: these names have ASCII characters only.
        order = [field for field in sorted(range(len(names)), key=names.__getitem__) if field != signature]
        self._count = len(order)
        self._values_memory = memoryview(bytearray(MAX_VALUES_LENGTH))
        self._values = address_of(self._values_memory)
        self._expected_memory = memoryview(bytearray(TEXT_SIZE + 1))
        self._expected = address_of(self._expected_memory)
        self._has_sha1 = load()
        if not cython.compiled:
            self._order = [0] * MAX_FIELDS
        for place in range(self._count):
            self._order[place] = order[place]

    def is_signed(self, p: bytes, scan: HeaderScan, key: SigningKey) -> bool:
        """Whether the frame that was scanned is signed with `key`. False also for a frame that is not for the hot path."""
        if (
            not self._has_sha1
            or scan.has_others
            or scan.lengths[self._signature] != _TEXT_SIZE
            or scan.body_at - scan.fields_at > _MAX_LENGTH
        ):
            return False
        size = self._join_values(p, scan)
        if size < 0:
            return False
        begin(key.inner)
        update(self._values, 0, size)
        update(p, scan.body_at, scan.body_length)
        finish(key.outer, self._expected)
        return is_same(self._expected, p, scan.starts[self._signature])

    def _join_values(self, p: bytes, scan: HeaderScan) -> int:
        """Joins the values of the fields, sorted by name; returns their length, -1 if one has unusual escapes."""
        # No overrun: all of them are shorter than extFields, and escaped characters longer than the characters.
        size = 0
        for place in range(self._count):
            field = self._order[place]
            length = scan.lengths[field]
            if length > 0:
                start = scan.starts[field]
                if field == self._escaped:
                    size = unescape(p, start, start + length, self._values, size)
                    if size < 0:
                        return -1
                else:
                    store_bytes(self._values, size, p, start, length)
                    size += length
        return size
