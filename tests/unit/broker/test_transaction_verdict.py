"""What is to be done about a half message (store spec 11.5): every rule, and their order."""

import pytest

from broker.transactions.verdict import Ops, Rules, Verdict, advanced, asked_enough, check_times, first_offset, judge
from headrace.model.message import MessageExt

RULES = Rules(timeout_ms=6000, most_checks=15, reserved_ms=72 * 3_600_000)
BEGIN = 1_000_000_000
NONE = Ops(None)


def half(age_ms: int = 10_000, stored_ms: int = BEGIN - 5000, **properties: str) -> MessageExt:
    return MessageExt(
        "H", queue_offset=7, born_timestamp=BEGIN - age_ms, store_timestamp=stored_ms, properties=properties
    )


def verdict(
    message: MessageExt, resolved: set[int] | None = None, ops: Ops = NONE, can_put_back: bool = True
) -> Verdict:
    return judge(message, resolved or set(), ops, BEGIN, BEGIN, RULES, can_put_back)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (half(), Verdict.CHECK),
        (half(6001), Verdict.CHECK),
        (half(6000), Verdict.READ_OPS),  # not over, but not under the time-out either
        (half(5999), Verdict.STOP),
        (half(0), Verdict.STOP),
        (half(-1), Verdict.CHECK),  # born in the future: the clocks differ
        (half(stored_ms=BEGIN), Verdict.STOP),
        (half(stored_ms=BEGIN - 1), Verdict.CHECK),
        (half(TRANSACTION_CHECK_TIMES="14"), Verdict.CHECK),
        (half(TRANSACTION_CHECK_TIMES="15"), Verdict.DISCARD),
        (half(TRANSACTION_CHECK_TIMES="15", stored_ms=BEGIN + 1), Verdict.DISCARD),  # before anything else
        (half(TRANSACTION_CHECK_TIMES="x"), Verdict.CHECK),
        (half(72 * 3_600_000), Verdict.CHECK),
        (half(72 * 3_600_000 + 1), Verdict.DISCARD),
        (half(10_000, CHECK_IMMUNITY_TIME_IN_SECONDS="10"), Verdict.READ_OPS),
        (half(10_001, CHECK_IMMUNITY_TIME_IN_SECONDS="10"), Verdict.CHECK),
        (half(9_999, CHECK_IMMUNITY_TIME_IN_SECONDS="10"), Verdict.PUT_BACK),
        (half(5_000, CHECK_IMMUNITY_TIME_IN_SECONDS="x"), Verdict.PUT_BACK),  # the time-out counts
        (half(7_000, CHECK_IMMUNITY_TIME_IN_SECONDS="-1"), Verdict.CHECK),
        (half(1_000, CHECK_IMMUNITY_TIME_IN_SECONDS="10", TRAN_PREPARED_QUEUE_OFFSET="-1"), Verdict.READ_OPS),
        (half(1_000, CHECK_IMMUNITY_TIME_IN_SECONDS="10", TRAN_PREPARED_QUEUE_OFFSET="3"), Verdict.PUT_BACK),
    ],
)
def test_verdict_without_new_op_messages(message: MessageExt, expected: Verdict) -> None:
    assert verdict(message) is expected


def test_new_op_messages_are_read_before_checks() -> None:
    assert verdict(half(), ops=Ops(BEGIN - 1)) is Verdict.READ_OPS
    assert verdict(half(), ops=Ops(BEGIN + 6000)) is Verdict.READ_OPS
    assert verdict(half(), ops=Ops(BEGIN + 6001)) is Verdict.CHECK
    assert verdict(half(-1), ops=Ops(BEGIN)) is Verdict.CHECK


def test_message_stored_again_is_resolved_by_its_first_offset() -> None:
    message = half(1_000, CHECK_IMMUNITY_TIME_IN_SECONDS="10", TRAN_PREPARED_QUEUE_OFFSET="3")
    assert verdict(message, {3}) is Verdict.RESOLVED
    assert verdict(message, {4}) is Verdict.PUT_BACK
    assert verdict(message, {4}, can_put_back=False) is Verdict.READ_OPS
    assert first_offset(message) == 3
    assert first_offset(half()) is None


def test_checks_are_counted() -> None:
    assert check_times(half()) == 1
    assert check_times(half(TRANSACTION_CHECK_TIMES="4")) == 5
    given_up = half(TRANSACTION_CHECK_TIMES="15")
    assert asked_enough(given_up, RULES) == given_up.properties
    assert asked_enough(half(TRANSACTION_CHECK_TIMES="4"), RULES) == {"TRANSACTION_CHECK_TIMES": "5"}


@pytest.mark.parametrize(("done", "expected"), [([], 5), ([5], 6), ([7, 5, 6], 8), ([6, 7], 5), ([5, 7], 6)])
def test_op_offset_advances_to_the_first_gap(done: list[int], expected: int) -> None:
    assert advanced(5, done) == expected
