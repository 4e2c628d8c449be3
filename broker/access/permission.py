"""Permissions of an account on a topic or group: DENY, PUB, SUB and both."""

from enum import IntFlag
from typing import Final


class Permission(IntFlag):
    """What an account may do. DENY wins over everything else."""

    DENY = 1
    PUB = 4
    SUB = 8

    def includes(self, needed: "Permission") -> bool:
        """Whether an account with this permission may do what needs `needed`."""
        return not self & Permission.DENY and bool(self & needed)

    @property
    def text(self) -> str:
        """The word in an ACL file."""
        return "PUB|SUB" if self == PUB_SUB else str(self.name)


PUB_SUB: Final = Permission.PUB | Permission.SUB

WORDS: Final = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": PUB_SUB,
    "SUB|PUB": PUB_SUB,
}


def parse_permission(word: str | None) -> Permission:
    """The permission that a word means; DENY if there is none or it is unknown, as in RocketMQ."""
    return Permission.DENY if word is None else WORDS.get(word.strip(), Permission.DENY)
