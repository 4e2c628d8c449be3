# cython: wraparound=False, cdivision=True

"""Checks the signature of a scanned frame in place: part of the hot paths, while access control is on.

The signed bytes are the values of all extFields but the signature, sorted by name, then the body (remoting spec 6.2). A frame with a field that its
path does not know is left to the plain path, which checks the signature in `headrace.protocol.acl_signature`'s way.
"""

import hashlib
from collections.abc import Sequence

import cython

from broker.header_scan import MAX_FIELDS, HeaderScan
from broker.hmac_sha1 import BLOCK_SIZE, SPARE_SIZE, TEXT_SIZE

if not cython.compiled:
    from broker.header_scan import unescape
    from broker.hmac_sha1 import begin, finish, has_two, is_same, load, new_state, sign_two, update
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
    """Checks one frame after the other. Of two that wait, the second is hashed together with the first, which takes half the time."""

    def __init__(self, names: Sequence[bytes], signature: int, escaped: int = MAX_FIELDS) -> None:
        """`names`, `escaped`: as of the HeaderScan. `signature`: the field that has the signature, in Base64."""
        self._signature = signature
        self._escaped = escaped
        # In Java's order: these names have ASCII characters only.
        order = [field for field in sorted(range(len(names)), key=names.__getitem__) if field != signature]
        self._count = len(order)
        self._memories = [memoryview(bytearray(MAX_VALUES_LENGTH + SPARE_SIZE)) for _ in range(2)]
        self._memories += [memoryview(bytearray(TEXT_SIZE + 1)) for _ in range(2)]
        self._values = address_of(self._memories[0])
        self._next_values = address_of(self._memories[1])
        self._expected = address_of(self._memories[2])
        self._next_expected = address_of(self._memories[3])
        self._next_key: SigningKey | None = None
        self._has_sha1 = load()
        self._has_two = has_two()
        if not cython.compiled:
            self._order = [0] * MAX_FIELDS
        for place in range(self._count):
            self._order[place] = order[place]

    def is_signed(self, p: bytes, scan: HeaderScan, key: SigningKey) -> bool:
        """Whether the frame that was scanned is signed with `key`. False also for a frame that is not for the hot path."""
        size = self._join_values(p, scan, self._values)
        if size < 0:
            return False
        begin(key.inner)
        update(self._values, 0, size)
        update(p, scan.body_at, scan.body_length)
        finish(key.outer, self._expected)
        return is_same(self._expected, p, scan.starts[self._signature])

    def is_signed_before(self, p: bytes, scan: HeaderScan, following: HeaderScan, key: SigningKey) -> bool:
        """As `is_signed`. The frame that `following` has scanned in the same buffer is hashed too, for `is_next_signed`."""
        self._next_key = None
        if not self._has_two:
            return self.is_signed(p, scan, key)
        size = self._join_values(p, scan, self._values)
        next_size = self._join_values(p, following, self._next_values)
        if size < 0 or next_size < 0:
            return self.is_signed(p, scan, key)
        sign_two(
            key.inner, key.outer, self._values, size, p, scan.body_at, scan.body_length,
            self._next_values, next_size, following.body_at, following.body_length, self._expected, self._next_expected,
        )  # fmt: skip
        self._next_key = key
        return is_same(self._expected, p, scan.starts[self._signature])

    def is_next_signed(self, p: bytes, scan: HeaderScan, key: SigningKey) -> bool:
        """As `is_signed`, for the frame that `is_signed_before` was told of. It may be of another account."""
        if self._next_key is not key:
            return self.is_signed(p, scan, key)
        self._next_key = None
        return is_same(self._next_expected, p, scan.starts[self._signature])

    def _join_values(self, p: bytes, scan: HeaderScan, to: memoryview) -> int:
        """Joins the values of the fields, sorted by name; returns their length, -1 if the frame is not for the hot path: one has unusual escapes, say."""
        if (
            not self._has_sha1
            or scan.has_others
            or scan.lengths[self._signature] != _TEXT_SIZE
            or scan.body_at - scan.fields_at > _MAX_LENGTH
        ):
            return -1
        # No overrun: all of them are shorter than extFields, and escaped characters longer than the characters; SPARE_SIZE is more than UNESCAPE_SPARE.
        size = 0
        for place in range(self._count):
            field = self._order[place]
            length = scan.lengths[field]
            if length > 0:
                start = scan.starts[field]
                if field == self._escaped:
                    size = unescape(p, start, start + length, to, size)
                    if size < 0:
                        return -1
                else:
                    store_bytes(to, size, p, start, length)
                    size += length
        return size
