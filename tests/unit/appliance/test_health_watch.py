import pytest

from appliance.health_watch import ABORT_GRACE_MS, Verdict, judge


@pytest.mark.parametrize(
    ("now_ms", "last_sign_ms", "long_call_until_ms", "aborted_at_ms", "expected"),
    [
        (10_000, 9_900, 0, None, Verdict.ALIVE),
        (10_000, 5_000, 0, None, Verdict.ALIVE),  # just in time
        (10_000, 4_999, 0, None, Verdict.DUMP_STACKS),
        (10_000, 1_000, 10_000, None, Verdict.ALIVE),  # within its announced long call
        (10_000, 1_000, 9_999, None, Verdict.DUMP_STACKS),  # which is overdue
        (10_000, 1_000, 0, 9_000, Verdict.ALIVE),  # it is writing its stacks
        (10_000, 9_999, 0, 10_000 - ABORT_GRACE_MS, Verdict.KILL),
    ],
)
def test_verdict_depends_on_the_time_since_the_last_heartbeat(
    now_ms: int, last_sign_ms: int, long_call_until_ms: int, aborted_at_ms: int | None, expected: Verdict
) -> None:
    verdict = judge(
        now_ms,
        last_sign_ms=last_sign_ms,
        long_call_until_ms=long_call_until_ms,
        timeout_ms=5_000,
        aborted_at_ms=aborted_at_ms,
    )
    assert verdict is expected
