"""Records of message trace, as the Java client and the SDK write them, and as nobody should."""

import pytest

from headrace.client.sending.send_hooks import MessageKind
from headrace.client.tracing.trace_records import (
    TraceConsumeCode,
    consume_after_record,
    consume_before_record,
    end_transaction_record,
    publish_record,
)
from web.pages.traces.trace_pages import bars_of
from web.pages.traces.trace_records import CONSUMED, SENT, TRANSACTION, Decoder, Step, steps_with_key

PAYLOAD = "<img src=x onerror=alert(1)>"


def decoded(*texts: str) -> tuple[list[Step], int]:
    decoder = Decoder()
    for text in texts:
        decoder.add(text, "10.0.0.1")
    return decoder.steps(), decoder.unreadable


def sent(message_id: str = "ID1") -> str:
    return publish_record(
        timestamp=1000, region="r", group="shop", topic="Orders", message_id=message_id, tags="paid", keys="order-1 other",
        broker_address="10.0.0.9:10911", body_size=5, cost_ms=7, kind=MessageKind.NORMAL, offset_message_id="OFF", is_success=True,
    ).text  # fmt: skip


def before(request: str = "R1", retries: int = 0) -> str:
    return consume_before_record(
        timestamp=1100, region="r", group="billing", request_id=request, message_id="ID1", retry_times=retries, keys="order-1"
    ).text  # fmt: skip


def after(request: str = "R1", *, is_success: bool = True) -> str:
    code = TraceConsumeCode.SUCCESS if is_success else TraceConsumeCode.FAILED
    return consume_after_record(
        request_id=request, message_id="ID1", cost_ms=30, is_success=is_success, keys="order-1", code=code, timestamp=1130,
        group="billing",
    ).text  # fmt: skip


def test_steps_of_a_message_are_in_the_order_of_time_whatever_the_order_of_records() -> None:
    steps, unreadable = decoded(after() + sent(), before())
    assert unreadable == 0
    first, second = steps
    assert (first.kind, first.group, first.begin, first.end, first.state) == (SENT, "shop", 1000, 1007, "success")
    assert (first.topic, first.tags, first.broker, first.client) == ("Orders", "paid", "10.0.0.9:10911", "10.0.0.1")
    assert (second.kind, second.group, second.begin, second.end) == (CONSUMED, "billing", 1100, 1130)
    assert (second.cost, second.state, second.retries) == (30, "success", 0)
    assert steps_with_key(steps, "order-1") == steps
    assert steps_with_key(steps, "other") == [first]


def test_consumer_that_never_answered_is_unknown_and_one_without_a_beginning_has_no_time() -> None:
    (only_before,), _ = decoded(before())
    assert (only_before.state, only_before.end, only_before.cost) == ("unknown", None, None)
    (only_after,), _ = decoded(after(is_success=False))
    assert (only_after.state, only_after.begin, only_after.end, only_after.group) == ("failed", None, 1130, "billing")


def test_records_of_older_clients_lack_their_last_fields() -> None:
    old_send = "\x01".join([*sent().removesuffix("\x02").split("\x01")[:12]])
    old_after = "\x01".join(after().removesuffix("\x02").split("\x01")[:6])
    (first, second), unreadable = decoded(old_send, before(), old_after)
    assert unreadable == 0
    assert (first.state, second.state, second.end) == ("success", "success", 1130)


@pytest.mark.parametrize(
    ("name", "state"), [("COMMIT_MESSAGE", "committed"), ("ROLLBACK_MESSAGE", "rolled back"), ("UNKNOW", "unknown")]
)
def test_end_of_a_transaction_has_its_state(name: str, state: str) -> None:
    text = end_transaction_record(
        timestamp=5, region="r", group="shop", topic="Orders", message_id="ID1", tags=None, keys=None,
        broker_address="b:1", transaction_id="T", state=name, is_from_check=False,
    ).text  # fmt: skip
    (step,), _ = decoded(text)
    assert (step.kind, step.state, step.tags) == (TRANSACTION, state, "")


@pytest.mark.parametrize(
    "text",
    [
        "Pub\x02",
        "Nonsense\x01a\x02",
        "\x01\x02",
        sent().replace("1000", "x"),
        sent().replace("1000", "9" * 40),
        sent().replace("1000", "9" * 5000),
        sent().replace("1000", "-5"),
        "SubAfter\x01R\x02",
        PAYLOAD,
    ],
)
def test_record_that_does_not_fit_the_format_is_counted_and_the_others_are_shown(text: str) -> None:
    steps, unreadable = decoded(text, sent())
    assert len(steps) == 1
    assert unreadable == 1


def test_batch_has_a_step_for_each_of_its_messages() -> None:
    steps, _ = decoded(sent("ID1,ID2"))
    assert [step.message_id for step in steps] == ["ID1", "ID2"]


def test_bars_span_the_time_line_and_stay_on_it() -> None:
    steps, _ = decoded(sent(), before(), after(), before("R2", 1))
    bars = bars_of(steps)
    assert [(bar.kind, bar.state) for bar in bars] == [(SENT, "success"), (CONSUMED, "success"), (CONSUMED, "unknown")]
    assert bars[0].x == 0
    assert all(0 <= bar.x <= 996 and bar.width >= 4 for bar in bars)
    assert max(bar.x + bar.width for bar in bars) == pytest.approx(1000, abs=1)
    assert bars_of([]) == []
