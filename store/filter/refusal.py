"""Why an expression is rejected, and where."""

from typing import NamedTuple

_EXCERPT = 24


class Refusal(NamedTuple):
    """What is wrong with an expression. `line` and `column` count from 1; `excerpt` is what is there."""

    message: str
    line: int
    column: int
    excerpt: str

    def __str__(self) -> str:
        """One sentence for whoever wrote the expression."""
        near = f" near {self.excerpt!r}" if self.excerpt else " at its end"
        return f"{self.message}, line {self.line}, column {self.column}{near}"


class RefusedExpression(Exception):  # noqa: N818  (it says what happened; a Refusal comes out of it)
    """Carries what is wrong from where it is seen to `compile_expression`, which answers with a Refusal. Goes no further."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position

    def in_text(self, text: str) -> Refusal:
        """The refusal, with the position counted in lines and columns."""
        before = text[: self.position]
        line_start = before.rfind("\n") + 1
        return Refusal(
            self.message,
            before.count("\n") + 1,
            self.position - line_start + 1,
            text[self.position : self.position + _EXCERPT],
        )
