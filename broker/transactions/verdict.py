"""Decides what to do with the half message at the head of its queue. Pure functions (store spec 11.5).

Times are ms. Every rule, and the order of the rules, is RocketMQ's, because the times and the number of checks depend on it.
"""

from collections.abc import Container
from enum import Enum, auto

from msgspec import Struct

from headrace.model import properties
from headrace.model.message import MessageExt


class Verdict(Enum):
    """What to do about a half message."""

    DISCARD = auto()
    """It was checked too often, or is too old: discard it."""
    STOP = auto()
    """It is too recent, as are all after it: the round ends."""
    RESOLVED = auto()
    """It is a later copy of one that is committed or rolled back."""
    PUT_BACK = auto()
    """Its own immunity time is not over: store it again for later."""
    CHECK = auto()
    """Ask its producer."""
    READ_OPS = auto()
    """There may be a later op message for it: read more op messages first."""


class Rules(Struct, frozen=True):
    """The broker's settings, times in ms."""

    timeout_ms: int
    most_checks: int
    reserved_ms: int
    """Age at which a half message is discarded, because its record is about to expire."""


class Ops(Struct, frozen=True):
    """The op messages read last; `last_born_ms` is None if there were none."""

    last_born_ms: int | None


def check_times(half: MessageExt) -> int:
    """The number of checks, including this one."""
    text = half.properties.get(properties.TRANSACTION_CHECK_TIMES)
    return 1 if text is None else _whole(text) + 1


def judge(
    half: MessageExt,
    resolved: Container[int],
    ops: Ops,
    begin_ms: int,
    now_ms: int,
    rules: Rules,
    can_put_back: bool = True,
) -> Verdict:
    """The verdict on a half message not named by any op message. `resolved`: the queue offsets named by op messages.

    `begin_ms`: when the round began. `can_put_back` is False once PUT_BACK has been tried without success.
    """
    if _is_asked_enough(half, rules):
        return Verdict.DISCARD
    age_ms = now_ms - half.born_timestamp
    if age_ms > rules.reserved_ms:
        return Verdict.DISCARD
    if half.store_timestamp >= begin_ms:
        return Verdict.STOP
    immunity = half.properties.get(properties.CHECK_IMMUNITY_TIME_IN_SECONDS)
    immunity_ms = rules.timeout_ms
    if immunity is None:
        if 0 <= age_ms < immunity_ms:
            return Verdict.STOP
    else:
        seconds = _whole(immunity)
        immunity_ms = rules.timeout_ms if seconds == -1 else seconds * 1000
        if age_ms < immunity_ms:
            verdict = _immune(half, resolved, can_put_back)
            if verdict is not None:
                return verdict
    if ops.last_born_ms is None:
        needs_check = age_ms > immunity_ms
    else:
        needs_check = ops.last_born_ms - begin_ms > rules.timeout_ms
    return Verdict.CHECK if needs_check or age_ms <= -1 else Verdict.READ_OPS


def first_offset(half: MessageExt) -> int | None:
    """The first queue offset of a half message that was stored again, which the producer uses; -1 if it is not a number."""
    text = half.properties.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET)
    return None if text is None else _whole(text)


def _immune(half: MessageExt, resolved: Container[int], can_put_back: bool) -> Verdict | None:
    first = first_offset(half)
    if first == -1:
        return None
    if first is not None and first in resolved:
        return Verdict.RESOLVED
    return Verdict.PUT_BACK if can_put_back else None


def asked_enough(half: MessageExt, rules: Rules) -> dict[str, str]:
    """The properties of a half message that is discarded. # compat: one that is only too old has been counted again."""
    if _is_asked_enough(half, rules):
        return half.properties
    return half.properties | {properties.TRANSACTION_CHECK_TIMES: str(check_times(half))}


def _is_asked_enough(half: MessageExt, rules: Rules) -> bool:
    return properties.TRANSACTION_CHECK_TIMES in half.properties and check_times(half) > rules.most_checks


def advanced(op_offset: int, done: list[int]) -> int:
    """The next offset of op messages: after the processed ones, up to the first gap."""
    for offset in sorted(done):
        if offset != op_offset:
            break
        op_offset += 1
    return op_offset


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else -1
