import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from ipc.cells import store_cell
from ipc.current_client import encode_client
from ipc.health_page import (
    CALL_GENERATION,
    FIRST_ROW_WORD,
    STATES,
    HealthPage,
    format_health_page,
    monotonic_ms,
    size_bytes,
)
from ipc.posix import Segment, anonymous_segment

ROLES = ["flush", "broker"]


@pytest.fixture
def segment() -> Segment:
    segment = anonymous_segment(size_bytes(len(ROLES)))
    format_health_page(segment, "00c0ffee", ROLES)
    return segment


def test_new_page_lists_all_roles_in_order_as_stopped(segment: Segment) -> None:
    page = HealthPage(segment)
    assert page.roles == ROLES
    assert [(role.role, role.state, role.pid, role.start_count) for role in page.read().values()] == [
        ("flush", "stopped", 0, 0),
        ("broker", "stopped", 0, 0),
    ]


@pytest.mark.parametrize("state", STATES)
def test_role_state_is_readable(segment: Segment, state: str) -> None:
    page = HealthPage(segment)
    page.row("broker").state(state)
    assert page.read()["broker"].state == state
    assert page.read()["flush"].state == "stopped"


def test_started_role_has_time_for_its_first_heartbeat(segment: Segment) -> None:
    page = HealthPage(segment)
    row = page.supervised_row("flush")
    before = monotonic_ms()
    row.starting()
    row.forked(4711)
    health = page.read()["flush"]
    assert (health.state, health.pid, health.start_count) == ("starting", 4711, 1)
    assert before <= health.heartbeat_ms <= monotonic_ms()


def test_ended_role_has_no_pid_and_no_long_call(segment: Segment) -> None:
    page = HealthPage(segment)
    supervised = page.supervised_row("flush")
    supervised.starting()
    supervised.forked(4711)
    page.row("flush").long_call("sync", monotonic_ms() + 60_000)
    supervised.ended("failed")
    health = page.read()["flush"]
    assert (health.state, health.pid, health.long_call, health.start_count) == ("failed", 0, None, 1)


def test_silence_is_measured_from_the_last_heartbeat(segment: Segment) -> None:
    page = HealthPage(segment)
    page.row("flush").beat(1_000)
    assert page.read()["flush"].silent_ms(3_500) == 2_500


def test_announced_long_call_is_not_silence_until_overdue(segment: Segment) -> None:
    page = HealthPage(segment)
    row = page.row("flush")
    row.beat(1_000)
    row.long_call("fdatasync 00000000001073741824", 9_000)
    health = page.read()["flush"]
    assert (health.long_call, health.long_call_until_ms) == ("fdatasync 00000000001073741824", 9_000)
    assert health.silent_ms(8_000) == 0
    assert health.silent_ms(9_300) == 300
    row.long_call_over()
    assert page.read()["flush"].long_call is None
    assert page.read()["flush"].silent_ms(9_300) == 8_300


def test_long_text_is_truncated_between_characters(segment: Segment) -> None:
    page = HealthPage(segment)
    page.row("flush").long_call("x" + "ü" * 200, 5)
    assert page.read()["flush"].long_call == "x" + "ü" * 63
    assert page.read()["broker"].long_call is None


def test_row_of_a_role_killed_while_writing_is_readable_and_repaired(segment: Segment) -> None:
    page = HealthPage(segment)
    row = page.row("flush")
    row.long_call("unlink", 5)
    word = FIRST_ROW_WORD + CALL_GENERATION
    store_cell(segment.words, word, segment.words[word] + 1)
    assert page.read()["flush"].long_call == "unlink"
    row.long_call("sync", 6)
    assert page.read()["flush"].long_call == "sync"
    assert segment.words[word] % 2 == 0


def test_role_name_that_does_not_fit_is_refused(segment: Segment) -> None:
    with pytest.raises(ValueError, match="too long for the health page"):
        format_health_page(segment, "00c0ffee", ["x" * 65])


@pytest.mark.slow
def test_reader_never_sees_a_partial_announcement(
    segment: Segment, fork: Callable[[Callable[[], object]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The writer is alive, however long it waits for a processor in the middle of a write.
    monkeypatch.setattr("ipc.seqlock.PATIENCE_S", 60)

    def announce() -> None:
        row = HealthPage(segment).row("broker")
        parent = os.getppid()
        while os.getppid() == parent:
            for until_ms in range(1, 100):
                row.long_call(str(until_ms) * 40, until_ms)

    fork(announce)
    page = HealthPage(segment)
    began = time.monotonic()
    seen = set()
    while len(seen) <= 10 or time.monotonic() < began + 0.4:
        health = page.read()["broker"]
        if health.long_call is not None:
            assert health.long_call == (str(health.long_call_until_ms) * 40)
            seen.add(health.long_call_until_ms)


def test_current_client_is_shown_until_its_request_is_finished(segment: Segment) -> None:
    page = HealthPage(segment)
    mark = page.row("broker").current_client()
    assert page.read_client("broker") == ""
    mark.begin(encode_client("[2001:db8::1]:40404"))
    assert page.read_client("broker") == "[2001:db8::1]:40404"
    assert page.read_client("flush") == ""
    mark.begin(encode_client("192.0.2.1:1"))
    assert page.read_client("broker") == "192.0.2.1:1"
    mark.end()
    assert page.read_client("broker") == ""


def test_client_address_of_any_length_stays_in_its_row(segment: Segment) -> None:
    page = HealthPage(segment)
    page.row("flush").current_client().begin(encode_client("é" * 100))
    assert page.read_client("flush") == "é" * 32
    assert page.read_client("broker") == ""
    assert list(page.read()) == ROLES


def test_restarted_role_has_no_current_client(segment: Segment) -> None:
    page = HealthPage(segment)
    page.row("broker").current_client().begin(encode_client("192.0.2.1:1"))
    page.supervised_row("broker").starting()
    assert page.read_client("broker") == ""
