import json
import logging
import sys

from appliance.log_line import LineFormatter


def record(message: str, *arguments: object) -> logging.LogRecord:
    made = logging.LogRecord("store.flush", logging.WARNING, "x.py", 1, message, arguments, None)
    made.created, made.msecs, made.process = 1_700_000_000.25, 250.0, 42
    made.role = "flush"
    return made


def test_text_line_consists_of_key_value_pairs() -> None:
    line = LineFormatter("text").format(record("synced: offset=%d", 7))
    assert line == (
        'time=2023-11-14T22:13:20.250Z level=warning role=flush pid=42 logger=store.flush event="synced: offset=7"'
    )


def test_record_stays_on_one_line_whatever_it_contains() -> None:
    line = LineFormatter("text").format(record('two\nlines "quoted" \x00 \u2028 end'))
    assert line.isprintable()
    assert r"two\nlines \"quoted\"" in line


def test_json_line_is_one_object_with_the_same_fields() -> None:
    fields = json.loads(LineFormatter("json").format(record("a\nb")))
    assert list(fields) == ["time", "level", "role", "pid", "logger", "event"]
    assert fields["event"] == "a\nb"
    assert fields["pid"] == 42


def test_traceback_is_a_field_of_its_line() -> None:
    try:
        raise ValueError("inside")
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    line = LineFormatter("text").format(failed)
    assert "\n" not in line
    assert "ValueError: inside" in line.partition(" trace=")[2]
