# cython: wraparound=False, cdivision=True

"""Converts the properties of a send to the property string of a record: part of the hot path of sends.

compat: properties without a name or a value are dropped, as when Apache's broker parses the string and writes it again.
"""

import cython

from broker.header_scan import UNESCAPE_SPARE

if not cython.compiled:
    from broker.header_scan import unescape
    from headrace.protocol.big_endian import address_of, find_byte, is_equal, store_bytes
    from headrace.protocol.record_layout import MAX_PROPERTIES_LENGTH, VALUE_END, read_property


class StoredProperties:
    """The stored properties of one request after the other: `length` bytes of `text`. `waits`: the answer waits for the store (WAIT)."""

    def __init__(self, cluster: str) -> None:
        self._cluster = b"CLUSTER\x01" + cluster.encode()
        # Before it is known whether they are too long: those sent, a separator, the cluster's.
        self._text_memory = memoryview(bytearray(MAX_PROPERTIES_LENGTH + 1 + len(self._cluster)))
        self._raw_memory = memoryview(bytearray(MAX_PROPERTIES_LENGTH + UNESCAPE_SPARE))
        self._joined_memory = memoryview(bytearray(2 * MAX_PROPERTIES_LENGTH + 1))
        self.text = address_of(self._text_memory)
        self._raw = address_of(self._raw_memory)
        self.joined = address_of(self._joined_memory)
        self.length = 0
        self.waits = True
        self.length_limit = MAX_PROPERTIES_LENGTH
        self.count_limit = MAX_PROPERTIES_LENGTH
        """Properties that are longer, or more, are not for the hot path."""

    def store(self, p: bytes, at: int, length: int, is_batch: bool) -> bool:
        """Makes `text` of the JSON string at `at`: without WAIT (a batch's stays), with CLUSTER. False: not for the hot path."""
        if length > MAX_PROPERTIES_LENGTH:
            return False
        size = unescape(p, at, at + max(length, 0), self._raw, 0)
        if size < 0:
            return False
        raw = self._raw
        self.waits = True
        self.length = 0
        count = 0
        at = 0
        while at < size:
            found = read_property(raw, at, size)
            length = found.name_length
            if length > 0:
                count += 1
                if count > self.count_limit:
                    return False
                first = raw[at]
                is_stored = True
                if length == 4 and is_equal(raw, at, b"WAIT", 0, 4):
                    is_stored = is_batch
                    self.waits = found.end - found.value_at == 4 and _is_true(raw, found.value_at)
                elif length == 7 and is_equal(raw, at, b"CLUSTER", 0, 7):
                    is_stored = False
                elif (
                    (length == 5 and is_equal(raw, at, b"DELAY", 0, 5))
                    or (first == 84 and length > 4 and raw[at + 1] != 65)  # TRAN_MSG, TIMER_…; not TAGS
                    or (first == 73 and length > 6 and raw[at + 1] == 78 and raw[at + 2] == 78)  # INNER_…
                ):
                    return False
                if is_stored:
                    if self._is_repeated(at, length):
                        return False
                    self._begin_property()
                    store_bytes(self.text, self.length, raw, at, found.end - at)
                    self.length += found.end - at
            at = found.end + 1
        self._begin_property()
        length = len(self._cluster)
        store_bytes(self.text, self.length, self._cluster, 0, length)
        self.length += length
        return self.length <= self.length_limit

    def take(self, properties: bytes) -> None:
        """Creates `text` from properties that the plain path has checked, at most MAX_PROPERTIES_LENGTH bytes."""
        self.length = len(properties)
        store_bytes(self.text, 0, properties, 0, self.length)

    def join(self, p: bytes, at: int, length: int) -> int:
        """Makes `joined` of the properties of a batch's message and of the batch; returns its length, which the caller has checked."""
        joined = self.joined
        store_bytes(joined, 0, p, at, length)
        if length > 0 and joined[length - 1] != VALUE_END:
            joined[length] = VALUE_END
            length += 1
        store_bytes(joined, length, self.text, 0, self.length)
        return length + self.length

    def count(self, p: bytes, at: int, length: int) -> int:
        """How many properties the string at `at` has at most: pieces, whatever is in them."""
        end = at + length
        count = 1
        at = find_byte(p, VALUE_END, at, end)
        while at >= 0 and at < end - 1:
            count += 1
            at = find_byte(p, VALUE_END, at + 1, end)
        return count

    def _begin_property(self) -> None:
        if self.length:
            self.text[self.length] = VALUE_END
            self.length += 1

    def _is_repeated(self, name_at: int, name_length: int) -> bool:
        """Whether a property of this name is in `text` already (then the later one must win)."""
        at = 0
        while at >= 0 and self.length - at > name_length:
            if is_equal(self.text, at, self._raw, name_at, name_length + 1):
                return True
            at = find_byte(self.text, VALUE_END, at, self.length)
            if at >= 0:
                at += 1
        return False


def _is_true(raw: memoryview, at: int) -> bool:
    return (
        raw[at] | 32 == 116 and raw[at + 1] | 32 == 114 and raw[at + 2] | 32 == 117 and raw[at + 3] | 32 == 101  # true
    )
