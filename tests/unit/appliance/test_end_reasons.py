import signal

import pytest

from appliance.child import one_line
from appliance.errors import PreflightFailed
from appliance.managed_role import End
from store.errors import UnexpectedFile


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PreflightFailed("port 1 is taken"), "port 1 is taken"),
        (UnexpectedFile("two\nlines"), "two lines"),
        (OSError("its port is taken"), "its port is taken"),
        (ValueError("7"), "ValueError: 7"),
        (KeyError("a"), "KeyError: 'a'"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_error_is_summarised_in_one_clear_line(error: Exception, expected: str) -> None:
    assert one_line(error) == expected


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (0, "", "exited with code 0"),
        (3, "no room", "exited with code 3 (no room)"),
        (-signal.SIGKILL, "", "killed by SIGKILL"),
        (-(signal.SIGRTMIN + 1), "", "killed by signal 35"),
    ],
)
def test_exit_is_described_by_code_or_signal(code: int, reason: str, expected: str) -> None:
    end = End(code, reason, lived_ms=1, was_asked=False)
    assert str(end) == expected
    assert end.was_killed == (code == -9)
    assert end.could_not_start == (code == 3)
