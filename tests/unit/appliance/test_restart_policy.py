from appliance.restart_policy import (
    FIRST_SECONDS_MS,
    LONGEST_PAUSE_AFTER_KILL_MS,
    LONGEST_PAUSE_MS,
    MOST_FAILURES,
    MOST_KILLS,
    GiveUp,
    Restart,
    decide_restart,
)


def live_shortly(*, was_killed: bool) -> list[Restart | GiveUp]:
    decisions: list[Restart | GiveUp] = []
    short_lives = 0
    while not decisions or isinstance(decisions[-1], Restart):
        decision = decide_restart(lived_ms=10, short_lives_before=short_lives, was_killed=was_killed)
        short_lives = decision.short_lives
        decisions.append(decision)
    return decisions


def test_a_role_that_had_lived_comes_back_at_once() -> None:
    assert decide_restart(lived_ms=FIRST_SECONDS_MS, short_lives_before=4, was_killed=False) == Restart(0, 0)


def test_pauses_grow_and_end_with_giving_up() -> None:
    *restarts, last = live_shortly(was_killed=False)
    pauses = [restart.pause_ms for restart in restarts if isinstance(restart, Restart)]
    assert pauses == [0, 100, 200, 400, 800]
    assert last == GiveUp(MOST_FAILURES)


def test_a_role_killed_from_outside_gets_more_attempts_and_pauses_stay_bounded() -> None:
    *restarts, last = live_shortly(was_killed=True)
    pauses = [restart.pause_ms for restart in restarts if isinstance(restart, Restart)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_AFTER_KILL_MS
    assert last == GiveUp(MOST_KILLS)


def test_one_long_life_makes_up_for_short_ones() -> None:
    decision = decide_restart(lived_ms=FIRST_SECONDS_MS + 1, short_lives_before=MOST_FAILURES, was_killed=False)
    assert decision == Restart(0, 0)


def test_an_expendable_role_is_started_again_however_often_it_dies() -> None:
    for was_killed, longest_ms in ((False, LONGEST_PAUSE_MS), (True, LONGEST_PAUSE_AFTER_KILL_MS)):
        decision = decide_restart(lived_ms=10, short_lives_before=9_999, was_killed=was_killed, may_give_up=False)
        assert decision == Restart(longest_ms, 10_000)
