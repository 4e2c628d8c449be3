"""The syntax tree of an SQL92 expression, and its type checks.

The rules are RocketMQ's, odd as some are: a program that it accepts is accepted here, and one that it refuses is refused.
"""

from enum import IntEnum

from msgspec import Struct, field

from store.filter.java_number import INT_MAX
from store.filter.refusal import RefusedExpression

DEPTH_MAX = 200  # limit: trees are walked by recursion; RocketMQ takes what its stack holds, some 500 levels


class Kind(IntEnum):
    """Kinds of nodes. Those up to CAST are true, false or unknown; the others are values."""

    TRUTH = 0
    AND = 1
    OR = 2
    NOT = 3
    EQUAL = 4
    NOT_EQUAL = 5
    LESS = 6
    LESS_EQUAL = 7
    GREATER = 8
    GREATER_EQUAL = 9
    IS_NULL = 10
    IS_NOT_NULL = 11
    IN = 12
    NOT_IN = 13
    BETWEEN = 14
    NOT_BETWEEN = 15
    CAST = 16
    PROPERTY = 17
    INT = 18
    LONG = 19
    DOUBLE = 20
    STRING = 21
    NEGATED = 22


_ORDERINGS = frozenset({Kind.LESS, Kind.LESS_EQUAL, Kind.GREATER, Kind.GREATER_EQUAL})
_NUMBERS = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})
_CONSTANTS = _NUMBERS | {Kind.STRING, Kind.TRUTH}


class Node(Struct, eq=False):
    """A part of an expression. `value`: a constant's, a property's name, the strings of IN; None as a TRUTH is NULL."""

    kind: Kind
    position: int
    parts: "list[Node]" = field(default_factory=list)
    value: bool | int | float | str | tuple[str, ...] | None = None
    depth: int = 1

    def __post_init__(self) -> None:
        """Raises RefusedExpression if it is nested too deeply."""
        for part in self.parts:
            self._cover(part)

    def add(self, part: "Node") -> None:
        """One more part. Raises RefusedExpression."""
        self.parts.append(part)
        self._cover(part)

    def _cover(self, part: "Node") -> None:
        self.depth = max(self.depth, 1 + part.depth)
        if self.depth > DEPTH_MAX:
            raise RefusedExpression(f"the expression is nested more than {DEPTH_MAX} levels deep", part.position)

    @property
    def is_truth(self) -> bool:
        """Whether it is true, false or unknown, and no other value."""
        return self.kind <= Kind.CAST

    @property
    def is_null(self) -> bool:
        """Whether it is the word NULL."""
        return self.kind is Kind.TRUTH and self.value is None


def as_truth(node: Node) -> Node:
    """The node where only a truth may be.

    # compat: a property may be there too and is never true, since properties are strings: unknown where it is missing, else false.
    """
    if node.is_truth:
        return node
    if node.kind is Kind.PROPERTY:
        return Node(Kind.CAST, node.position, [node])
    raise RefusedExpression("expected a condition, found a value", node.position)


def combine(kind: Kind, left: Node, right: Node) -> Node:
    """AND or OR of two; a longer chain is one node."""
    if left.kind is not kind:
        left = Node(kind, left.position, [as_truth(left)])
    left.add(as_truth(right))
    return left


def compare(kind: Kind, left: Node, right: Node) -> Node:
    """A comparison of two."""
    if kind in _ORDERINGS:
        for operand in (left, right):
            _check_ordered(operand)
    else:
        for operand in (left, right):
            if operand.is_null:
                raise RefusedExpression("a comparison with NULL is never true: use IS NULL", operand.position)
        # compat: only this way round. The other is accepted, and false.
        if left.kind is Kind.TRUTH and right.kind in _CONSTANTS and right.kind is not Kind.TRUTH:
            raise RefusedExpression("TRUE and FALSE cannot be compared with a constant of another type", left.position)
    return Node(kind, left.position, [left, right])


def between(value: Node, low: Node, high: Node, negated: bool) -> Node:
    """`value` within two bounds, or outside them.

    # compat: the order of constant bounds is looked at, but not that of negative ones, which are no constants, nor with NOT.
    """
    for operand in (value, low, high):
        _check_ordered(operand)
    if negated:
        return Node(Kind.NOT_BETWEEN, value.position, [value, low, high])
    if low.kind in _NUMBERS and high.kind in _NUMBERS and _is_less(high, low):
        raise RefusedExpression("the first bound of BETWEEN is greater than the second", low.position)
    return Node(Kind.BETWEEN, value.position, [value, low, high])


def contains(value: Node, strings: list[str], negated: bool) -> Node:
    """Whether a property is one of some strings."""
    if value.kind is not Kind.PROPERTY:
        raise RefusedExpression("the left side of IN must be a property name", value.position)
    return Node(Kind.NOT_IN if negated else Kind.IN, value.position, [value], tuple(dict.fromkeys(strings)))


def integer(value: int, position: int) -> Node:
    """An integer. # compat: one that fits 32 bits is one of 32 bits, even if it was written with an L."""
    return Node(Kind.INT if value <= INT_MAX else Kind.LONG, position, value=value)


def _check_ordered(operand: Node) -> None:
    """Only numbers have an order; and properties, which may be numbers."""
    if operand.is_truth:
        raise RefusedExpression("conditions cannot be compared with < or >", operand.position)
    if operand.kind is Kind.STRING:
        raise RefusedExpression("strings cannot be compared with < or >", operand.position)


def _is_less(one: Node, other: Node) -> bool:
    assert isinstance(one.value, int | float)
    assert isinstance(other.value, int | float)
    if Kind.DOUBLE in (one.kind, other.kind):
        return float(one.value) < float(other.value)
    return one.value < other.value
