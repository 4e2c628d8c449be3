from dataclasses import dataclass, fields
from typing import Any

import pytest

from headrace.model import from_mapping, keys_of, nearest_key, option, parse_value
from headrace.model.option import format_value, help_of, is_changeable, is_changeable_by_request


@dataclass(frozen=True)
class Sample:
    listen_port: int = option(10911, help="Port of the main listener.")
    broker_ip1: str | None = option(None, key="brokerIP1")
    long_polling_enable: bool = option(True, changeable=True)
    ratio: float = option(0.75)
    namesrv_addr: str = option("", changeable=True, by_request=False)


def test_key_is_the_field_in_camel_case_unless_it_is_given() -> None:
    assert list(keys_of(Sample)) == ["listenPort", "brokerIP1", "longPollingEnable", "ratio", "namesrvAddr"]
    assert help_of(keys_of(Sample)["listenPort"]) == "Port of the main listener."
    assert is_changeable(keys_of(Sample)["longPollingEnable"])
    assert not is_changeable(keys_of(Sample)["listenPort"])


def test_requests_change_only_changeable_options_that_allow_it() -> None:
    assert [key for key, field in keys_of(Sample).items() if is_changeable_by_request(field)] == ["longPollingEnable"]
    assert is_changeable(keys_of(Sample)["namesrvAddr"])


def test_configuration_is_parsed_from_texts_by_key() -> None:
    given = from_mapping(
        Sample,
        {"listenPort": " 1234 ", "brokerIP1": "10.0.0.1", "longPollingEnable": "FALSE", "ratio": "0.5", "other": "x"},
    )
    assert given == Sample(1234, "10.0.0.1", long_polling_enable=False, ratio=0.5)
    assert from_mapping(Sample, {}) == Sample()


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("listenPort", "1_0", "whole number"),
        ("longPollingEnable", "yes", "true or false"),
        ("ratio", "half", "a number"),
    ],
)
def test_invalid_value_is_named_with_its_key(key: str, text: str, expected: Any) -> None:
    with pytest.raises(ValueError, match=f"{key}={text}: expected .*{expected}"):
        from_mapping(Sample, {key: text})


def test_formatted_value_parses_to_the_value() -> None:
    for field in fields(Sample):
        if field.default is not None:
            assert parse_value(field, format_value(field.default)) == field.default


def test_nearest_key_is_found_ignoring_case() -> None:
    assert nearest_key("listenport", keys_of(Sample)) == "listenPort"
    assert nearest_key("longPolingEnable", keys_of(Sample)) == "longPollingEnable"
    assert nearest_key("zzz", keys_of(Sample)) is None
