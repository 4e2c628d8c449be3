"""Compiles SQL92 expressions to programs, each once."""

from functools import lru_cache
from typing import Final

from store.filter.program import UNKNOWN, Program
from store.filter.refusal import Refusal, RefusedExpression
from store.filter.sql_parser import parse
from store.filter.sql_tree import Kind, Node

LENGTH_MAX: Final = 1 << 18  # limit: characters; a consumer sends its expression with every heartbeat

_CACHED = 100  # compat: RocketMQ keeps this many


@lru_cache(maxsize=_CACHED)
def compile_expression(text: str) -> Program | Refusal:
    """The program of an expression, or why there is none. The same object as long as it is remembered."""
    if len(text) > LENGTH_MAX:
        return Refusal(f"the expression has {len(text)} characters; the limit is {LENGTH_MAX}", 1, LENGTH_MAX + 1, "")
    try:
        tree = parse(text)
    except RefusedExpression as refused:
        return refused.in_text(text)
    return _Writer().write(tree)


class _Writer:
    """Lays a tree out as a program's lists."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, int, int]] = []
        self._links: list[int] = []
        self._longs: list[int] = []
        self._doubles: list[float] = []
        self._texts: list[str] = []
        self._slots: dict[str, int] = {}

    def write(self, tree: Node) -> Program:
        """The whole program."""
        self._put(tree)
        return Program(self._nodes, self._links, self._longs, self._doubles, self._texts, list(self._slots))

    def _put(self, node: Node) -> int:
        """Writes a node behind its parts; returns its place."""
        first, second, third = self._numbers(node)
        self._nodes.append((int(node.kind), first, second, third))
        return len(self._nodes) - 1

    def _numbers(self, node: Node) -> tuple[int, int, int]:
        kind, value = node.kind, node.value
        if kind in {Kind.PROPERTY, Kind.CAST, Kind.IN, Kind.NOT_IN}:
            name = node.parts[0].value if node.parts else value
            slot = self._slots.setdefault(str(name), len(self._slots))
            strings = value if isinstance(value, tuple) else ()
            self._texts.extend(strings)
            return slot, len(self._texts) - len(strings), len(strings)
        if kind in {Kind.AND, Kind.OR}:
            places = [self._put(part) for part in node.parts]
            self._links.extend(places)
            return len(self._links) - len(places), len(places), 0
        if kind is Kind.TRUTH:
            return UNKNOWN if value is None else int(value is True), 0, 0
        if kind is Kind.STRING:
            self._texts.append(str(value))
            return len(self._texts) - 1, 0, 0
        if kind is Kind.DOUBLE:
            assert isinstance(value, float)
            self._doubles.append(value)
            return len(self._doubles) - 1, 0, 0
        if kind in {Kind.INT, Kind.LONG}:
            assert isinstance(value, int)
            self._longs.append(value)
            return len(self._longs) - 1, 0, 0
        first, second, third, *_ = [*(self._put(part) for part in node.parts), 0, 0, 0]
        return first, second, third
