"""When a role that died is started again, and when the supervisor stops trying.

Only numbers go in and come out. A role that had lived for a while comes back at once; one that dies within its first
seconds comes back after pauses that grow, and after the last of them not at all.

A role that was killed from outside (SIGKILL: an operator, a test, the kernel short of memory) gets more attempts and shorter
pauses than one that failed by itself: it did nothing wrong, and what killed it is likely to pass.
"""

from dataclasses import dataclass
from typing import Final

FIRST_SECONDS_MS: Final = 3_000  # limit: a role is running within one second; three leave room for a slow machine
FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 5_000
LONGEST_PAUSE_AFTER_KILL_MS: Final = 500  # limit: a client's retry should still find it back
MOST_FAILURES: Final = 6  # limit: pauses of 0.1 to 1.6 s, about 3 s of trying besides the attempts themselves
MOST_KILLS: Final = 30  # limit: about fifteen seconds of pauses, besides the lives themselves


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after `pause_ms`; `short_lives` goes into the next decision."""

    pause_ms: int
    short_lives: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not start it again; end the appliance."""

    short_lives: int


def decide_restart(
    *, lived_ms: int, short_lives_before: int, was_killed: bool, may_give_up: bool = True
) -> Restart | GiveUp:
    """What to do with a role that just died unasked, given how many short lives in a row it has behind it."""
    if lived_ms >= FIRST_SECONDS_MS:
        return Restart(0, 0)
    short_lives = short_lives_before + 1
    if may_give_up and short_lives >= (MOST_KILLS if was_killed else MOST_FAILURES):
        return GiveUp(short_lives)
    if short_lives == 1:
        return Restart(0, 1)
    longest_ms = LONGEST_PAUSE_AFTER_KILL_MS if was_killed else LONGEST_PAUSE_MS
    return Restart(min(FIRST_PAUSE_MS << min(short_lives - 2, MOST_KILLS), longest_ms), short_lives)
