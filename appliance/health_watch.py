"""Decides what to do about a role from its heartbeats.

A role sends several heartbeats per second. If it is silent for longer than `heartbeatTimeout`, outside a long
call that it has announced, it is made to dump its stacks (SIGABRT), and killed if it is still alive shortly afterwards.

A pure function of numbers. Times are monotonic milliseconds.
"""

import enum
from typing import Final

ABORT_GRACE_MS: Final = 2_000  # limit: writing the stacks of a few threads takes milliseconds


class Verdict(enum.Enum):
    """What the supervisor must do now."""

    ALIVE = "alive"
    DUMP_STACKS = "dump stacks"
    KILL = "kill"


def judge(
    now_ms: int, *, last_sign_ms: int, long_call_until_ms: int, timeout_ms: int, aborted_at_ms: int | None
) -> Verdict:
    """The verdict on one role.

    `last_sign_ms` is the latest of its heartbeat, its fork, and the moment the supervisor itself came back from a stall;
    `long_call_until_ms` is 0 outside a long call; `aborted_at_ms` says when it was last told to dump its stacks.
    """
    if aborted_at_ms is not None:
        return Verdict.KILL if now_ms - aborted_at_ms >= ABORT_GRACE_MS else Verdict.ALIVE
    if now_ms - last_sign_ms <= timeout_ms or now_ms <= long_call_until_ms:
        return Verdict.ALIVE
    return Verdict.DUMP_STACKS
