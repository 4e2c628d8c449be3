# cython: wraparound=False, cdivision=True
"""Pieces of JSON headers as the hot paths read them: plain strings and numbers, in place.

Compiled together with its callers (types in json_scan.pxd). What is not plain is said to be `BAD` or -1, and the frame goes
the plain way.
"""

BAD = -(1 << 62)
"""No number of those that are read here."""


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
    """Where the string whose first character is at `at` ends: its quote; -1 if it has an escape or no end."""
    while at < end:
        if p[at] == 34:
            return at
        if p[at] == 92:
            return -1
        at += 1
    return -1
