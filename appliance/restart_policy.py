"""When a role that died is restarted, and when the supervisor gives up. `role_supervisor` carries it out.

A pure function of numbers. A role that had served for a while is restarted at once. One that died earlier is restarted
after a back-off, which doubles with each death. The supervisor gives up only on a role that was never ready: one that
has been serving is restarted for as long as it takes, because a single client's request may be the cause.

After a SIGKILL (by an operator, a test, or the kernel when memory is short) the back-off grows more slowly: the role is not at fault,
and the cause is likely to be temporary.
"""

from typing import Final

from msgspec import Struct

STABLE_AFTER_MS: Final = (
    3_000  # limit: a role that served this long is not affected by the cause of its predecessor's death
)
FIRST_BACKOFF_MS: Final = 100
MAX_BACKOFF_MS: Final = 30_000
MAX_EXPENDABLE_BACKOFF_MS: Final = 5_000  # limit: a filter function that dies must not delay the others for long
FORK_BACKOFF_MS: Final = 5_000  # limit: the system has no room for a process; retrying faster does not help
KILLS_PER_DOUBLING: Final = 6  # limit: after a dozen kills in a row, a client's retry still succeeds
MAX_START_FAILURES: Final = 6  # limit: back-offs of 0.1 to 0.8 s, about 2 s in total besides the attempts themselves
MAX_START_KILLS: Final = 30  # limit: about twenty seconds of back-off, besides the attempts themselves


class Restart(Struct, frozen=True):
    """Restart it after `backoff_ms`; `consecutive_early_exits` is an input of the next decision."""

    backoff_ms: int
    consecutive_early_exits: int


class GiveUp(Struct, frozen=True):
    """Do not restart it: its broker, or the whole appliance, has failed."""

    consecutive_early_exits: int


def decide_restart(
    *, served_ms: int, early_exits_before: int, was_killed: bool, was_ever_ready: bool, is_expendable: bool = False
) -> Restart | GiveUp:
    """What to do with a role that died without being stopped.

    `served_ms` is how long it had been ready, 0 if it never was in this life; `early_exits_before` counts the lives before it
    that ended within `STABLE_AFTER_MS`, in a row; `was_ever_ready`: in this life or in one before.
    """
    if served_ms >= STABLE_AFTER_MS:
        return Restart(0, 0)
    consecutive_early_exits = early_exits_before + 1
    if not (was_ever_ready or is_expendable) and consecutive_early_exits >= (
        MAX_START_KILLS if was_killed else MAX_START_FAILURES
    ):
        return GiveUp(consecutive_early_exits)
    if consecutive_early_exits == 1:
        return Restart(0, 1)
    longest_ms = MAX_EXPENDABLE_BACKOFF_MS if is_expendable else MAX_BACKOFF_MS
    doublings = (consecutive_early_exits - 2) // (KILLS_PER_DOUBLING if was_killed else 1)
    return Restart(
        min(FIRST_BACKOFF_MS << min(doublings, longest_ms.bit_length()), longest_ms), consecutive_early_exits
    )
