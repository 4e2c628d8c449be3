# cython: wraparound=False, cdivision=True
"""A compiled SQL92 expression: evaluates it over properties, straight from a record's bytes if need be.

Compiled where there is a compiler (types in the `.pxd`), plain Python elsewhere, with the same outcomes. A program is a list of
nodes, four numbers each: the kind, and by kind

    TRUTH             the truth                        PROPERTY, CAST        its slot
    AND, OR           first place in `links`, count    INT, LONG             place in `longs`
    NOT, IS_…, NEGATED   a node                        DOUBLE                place in `doubles`
    comparisons       two nodes                        STRING                place in `texts`
    BETWEEN           three nodes                      IN, NOT_IN            slot, first place in `texts`, count

Properties have slots: where in `_data` a value begins, and how long it is (-1: missing). Over a record no object is made: names are
looked for in the property string, and numbers are read from its digits. What is rare is done by plain functions
(java_number). A program is not for several threads: it keeps the value in hand in its attributes.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import cython

from store.filter.java_number import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, read_double, read_integer

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, load_i32
    from headrace.protocol.record_layout import TOTAL_SIZE_AT, WHOLE, find_parts, read_property

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = 2
FAILED: Final = 3
"""Outcomes. FAILED: a property cannot be compared as the expression asks. Only TRUE lets a message pass."""

OUTCOMES: Final = ("FALSE", "TRUE", "NULL", "ERROR")

_FALSE = FALSE
_TRUE = TRUE
_UNKNOWN = UNKNOWN
_FAILED = FAILED

# Kinds of nodes, as in sql_tree.
_TRUTH = 0
_AND = 1
_OR = 2
_NOT = 3
_EQUAL = 4
_NOT_EQUAL = 5
_LESS = 6
_LESS_EQUAL = 7
_GREATER = 8
_GREATER_EQUAL = 9
_IS_NULL = 10
_IS_NOT_NULL = 11
_IN = 12
_NOT_IN = 13
_BETWEEN = 14
_NOT_BETWEEN = 15
_CAST = 16
_PROPERTY = 17
_INT = 18
_LONG = 19
_DOUBLE = 20
_STRING = 21
_NEGATED = 22

# Kinds of values, beside _INT, _LONG, _DOUBLE and _STRING.
_NULL = 0
_BOOLEAN = 1
_NO_VALUE = 2

# So many digits and such a power of ten are doubles exactly: their quotient is rounded once, as it should be.
_EXACT_DIGITS = 15
_EXACT_POWER = 22
_PLAIN_DIGITS = 18  # so many digits are a 64-bit number in any case


class Program:
    """An expression, compiled. Made by `store.filter.sql_compile`."""

    def __init__(
        self,
        nodes: Sequence[tuple[int, int, int, int]],
        links: Sequence[int],
        longs: Sequence[int],
        doubles: Sequence[float],
        texts: Sequence[str],
        names: Sequence[str],
    ) -> None:
        """The last node is the whole expression."""
        self.names = tuple(names)
        self._nodes = array("i", [number for node in nodes for number in node])
        self._root = len(nodes) - 1
        self._links = array("i", [*links, 0])
        self._longs = array("q", [*longs, 0])
        self._doubles = array("d", [*doubles, 0.0])
        self._powers = array("d", [float(10**power) for power in range(_EXACT_POWER + 1)])
        pieces = [text.encode(errors="surrogatepass") for text in texts]
        # A string whose bytes differ from a property's may still be the same text, if bytes that are no UTF-8 are read as U+FFFD.
        self._loose = array("i", [*(int("\ufffd" in text) for text in texts), 0])
        self._text_start = array("q", [sum(map(len, pieces[:at])) for at in range(len(pieces))] + [0])
        self._text_length = array("q", [*map(len, pieces), 0])
        self._pool_bytes = b"".join(pieces) + b"\0"
        self._pool = self._pool_bytes
        encoded = [name.encode() for name in names]
        self._slots = len(encoded)
        self._name_start = array("q", [sum(map(len, encoded[:at])) for at in range(len(encoded))] + [0])
        self._name_length = array("q", [*map(len, encoded), 0])
        self._name_bytes = b"".join(encoded) + b"\0"
        self._name_pool = self._name_bytes
        self._value_start = array("q", [0] * (self._slots + 1))
        self._value_length = array("q", [0] * (self._slots + 1))
        self._data: bytes | memoryview = self._pool_bytes
        self.term_count = len(nodes) + len(texts)
        """How many operators, values and properties the expression has."""
        # The value in hand.
        self._long = 0
        self._double = 0.0
        self._at = self._size = 0
        self._literal = -1

    def outcome_of_stored(self, properties: bytes) -> int:
        """The outcome over a property string, as it is stored."""
        data = properties
        return self._outcome_between(data, 0, len(properties))

    def outcome_of_record(self, view: memoryview, position: int) -> int:
        """The outcome over the properties of the whole, checked record at a position of a view."""
        return self.outcome_at(address_of(view), position)

    def outcome_at(self, data: memoryview, position: int) -> int:
        """The same for compiled callers, which know the memory's address."""
        parts = find_parts(data, position, position + load_i32(data, position + TOTAL_SIZE_AT))
        if parts.outcome != WHOLE:
            return _FAILED
        return self._outcome_between(data, parts.properties_at, parts.properties_at + parts.properties_length)

    # -- properties -------------------------------------------------------------------------------------------------------

    def _outcome_between(self, data: bytes | memoryview, start: int, end: int) -> int:
        self._data = data
        for slot in range(self._slots):
            self._value_length[slot] = -1
        at = start
        while at < end:
            found = read_property(data, at, end)
            if found.name_length:
                slot = self._slot_of(at, found.name_length)
                if slot >= 0:
                    self._value_start[slot] = found.value_at
                    self._value_length[slot] = found.end - found.value_at
            at = found.end + 1
        outcome = self._truth(self._root)
        if not cython.compiled:
            self._data = self._pool_bytes  # or the view of a file would be held
        return outcome

    def _slot_of(self, at: int, length: int) -> int:
        for slot in range(self._slots):
            if self._name_length[slot] == length and self._is_name(slot, at, length):
                return slot
        return -1

    def _is_name(self, slot: int, at: int, length: int) -> bool:
        start = self._name_start[slot]
        names = self._name_pool
        data = self._data
        for i in range(length):  # noqa: SIM110  (a loop is C, all() is a generator)
            if names[start + i] != data[at + i]:
                return False
        return True

    # -- truths -----------------------------------------------------------------------------------------------------------

    def _truth(self, node: int) -> int:
        place = 4 * node
        kind = self._nodes[place]
        first = self._nodes[place + 1]
        second = self._nodes[place + 2]
        if _EQUAL <= kind <= _GREATER_EQUAL:
            value = self._load(first)
            if value == _NO_VALUE:
                return _FAILED
            return self._compare(kind, value, self._long, self._double, self._at, self._size, self._literal, second)
        if kind in (_AND, _OR):
            decisive = _FALSE if kind == _AND else _TRUE
            answer = _TRUE - decisive
            for i in range(first, first + second):
                truth = self._truth(self._links[i])
                if truth in (decisive, _FAILED):
                    return truth
                if truth == _UNKNOWN:
                    answer = _UNKNOWN
            return answer
        if kind == _NOT:
            return _negation(self._truth(first))
        if kind in (_IN, _NOT_IN):
            if self._value_length[first] < 0:
                return _UNKNOWN
            found = self._is_one_of(first, second, self._nodes[place + 3])
            return found if kind == _IN else _negation(found)
        if kind in (_IS_NULL, _IS_NOT_NULL):
            value = self._load(first)
            if value == _NO_VALUE:
                return _FAILED
            is_null = _TRUE if value == _NULL else _FALSE
            return is_null if kind == _IS_NULL else _negation(is_null)
        if kind in (_BETWEEN, _NOT_BETWEEN):
            return self._between(kind == _NOT_BETWEEN, first, second, self._nodes[place + 3])
        if kind == _CAST:
            return _UNKNOWN if self._value_length[first] < 0 else _FALSE
        return first

    def _between(self, outside: bool, node: int, low: int, high: int) -> int:
        """Two comparisons joined by AND, or by OR if `outside`; the value is worked out once."""
        value = self._load(node)
        if value == _NO_VALUE:
            return _FAILED
        number = self._long
        real = self._double
        at = self._at
        size = self._size
        literal = self._literal
        one = self._compare(_LESS if outside else _GREATER_EQUAL, value, number, real, at, size, literal, low)
        decisive = _TRUE if outside else _FALSE
        if one in (decisive, _FAILED):
            return one
        two = self._compare(_GREATER if outside else _LESS_EQUAL, value, number, real, at, size, literal, high)
        if two in (decisive, _FAILED):
            return two
        return _UNKNOWN if _UNKNOWN in (one, two) else one

    def _is_one_of(self, slot: int, first: int, count: int) -> int:
        start = self._value_start[slot]
        length = self._value_length[slot]
        for i in range(first, first + count):
            if self._is_text(start, length, -1, self._text_start[i], self._text_length[i], i):
                return _TRUE
        return _FALSE

    def _compare(
        self, kind: int, value: int, number: int, real: float, at: int, size: int, literal: int, node: int
    ) -> int:
        """A value that was loaded against a node's. # compat: conversions and their failures are RocketMQ's (store spec 13.6)."""
        ordered = kind >= _LESS
        if ordered and value == _NULL:
            return _UNKNOWN
        other = self._load(node)
        if other == _NO_VALUE:
            return _FAILED
        if _NULL in (value, other):
            if ordered or (value == _NULL and other != _NULL):
                return _UNKNOWN
            equal = value == other
        elif value == _STRING and other == _STRING:
            if ordered:
                if not self._read_double(at, size, literal):
                    return _FAILED
                real = self._double
                if not self._read_double(self._at, self._size, self._literal):
                    return _FAILED
                return _holds(kind, _compare_doubles(real, self._double))
            equal = self._is_text(at, size, literal, self._at, self._size, self._literal)
        elif value == _BOOLEAN:
            if other == _STRING:
                return _FAILED
            equal = other == _BOOLEAN and number == self._long
        elif other == _BOOLEAN:
            equal = value == _STRING and self._is_true(at, size, literal) == self._long
        else:
            return self._compare_numbers(kind, value, number, real, at, size, literal, other)
        return _TRUE if equal == (kind == _EQUAL) else _FALSE

    def _compare_numbers(
        self, kind: int, value: int, number: int, real: float, at: int, size: int, literal: int, other: int
    ) -> int:
        """Two numbers, or one and a string, which is read as a number of the other's type. The other one is in hand."""
        if value == _STRING:
            value = other
            if other == _DOUBLE:
                other_real = self._double
                if not self._read_double(at, size, literal):
                    return _FAILED
                real = self._double
                self._double = other_real
            else:
                other_number = self._long
                if not self._read_integer(at, size, literal, other == _LONG):
                    return _FAILED
                number = self._long
                self._long = other_number
        elif other == _STRING:
            other = value
            if value == _DOUBLE:
                if not self._read_double(self._at, self._size, self._literal):
                    return _FAILED
            elif not self._read_integer(self._at, self._size, self._literal, value == _LONG):
                return _FAILED
        if _DOUBLE in (value, other):
            if value != _DOUBLE:
                real = _to_double(number)
            if other != _DOUBLE:
                self._double = _to_double(self._long)
            return _holds(kind, _compare_doubles(real, self._double))
        return _holds(kind, (number > self._long) - (number < self._long))

    # -- values -----------------------------------------------------------------------------------------------------------

    def _load(self, node: int) -> int:
        """Takes a node's value in hand; its kind, or _NO_VALUE if there is none to be had."""
        place = 4 * node
        kind = self._nodes[place]
        first = self._nodes[place + 1]
        if kind == _PROPERTY:
            if self._value_length[first] < 0:
                return _NULL
            self._at = self._value_start[first]
            self._size = self._value_length[first]
            self._literal = -1
            return _STRING
        if kind in (_INT, _LONG):
            self._long = self._longs[first]
            return kind
        if kind == _DOUBLE:
            self._double = self._doubles[first]
            return kind
        if kind == _STRING:
            self._at = self._text_start[first]
            self._size = self._text_length[first]
            self._literal = first
            return kind
        if kind == _NEGATED:
            value = self._load(first)
            if value in (_INT, _LONG):
                self._long = -self._long
            elif value == _DOUBLE:
                self._double = -self._double
            elif value != _NO_VALUE:
                value = _NULL  # compat: what is no number has no negative
            return value
        truth = self._truth(node)
        if truth == _FAILED:
            return _NO_VALUE
        if truth == _UNKNOWN:
            return _NULL
        self._long = truth
        return _BOOLEAN

    def _is_text(self, at: int, size: int, literal: int, other_at: int, other_size: int, other_literal: int) -> bool:
        """Whether two strings are the same text; a string is a property's value, or the literal of a number."""
        one = self._data if literal < 0 else self._pool
        other = self._data if other_literal < 0 else self._pool
        if size == other_size:
            same = True
            for i in range(size):
                if one[at + i] != other[other_at + i]:
                    same = False
                    break
            if same:
                return True
        if (literal < 0 or self._loose[literal]) and (other_literal < 0 or self._loose[other_literal]):
            return self._text(at, size, literal) == self._text(other_at, other_size, other_literal)
        return False

    def _is_true(self, at: int, size: int, literal: int) -> int:
        """1 if the string is `true` in any case, else 0."""
        if size != 4:
            return 0
        text = self._data if literal < 0 else self._pool
        return int(
            text[at] | 32 == 116 and text[at + 1] | 32 == 114 and text[at + 2] | 32 == 117 and text[at + 3] | 32 == 101
        )

    def _text(self, at: int, size: int, literal: int) -> str:
        text = self._data if literal < 0 else self._pool
        piece = bytes([text[at + i] for i in range(size)])
        return piece.decode(errors="surrogatepass" if literal >= 0 else "replace")

    def _read_integer(self, at: int, size: int, literal: int, wide: bool) -> bool:
        """Takes the integer in a string in hand; False if it is none, or too large for 32 bits, or 64 if `wide`."""
        text = self._data if literal < 0 else self._pool
        number = 0
        i = at
        end = at + size
        if size > 0 and (text[at] == 45 or text[at] == 43):
            i += 1
        if i == end:
            return False
        plain = end - i <= _PLAIN_DIGITS
        while plain and i < end:
            digit = text[i]
            if digit < 48 or digit > 57:
                if digit < 128:
                    return False
                plain = False
            number = number * 10 + (digit - 48)
            i += 1
        if plain:
            if text[at] == 45:
                number = -number
            if not wide and (number < -2147483648 or number > 2147483647):
                return False
            self._long = number
            return True
        slow = read_integer(self._text(at, size, literal), LONG_MIN if wide else INT_MIN, LONG_MAX if wide else INT_MAX)
        if slow is None:
            return False
        self._long = slow
        return True

    def _read_double(self, at: int, size: int, literal: int) -> bool:
        """Takes the double in a string in hand; False if it is none."""
        text = self._data if literal < 0 else self._pool
        mantissa = 0
        digits = 0
        fraction = 0
        i = at
        end = at + size
        if size > 0 and (text[at] == 45 or text[at] == 43):
            i += 1
        pointed = False
        plain = end > i
        while i < end:
            letter = text[i]
            if 48 <= letter <= 57:
                mantissa = mantissa * 10 + (letter - 48)
                digits += 1
                if pointed:
                    fraction += 1
            elif letter == 46 and not pointed:
                pointed = True
            else:
                plain = False
            if not plain or digits > _EXACT_DIGITS:
                plain = False
                break
            i += 1
        if plain and digits > 0:
            real = _to_double(mantissa) / self._powers[fraction]
            self._double = -real if text[at] == 45 else real
            return True
        slow = read_double(self._text(at, size, literal))
        if slow is None:
            return False
        self._double = slow
        return True


def _negation(truth: int) -> int:
    return _TRUE - truth if truth in (_TRUE, _FALSE) else truth


def _holds(kind: int, sign: int) -> int:
    """Whether a comparison holds of two values of which the first is less (-1), equal (0) or greater (1)."""
    if kind == _EQUAL:
        holds = sign == 0
    elif kind == _NOT_EQUAL:
        holds = sign != 0
    elif kind == _LESS:
        holds = sign < 0
    elif kind == _LESS_EQUAL:
        holds = sign <= 0
    elif kind == _GREATER:
        holds = sign > 0
    else:
        holds = sign >= 0
    return _TRUE if holds else _FALSE


def _to_double(number: int) -> float:
    if cython.compiled:
        return number
    return float(number)


def _compare_doubles(one: float, other: float) -> int:
    """# compat: as Java orders doubles: NaN is equal to itself and greater than all else, -0.0 is less than 0.0."""
    if one < other:
        return -1
    if one > other:
        return 1
    if one == other:
        return 0 if one != 0 else _sign_of_zero(one) - _sign_of_zero(other)
    return (one != one) - (other != other)  # noqa: PLR0124  (only NaN differs from itself)


def _sign_of_zero(zero: float) -> int:
    return -1 if str(zero) == "-0.0" else 0
