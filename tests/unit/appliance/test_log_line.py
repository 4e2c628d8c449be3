import json
import logging
import sys
import time

import pytest

from appliance.log_line import LineFormatter


def record(message: str, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("store.flush", logging.WARNING, "x.py", 1, message, arguments, None)
    made.created, made.msecs, made.process = 1_700_000_000.25, 250.0, 42
    made.role = "flush"
    return made


def test_text_line_has_time_level_process_logger_and_message() -> None:
    line = LineFormatter("text").format(record("synced offset=%d", 7))
    assert line == "2023-11-14T22:13:20.250Z warning flush[42] store.flush: synced offset=7"


def test_record_stays_on_one_line_whatever_it_contains() -> None:
    line = LineFormatter("text").format(record('two\nlines "quoted" \x00 \u2028 end'))
    assert line.isprintable()
    assert r'two\nlines "quoted" \u0000 \u2028 end' in line


def test_json_line_is_one_object_with_the_same_parts() -> None:
    fields = json.loads(LineFormatter("json").format(record("a\nb")))
    assert list(fields) == ["time", "level", "role", "pid", "logger", "event"]
    assert fields["event"] == "a\nb"
    assert fields["pid"] == 42


@pytest.mark.parametrize(
    ("message", "event", "fields"),
    [
        ("role died role=flush cause='killed by SIGKILL' n=3", "role died", {"role": "flush", "cause": "killed by SIGKILL", "n": "3"}),
        ("topic created name= b=\"it's\" c=[1]", "topic created", {"name": "", "b": "it's", "c": "[1]"}),
        ("stopped", "stopped", None),
        ("advice: set a=1, then restart", "advice: set a=1, then restart", None),
        ("cut value='no end", "cut value='no end", None),
        ("a=1 without an event", "a=1 without an event", None),
    ],
)  # fmt: skip
def test_json_line_has_the_pairs_of_a_message_as_fields(
    message: str, event: str, fields: dict[str, str] | None
) -> None:
    line = json.loads(LineFormatter("json").format(record(message.replace("%", "%%"))))
    assert (line["event"], line.get("fields")) == (event, fields)


def test_long_message_is_formatted_at_once() -> None:
    message = "x " * 20_000 + "a=' " * 20_000
    began = time.process_time()
    assert json.loads(LineFormatter("json").format(record(message)))["event"] == message
    assert time.process_time() - began < 5


def test_traceback_is_a_field_of_its_line() -> None:
    try:
        raise ValueError("inside")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    line = LineFormatter("text").format(failed)
    assert "\n" not in line
    assert "ValueError: inside" in line.partition(" trace=")[2]
