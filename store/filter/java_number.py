"""Numbers as Java reads them out of strings: what a property's value is when it is compared with a number.

    Integer.valueOf, Long.valueOf    a sign, then decimal digits of any script in the basic plane; no spaces
    Double.valueOf                   spaces around, a sign, NaN, Infinity, decimal or hexadecimal digits, a final f or d

The compiled program reads plain digits itself and comes here with all else.
"""

import re
from typing import Final

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_DIGITS_MAX = 4000  # limit: more than any number has, and Python refuses to read longer ones

# What Java's String.trim deletes: everything up to the space.
_TRIMMED = "".join(map(chr, range(0x21)))

_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_NAMED = re.compile(r"([+-]?)(NaN|Infinity)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def read_integer(text: str, least: int, most: int) -> int | None:
    """The integer in a string; None if Java's Integer.valueOf (or Long's, by the bounds) would throw."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if least <= number <= most else None


def read_double(text: str) -> float | None:
    """The double in a string; None if Java's Double.valueOf would throw."""
    text = text.strip(_TRIMMED)
    named = _NAMED.fullmatch(text)
    if named:
        return float(named[1] + ("nan" if named[2] == "NaN" else "inf"))
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return float(decimal[1])
    hexadecimal = _HEXADECIMAL.fullmatch(text)
    if hexadecimal:
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return float("-inf") if text[0] == "-" else float("inf")
    return None
