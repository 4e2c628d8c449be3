"""Rules: what is watched, from which value on, for how long. Data only."""

import enum
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from web.errors import Invalid


class What(enum.Enum):
    """What a rule watches; its subjects, and the unit of its threshold."""

    LAG_MESSAGES = "lag-messages"
    """Groups: messages behind."""
    LAG_TIME = "lag-time"
    """Groups: seconds behind."""
    DEAD_LETTERS = "dead-letters"
    """Groups: new dead letters within 10 minutes."""
    DISK_DAYS = "disk-days"
    """Brokers: days until writes are refused; fires below the threshold."""
    BROKER_DOWN = "broker-down"
    """Brokers: 1 if it does not answer."""
    WRITES_REFUSED = "writes-refused"
    """Brokers: 1 if its store refuses all messages: its disk is full, or a write or sync failed. Not if an operator stopped writes."""
    ROLE_RESTARTS = "role-restarts"
    """Roles: restarts within 15 minutes."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule. It fires for each subject whose value passes the threshold for `for_s` seconds."""

    name: str
    what: What
    threshold: float
    for_s: int = 0
    subjects: str = "*"
    """A pattern of names: `*`, `billing`, `order-*`."""
    channels: tuple[str, ...] = ("log",)
    enabled: bool = True

    def applies_to(self, subject: str) -> bool:
        """Whether the pattern fits."""
        return fnmatchcase(subject, self.subjects)

    def is_passed_by(self, value: float) -> bool:
        """Whether the value is bad."""
        return value < self.threshold if self.what is What.DISK_DAYS else value >= self.threshold


DEFAULT_RULES: Final = (
    Rule("broker down", What.BROKER_DOWN, 1, for_s=60),
    Rule("broker refuses messages", What.WRITES_REFUSED, 1),
    Rule("group time lag", What.LAG_TIME, 300, for_s=300),
    Rule("group lag", What.LAG_MESSAGES, 100_000, for_s=300),
    Rule("new dead letters", What.DEAD_LETTERS, 1),
    Rule("disk nearly full", What.DISK_DAYS, 3, for_s=1_800),
    Rule("role restarts", What.ROLE_RESTARTS, 2),
)
"""The rules of a console whose administrator has not changed them. They write to the log only."""


def problem_of(rules: "tuple[Rule, ...]", channels: "frozenset[str]") -> Invalid | None:
    """Why these rules cannot be used; None if they can."""
    names = [rule.name for rule in rules]
    for rule in rules:
        if not 0 < len(rule.name) <= _MOST_TEXT or not 0 < len(rule.subjects) <= _MOST_TEXT:
            return Invalid(
                "a rule's name and pattern must have 1 to {most} characters: {rule}",
                most=_MOST_TEXT,
                rule=repr(rule.name[:80]),
            )
        if not (0 <= rule.threshold < _MOST_VALUE and 0 <= rule.for_s <= _MOST_FOR_S):
            return Invalid(
                "rule {rule}: the threshold must not be negative, and the duration must be at most {most} seconds",
                rule=repr(rule.name),
                most=_MOST_FOR_S,
            )
        unknown = set(rule.channels) - channels
        if unknown:
            return Invalid(
                "rule {rule}: unknown channel {channels}", rule=repr(rule.name), channels=", ".join(sorted(unknown))
            )
    if len(set(names)) < len(names):
        return Invalid("two rules have the same name")
    if len(rules) > _MOST_RULES:
        return Invalid("too many rules: {count}; the maximum is {most}", count=len(rules), most=_MOST_RULES)
    return None


_MOST_RULES: Final = 200  # limit: all are evaluated every ten seconds
_MOST_TEXT: Final = 255
_MOST_VALUE: Final = 1e15
_MOST_FOR_S: Final = 86_400
