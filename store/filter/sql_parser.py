"""Reads an SQL92 expression into a tree.

    or     and (OR and)*
    and    equal (AND equal)*
    equal  compared (= compared | <> compared | IS [NOT] NULL)*
    compared  signed (< <= > >= signed | [NOT] BETWEEN signed AND signed | [NOT] IN (string, …))*
    signed  + signed | - signed | NOT signed | constant | name | ( or )

One function reads all levels of operators: it continues as long as the next operator binds as strongly as it was told.
"""

from store.filter import sql_tree as tree
from store.filter.java_number import LONG_MAX
from store.filter.refusal import RefusedExpression
from store.filter.sql_tokens import DOUBLE, END, INTEGER, NAME, STRING, Token, Tokens
from store.filter.sql_tree import DEPTH_MAX, Kind, Node

_OR, _AND, _EQUAL, _COMPARED = range(4)

_BINDS = {
    "OR": _OR, "AND": _AND, "=": _EQUAL, "<>": _EQUAL, "IS": _EQUAL,
    ">": _COMPARED, ">=": _COMPARED, "<": _COMPARED, "<=": _COMPARED,
    "BETWEEN": _COMPARED, "IN": _COMPARED, "NOT": _COMPARED,
}  # fmt: skip

_COMPARISONS = {
    "=": Kind.EQUAL,
    "<>": Kind.NOT_EQUAL,
    ">": Kind.GREATER,
    ">=": Kind.GREATER_EQUAL,
    "<": Kind.LESS,
    "<=": Kind.LESS_EQUAL,
}

_TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(text: str) -> Node:
    """The tree of an expression, which is true, false or unknown. Raises RefusedExpression.

    # compat: what follows a whole expression is not looked at, as long as it begins with a word: `a = 5 whatever` is `a = 5`.
    """
    return tree.as_truth(_Parser(Tokens(text)).expression(_OR))


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0

    def expression(self, binds: int) -> Node:
        """What follows, as far as its operators bind at least so strongly."""
        self._descend()
        left = self._signed()
        before = _COMPARED
        while True:
            operator = self._tokens.peek()
            strength = _BINDS.get(operator.kind, -1)
            # compat: `a IS NULL > 5` ends before the `>`: what binds stronger than the last operator goes to its right side or nowhere.
            if not binds <= strength <= before:
                break
            left = self._operation(left, operator)
            before = strength
        self._depth -= 1
        return left

    def _operation(self, left: Node, operator: Token) -> Node:
        self._tokens.take()
        kind = operator.kind
        if kind == "OR":
            return tree.combine(Kind.OR, left, self.expression(_AND))
        if kind == "AND":
            return tree.combine(Kind.AND, left, self.expression(_EQUAL))
        if kind in {"=", "<>"}:
            return tree.compare(_COMPARISONS[kind], left, self.expression(_COMPARED))
        if kind == "IS":
            return self._is_null(left)
        if kind in _COMPARISONS:
            return tree.compare(_COMPARISONS[kind], left, self._signed())
        negated = kind == "NOT"
        if negated:
            kind = self._expect("BETWEEN", "IN").kind
        return self._between(left, negated) if kind == "BETWEEN" else self._in(left, negated)

    def _is_null(self, left: Node) -> Node:
        if self._expect("NULL", "NOT").kind == "NULL":
            return Node(Kind.IS_NULL, left.position, [left])
        self._expect("NULL")
        return Node(Kind.IS_NOT_NULL, left.position, [left])

    def _between(self, left: Node, negated: bool) -> Node:
        low = self._signed()
        self._expect("AND")
        return tree.between(left, low, self._signed(), negated)

    def _in(self, left: Node, negated: bool) -> Node:
        self._expect("(")
        strings = [_unquote(self._expect(STRING))]
        while self._expect(",", ")").kind == ",":
            strings.append(_unquote(self._expect(STRING)))
        return tree.contains(left, strings, negated)

    def _signed(self) -> Node:
        token = self._tokens.peek()
        if token.kind not in {"+", "-", "NOT"}:
            return self._primary()
        self._tokens.take()
        self._descend()
        operand = self._signed()
        self._depth -= 1
        if token.kind == "-":
            return Node(Kind.NEGATED, token.position, [operand])
        if token.kind == "NOT":
            return Node(Kind.NOT, token.position, [tree.as_truth(operand)])
        return operand

    def _primary(self) -> Node:
        token = self._expect(NAME, INTEGER, DOUBLE, STRING, *_TRUTHS, "(")
        if token.kind == "(":
            inner = self.expression(_OR)
            self._expect(")")
            return inner
        if token.kind == NAME:
            return Node(Kind.PROPERTY, token.position, value=token.text)
        if token.kind == INTEGER:
            number = int(token.text.rstrip("lL")) if len(token.text) <= 20 else LONG_MAX + 1
            if number > LONG_MAX:
                raise RefusedExpression("an integer has more than 64 bits", token.position)
            return tree.integer(number, token.position)
        if token.kind == DOUBLE:
            return _double(token)
        if token.kind == STRING:
            return Node(Kind.STRING, token.position, value=_unquote(token))
        return Node(Kind.TRUTH, token.position, value=_TRUTHS[token.kind])

    def _expect(self, *kinds: str) -> Token:
        token = self._tokens.take()
        if token.kind not in kinds:
            found = "ends" if token.kind == END else f"has {token.text!r}"
            raise RefusedExpression(f"the expression {found} where {_listed(kinds)} is expected", token.position)
        return token

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise RefusedExpression(
                f"the expression is nested more than {DEPTH_MAX} levels deep", self._tokens.peek().position
            )


def _double(token: Token) -> Node:
    number = float(token.text)
    if number == 0:
        # compat: RocketMQ takes zero for a number too small to be a double.
        raise RefusedExpression(
            "a decimal number that is zero, or too small for a double, is not allowed: write 0", token.position
        )
    if number == float("inf"):
        raise RefusedExpression("a number is too large for a double", token.position)
    return Node(Kind.DOUBLE, token.position, value=number)


def _unquote(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _listed(kinds: tuple[str, ...]) -> str:
    if NAME in kinds:
        return "a name, a constant or '('"
    return " or ".join("a string" if kind == STRING else repr(kind) for kind in kinds)
