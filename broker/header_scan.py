# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""Scans frames in place for the hot paths: the frame's head, then a JSON header of plain strings and whole numbers.

The scan finds the positions of the values of extFields. It accepts only the common form: everything else is OTHER, and the frame is left to
the plain path, which parses all of JSON. Compiled if there is a compiler (types in the `.pxd`).

Headers of one client differ only in a few values. So the last header that was scanned byte by byte is kept, and the next are compared with it, eight bytes
at a time:

    kept    {"code":310,"extFields":{"a":"group",…,"g":"1700000000000",…},…,"opaque":41,…}
    next    {"code":310,"extFields":{"a":"group",…,"g":"1700000000072",…},…,"opaque":1042,…}
            ────── equal ──────────────────────────────────────┘ a value differs: its end is looked for, and the comparison continues behind both

Names and whatever else is not the value of a known field or of opaque must be equal; if they are not, the frame is scanned byte by byte.
"""

from collections.abc import Sequence

import cython

if not cython.compiled:
    from headrace.protocol.big_endian import copy_until, equal_length, find_byte, is_equal, load_u32, store_bytes
    from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE

PARTIAL = 0
"""The buffer ends within the frame."""
OTHER = 1
"""A frame, complete or invalid, that the hot path does not handle."""
SCANNED = 2
"""A complete frame whose header has been scanned."""
BAD = -(1 << 62)
"""Not a number that this scanner accepts."""

MAX_FIELDS = 26
UNESCAPE_SPARE = 8

_PARTIAL = PARTIAL
_OTHER = OTHER
_SCANNED = SCANNED
_MAX_FIELDS = MAX_FIELDS
_SLOTS = 256  # a power of two
_OPAQUE = MAX_FIELDS  # among the values
_MOST_VALUES = MAX_FIELDS + 1
_KEPT_LENGTH = 1024  # limit: longer headers are not kept


class HeaderScan:
    """The head of one frame after the other. After SCANNED:

    `opaque`, `flag`; `fields_at`, `body_at`, `body_length`, `end`: places in the buffer; `starts[field]`, `lengths[field]`: the value of a
    field of extFields, -1 for a field that is missing. `fields_at` is where the first field's name begins: its quote.
    `has_others`: extFields has a field of another name. Frames with a header of more than `header_limit` bytes are OTHER.
    """

    def __init__(
        self, codes: tuple[int, int], names: Sequence[bytes], escaped: int = MAX_FIELDS, ignores_others: bool = False
    ) -> None:
        """`codes`: the accepted request codes. `names`: the names of the fields, numbered from 0; at most MAX_FIELDS.

        `escaped`: the field whose value may have escapes. `ignores_others`: a frame may have fields of other names. Raises ValueError.
        """
        if len(names) > MAX_FIELDS:
            raise ValueError(f"{len(names)} fields; at most {MAX_FIELDS} are scanned")
        self._code, self._other_code = codes
        self._escaped = escaped
        self._ignores_others = ignores_others
        self._count = len(names)
        self._given = tuple(names)
        self.header_limit = FRAME_MAX_LENGTH
        if not cython.compiled:
            self._slots = [0] * _SLOTS
            self._names = [b""] * _MAX_FIELDS
            self._name_lengths = [0] * _MAX_FIELDS
            self.starts = [0] * _MOST_VALUES
            self.lengths = [0] * _MOST_VALUES
            self._values = [0] * _MOST_VALUES
            self._kept_header = memoryview(bytearray(_KEPT_LENGTH))
            self._kept_starts = [0] * _MOST_VALUES
            self._kept_lengths = [0] * _MOST_VALUES
        for slot in range(_SLOTS):
            self._slots[slot] = -1
        for field in range(self._count):
            name = self._given[field]
            slot = _slot_of(name, 0, len(name))
            if self._slots[slot] >= 0:
                raise ValueError(f"the fields {name!r} and {self._given[self._slots[slot]]!r} share a slot")
            self._slots[slot] = field
            self._names[field] = name
            self._name_lengths[field] = len(name)
        self.opaque = self.flag = 0
        self.fields_at = self.body_at = self.body_length = self.end = 0
        self.has_others = False
        # The values of the last scan in their order, numbered as fields. The kept header, 0 if there is none, has the same ones.
        self._count_values = 0
        self._kept = 0
        self._kept_fields_at = 0
        self._kept_opaque = 0

    def scan(self, p: bytes, position: int, end: int) -> int:
        """Scan the frame at `position` of a buffer that ends at `end`: PARTIAL, OTHER or SCANNED."""
        if end - position < HEAD_SIZE:
            return _PARTIAL
        length = load_u32(p, position)
        # The highest byte of the header's length is its type, so that a header of another type than JSON is too long.
        header_length = load_u32(p, position + LENGTH_SIZE)
        if (
            length > FRAME_MAX_LENGTH - LENGTH_SIZE
            or header_length > length - LENGTH_SIZE
            or header_length > self.header_limit
        ):
            return _OTHER
        if end - position - LENGTH_SIZE < length:
            return _PARTIAL
        header = position + HEAD_SIZE
        self.body_at = header + header_length
        self.end = position + LENGTH_SIZE + length
        self.body_length = self.end - self.body_at
        if self._kept and self._scan_like_kept(p, header, self.body_at):
            return _SCANNED
        self._kept = 0
        if not self._scan_header(p, header, self.body_at):
            return _OTHER
        self._keep(p, header, header_length)
        return _SCANNED

    def number(self, p: bytes, field: int) -> int:
        """The value of a field as a number; BAD if it is missing or not a number."""
        return parse_number(p, self.starts[field], self.lengths[field])

    def _keep(self, p: bytes, header: int, length: int) -> None:
        """Keeps the header that has been scanned."""
        if length > _KEPT_LENGTH:
            return
        store_bytes(self._kept_header, 0, p, header, length)
        for value in range(self._count_values):
            field = self._values[value]
            self._kept_starts[value] = self.starts[field] - header
            self._kept_lengths[value] = self.lengths[field]
        self._kept_fields_at = self.fields_at - header
        self._kept_opaque = self.opaque
        self._kept = length

    def _scan_like_kept(self, p: bytes, header: int, end: int) -> bool:
        """Scans a header that differs from the kept one only in values; False if it is another one, or not plain.

        The flag, missing fields and `has_others` are those of the kept header, and still there.
        """
        self.fields_at = header + self._kept_fields_at
        self.opaque = self._kept_opaque
        at = header
        kept = 0
        value = 0
        while True:
            same = equal_length(p, at, self._kept_header, kept, min(end - at, self._kept - kept))
            at += same
            kept += same
            # What is equal as a whole.
            while value < self._count_values and self._kept_starts[value] + self._kept_lengths[value] < kept:
                field = self._values[value]
                self.starts[field] = at - kept + self._kept_starts[value]
                self.lengths[field] = self._kept_lengths[value]
                value += 1
            if kept == self._kept or at == end:
                return kept == self._kept and at == end
            if value == self._count_values or kept < self._kept_starts[value]:
                return False
            field = self._values[value]
            start = at - kept + self._kept_starts[value]
            if field == _OPAQUE:
                at = start
                while at < end - 1 and p[at] != 44:
                    at += 1
                self.opaque = parse_number(p, start, at - start)
                if self.opaque == BAD:
                    return False
            elif field == self._escaped:
                at = escaped_string_end(p, start, end - 1)
            else:
                at = string_end(p, at, end - 1)  # what is equal before it has no escape
            if at < 0:
                return False
            self.starts[field] = start
            self.lengths[field] = at - start
            kept = self._kept_starts[value] + self._kept_lengths[value]
            value += 1

    def _scan_header(self, p: bytes, at: int, end: int) -> bool:
        if end - at < 16 or p[at] != 123 or p[end - 1] != 125:  # { }
            return False
        for field in range(self._count):
            self.lengths[field] = -1
        self.flag = 0
        self.opaque = BAD
        self.has_others = False
        self._count_values = 0
        has_code = False
        has_fields = False
        end -= 1
        at += 1
        while True:
            if at >= end or p[at] != 34:
                return False
            start = at + 1
            at = string_end(p, start, end)
            if at < 0 or at + 2 > end or p[at + 1] != 58:
                return False
            name = p[start]
            name_length = at - start
            at += 2
            if p[at] == 34:  # a string
                at = string_end(p, at + 1, end)
                if at < 0 or (name != 108 and name != 115 and name != 114):  # language, serializeTypeCurrentRPC, remark
                    return False
                at += 1
            elif p[at] == 123:  # {
                if name != 101 or name_length != 9 or has_fields:  # extFields
                    return False
                has_fields = True
                self.fields_at = at + 1
                at = self._scan_fields(p, at + 1, end)
                if at < 0:
                    return False
            else:
                start = at
                while at < end and p[at] != 44:
                    at += 1
                number = parse_number(p, start, at - start)
                if number == BAD:
                    return False
                if name == 99 and name_length == 4:  # code
                    if number != self._code and number != self._other_code:
                        return False
                    has_code = True
                elif name == 102 and name_length == 4:  # flag
                    self.flag = number
                elif name == 111 and name_length == 6:  # opaque
                    if self.opaque != BAD:
                        return False
                    self.opaque = number
                    self._note_value(_OPAQUE, start, at)
                elif name != 118 or name_length != 7:  # version
                    return False
            if at == end:
                break
            if p[at] != 44:
                return False
            at += 1
        return has_code and has_fields and self.opaque != BAD

    def _scan_fields(self, p: bytes, at: int, end: int) -> int:
        """Records the positions of the values of extFields; returns the position after the object, -1 if it is not plain."""
        while True:
            if at >= end or p[at] != 34:
                return -1
            start = at + 1
            at = string_end(p, start, end)
            if at <= start or at + 3 > end or p[at + 1] != 58 or p[at + 2] != 34:
                return -1
            field = self._slots[_slot_of(p, start, at - start)]
            if field >= 0 and (
                self._name_lengths[field] != at - start or not is_equal(p, start, self._names[field], 0, at - start)
            ):
                field = -1
            if field < 0:
                if not self._ignores_others:
                    return -1
                self.has_others = True
            start = at + 3
            at = escaped_string_end(p, start, end) if field == self._escaped else string_end(p, start, end)
            if at < 0 or at + 1 >= end:
                return -1
            if field >= 0:
                if self.lengths[field] >= 0:
                    return -1
                self._note_value(field, start, at)
            at += 1
            if p[at] == 125:
                return at + 1
            if p[at] != 44:
                return -1
            at += 1

    def _note_value(self, field: int, start: int, end: int) -> None:
        self.starts[field] = start
        self.lengths[field] = end - start
        self._values[self._count_values] = field
        self._count_values += 1


def parse_number(p: bytes, at: int, length: int) -> int:
    """A decimal number of up to 18 digits as Java writes it; `BAD` for anything else."""
    end = at + length
    negative = length > 1 and p[at] == 45
    if negative:
        at += 1
    if not 0 < end - at <= 18:
        return BAD
    value = 0
    while at < end:
        digit = p[at] - 48
        if not 0 <= digit <= 9:
            return BAD
        value = value * 10 + digit
        at += 1
    return -value if negative else value


def string_end(p: bytes, at: int, end: int) -> int:
    """The position of the closing quote of the string whose first character is at `at`; -1 if it has an escape or no end."""
    while at < end:
        if p[at] == 34:
            return at
        if p[at] == 92:
            return -1
        at += 1
    return -1


def escaped_string_end(p: bytes, at: int, end: int) -> int:
    """The same for a string that may have escapes; -1 only if it has no end."""
    stop = find_byte(p, 34, at, end)
    while stop > at and p[stop - 1] == 92:
        # An escaped quote: an odd number of backslashes before it.
        slashes = 1
        while stop - slashes > at and p[stop - slashes - 1] == 92:
            slashes += 1
        if not slashes & 1:
            break
        stop = find_byte(p, 34, stop + 1, end)
    return stop


def unescape(p: bytes, at: int, end: int, out: memoryview, out_at: int) -> int:
    """Copies the JSON string from `at` to `end` to `out`, unescaped; returns the end of the copy, -1 if it has unusual escapes.

    `out` needs UNESCAPE_SPARE bytes more than the string is long.
    """
    while True:
        run = copy_until(out, out_at, p, at, end, 92)  # a backslash
        out_at += run
        at += run
        if at >= end:
            return out_at
        at += 1
        byte = p[at]  # the quote that ends the string follows its last character
        if byte == 117:  # four hexadecimal digits
            if end - at < 5 or p[at + 1] != 48 or p[at + 2] != 48:
                return -1
            high = _hex_digit(p[at + 3])
            low = _hex_digit(p[at + 4])
            if high < 0 or high > 7 or low < 0:
                return -1
            byte = high << 4 | low
            at += 4
        elif byte != 34 and byte != 92 and byte != 47:
            return -1
        out[out_at] = byte
        out_at += 1
        at += 1


def _hex_digit(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 32
    if 97 <= byte <= 102:
        return byte - 87
    return -1


def _slot_of(p: bytes, at: int, length: int) -> int:
    """A number below _SLOTS that differs for the names of one path: by length, first and last letter."""
    return (p[at] + 8 * length + 29 * p[at + length - 1]) & 255
