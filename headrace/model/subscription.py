"""A consumer group's subscription to a topic: all messages, those with certain tags, or those that an expression or function at the broker selects."""

import time
from typing import Final

from msgspec import Struct, field

from headrace.model.java_hash import tags_code

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"
PYTHON: Final = "PYTHON"
"""The expression is the name of a filter function at the broker: Headrace's own type, unknown to Apache's brokers."""


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression of this type is a list of tags: the type TAG, or none, which old clients send."""
    return not expression_type or expression_type == TAG


class SubscriptionData(Struct, frozen=True):
    """A subscription as in heartbeats.

    `sub_version` (ms) grows with each change: the broker keeps the latest. Brokers compare `code_set`, the hashes of the tags; clients then compare
    `tags_set`. Both are empty for `*` and for the other types.
    """

    topic: str
    sub_string: str = ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    expression_type: str = TAG
    class_filter_mode: bool = False

    @classmethod
    def build(
        cls,
        topic: str,
        expression: str | None = None,
        expression_type: str | None = TAG,
        sub_version: int | None = None,
    ) -> "SubscriptionData":
        """Returns the subscription for an expression: tags joined by `||`, or as `expression_type` defines it. None or `*` means all (remoting spec 4.10).

        Raises ValueError for a list of tags that contains none.
        """
        version = time.time_ns() // 1_000_000 if sub_version is None else sub_version
        if not is_tag_type(expression_type):
            return cls(topic, expression or "", sub_version=version, expression_type=expression_type or TAG)
        if not expression or expression == ALL:
            return cls(topic, sub_version=version)
        pieces = expression.split("||")
        if not any(pieces):
            raise ValueError(f"the expression {expression!r} contains no tag")
        tags = frozenset(tag for piece in pieces if (tag := piece.strip()))
        return cls(topic, expression, tags, frozenset(map(tags_code, tags)), version)

    @property
    def is_all(self) -> bool:
        """Whether it includes all messages of the topic."""
        return is_tag_type(self.expression_type) and self.sub_string == ALL
