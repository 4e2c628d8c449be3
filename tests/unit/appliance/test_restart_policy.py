import pytest

from appliance.restart_policy import (
    MAX_BACKOFF_MS,
    MAX_EXPENDABLE_BACKOFF_MS,
    MAX_START_FAILURES,
    MAX_START_KILLS,
    STABLE_AFTER_MS,
    GiveUp,
    Restart,
    decide_restart,
)


def live_shortly(
    lives: int, *, was_killed: bool, was_ever_ready: bool, is_expendable: bool = False
) -> list[Restart | GiveUp]:
    """The decisions about a role that dies at once `lives` times in a row, until the appliance gives up."""
    decisions: list[Restart | GiveUp] = []
    consecutive_early_exits = 0
    while len(decisions) < lives and not (decisions and isinstance(decisions[-1], GiveUp)):
        decision = decide_restart(
            served_ms=0,
            early_exits_before=consecutive_early_exits,
            was_killed=was_killed,
            was_ever_ready=was_ever_ready,
            is_expendable=is_expendable,
        )
        consecutive_early_exits = decision.consecutive_early_exits
        decisions.append(decision)
    return decisions


def backoffs(decisions: list[Restart | GiveUp]) -> list[int]:
    return [decision.backoff_ms for decision in decisions if isinstance(decision, Restart)]


def test_role_that_served_for_a_while_restarts_at_once() -> None:
    decision = decide_restart(
        served_ms=STABLE_AFTER_MS, early_exits_before=MAX_START_FAILURES, was_killed=False, was_ever_ready=True
    )
    assert decision == Restart(0, 0)


def test_backoff_doubles_until_the_appliance_gives_up_on_a_role_never_ready() -> None:
    *restarts, last = live_shortly(1000, was_killed=False, was_ever_ready=False)
    assert backoffs(restarts) == [0, 100, 200, 400, 800]
    assert last == GiveUp(MAX_START_FAILURES)


def test_backoff_grows_more_slowly_after_external_kills() -> None:
    *restarts, last = live_shortly(1000, was_killed=True, was_ever_ready=False)
    assert backoffs(restarts)[:14] == [0, *[100] * 6, *[200] * 6, 400]
    assert last == GiveUp(MAX_START_KILLS)


@pytest.mark.parametrize("was_killed", [False, True])
def test_role_that_was_ready_is_always_restarted(was_killed: bool) -> None:
    decisions = live_shortly(2000, was_killed=was_killed, was_ever_ready=True)
    assert len(backoffs(decisions)) == 2000
    assert backoffs(decisions) == sorted(backoffs(decisions))
    assert backoffs(decisions)[-1] == MAX_BACKOFF_MS


@pytest.mark.parametrize("was_killed", [False, True])
def test_expendable_role_is_always_restarted_with_less_backoff(was_killed: bool) -> None:
    decisions = live_shortly(2000, was_killed=was_killed, was_ever_ready=False, is_expendable=True)
    assert len(backoffs(decisions)) == 2000
    assert backoffs(decisions)[-1] == MAX_EXPENDABLE_BACKOFF_MS
