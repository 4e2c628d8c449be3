"""Tokens of an SQL92 expression.

    name       [A-Za-z_$][A-Za-z0-9_$]*       TRUE FALSE NULL NOT AND OR IS IN BETWEEN in any case are keywords
    integer    0 | [1-9][0-9]*[lL]?           no octal, no hexadecimal, and 0 takes no L
    double     1.5  .5  5.  1e3  1.5e-3
    string     '…', in which '' is a quote
    signs      = <> > >= < <= ( ) , + -
    skipped   space, tab, LF, FF, CR; -- to a line's end; /* to */

# compat: the longest word wins, so a comment of two dashes needs the end of a line: without it there are two minus signs.
# compat: what stands beyond the end of an expression is never looked at, but for one word; so words are made when they are needed.
"""

import re
from typing import Final, NamedTuple

from store.filter.refusal import RefusedExpression

NAME: Final = "name"
INTEGER: Final = "integer"
DOUBLE: Final = "double"
STRING: Final = "string"
END: Final = "end"
KEYWORDS: Final = frozenset({"TRUE", "FALSE", "NULL", "NOT", "AND", "OR", "IS", "IN", "BETWEEN"})

_SKIPPED = re.compile(r"(?:[ \t\n\f\r]|--[^\n\r]*[\n\r]|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*")
_WORD = re.compile(
    r"(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<double>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<string>'(?:''|[^'])*')"
    r"|(?P<sign><>|>=|<=|[=><(),+-])"
)


class Token(NamedTuple):
    """A word: `kind` is a keyword in capitals, a sign itself, or one of the constants above; `text` is what is there."""

    kind: str
    text: str
    position: int


class Tokens:
    """Hands out the words of a text. Raises RefusedExpression at what is no word, when its turn comes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._ahead: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The next word (or the one after it), which stays where it is."""
        while len(self._ahead) <= ahead:
            self._ahead.append(self._read())
        return self._ahead[ahead]

    def take(self) -> Token:
        """The next word, which is done with."""
        token = self.peek()
        del self._ahead[0]
        return token

    def _read(self) -> Token:
        skipped = _SKIPPED.match(self._text, self._position)
        start = skipped.end() if skipped else self._position
        if start == len(self._text):
            return Token(END, "", start)
        found = _WORD.match(self._text, start)
        if found is None:
            raise RefusedExpression(f"unexpected character {self._text[start]!r}", start)
        self._position = found.end()
        kind = str(found.lastgroup)
        text = found.group()
        if kind == "sign":
            kind = text
        elif kind == NAME and text.upper() in KEYWORDS:
            kind = text.upper()
        return Token(kind, text, start)
