"""Patterns of remote addresses. tests/interop/test_acl_address_patterns.py compares them with RocketMQ's class."""

import pytest

from broker.access.address_pattern import parse_pattern
from broker.access.errors import BadAddressPattern
from broker.access.inet_address import expand, is_v4, is_v6, peer_address


def matches(pattern: str | None, host: str) -> bool:
    return parse_pattern(pattern).matches(peer_address(host))


@pytest.mark.parametrize("pattern", [None, "", " ", "\t"])
def test_blank_pattern_matches_nothing(pattern: str | None) -> None:
    assert not matches(pattern, "127.0.0.1")


@pytest.mark.parametrize("pattern", ["*", "*.*.*.*", "*:*:*:*:*:*:*:*"])
@pytest.mark.parametrize("host", ["10.1.2.3", "::1"])
def test_stars_match_every_address(pattern: str, host: str) -> None:
    assert matches(pattern, host)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.30", "110.1.2.3", "::1"]),
        ("10.1.2.{3,4}", ["10.1.2.3", "10.1.2.4"], ["10.1.2.5"]),
        ("10.1.2.{}", [], ["10.1.2.0"]),
        ("10.1.2.3,10.1.2.4,::1", ["10.1.2.3", "10.1.2.4", "::1"], ["10.1.2.5", "::2"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.0", "10.1.20.1"]),
        ("10.1.2-20.*", ["10.1.2.9", "10.1.20.9"], ["10.1.1.9", "10.1.21.9"]),
        ("10.1.5-5.7", ["10.1.5.7", "10.1.5.8"], ["10.1.6.7"]),
        ("10.*.3.4", ["10.9.3.4", "10.9.9.9"], ["11.9.3.4"]),
        (" 10 . 1 .2.*", ["10.1.2.9"], ["10.1.3.9"]),
        ("2001:DB8::1", ["2001:db8::1", "2001:db8:0:0::1"], ["2001:db8::2", "10.1.2.3"]),
        ("2001:db8::{1,a}", ["2001:db8::1", "2001:db8::A"], ["2001:db8::b"]),
        ("2001:db8:*", ["2001:db8::1", "2001:db8:ffff::1"], ["2001:db9::1", "10.1.2.3"]),
        ("2001:db8::5:*", ["2001:db8::5:1"], ["2001:db8::6:1"]),
        ("2001:db8::5:1-20", ["2001:db8::5:1", "2001:db8::5:20"], ["2001:db8::5:21", "2001:db8::5:0"]),
        ("2001:db8::5:1-20:*", ["2001:db8::5:1:1", "2001:db8::5:20:ffff"], ["2001:db8::5:21:1"]),
        # RocketMQ takes `::` before a range for one group of zeros.
        ("2001:db8::1-20", ["2001:db8:0:1::7"], ["2001:db8::1"]),
    ],
)
def test_pattern_matches_its_addresses_and_no_others(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert [host for host in inside if not matches(pattern, host)] == []
    assert [host for host in outside if matches(pattern, host)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "x", "1.2.3", "1.2.3.256", "1.2.3.04", " 1.2.3.4", "1.2.3.4, 1.2.3.5", "1.2.3.{4", "1.2.{3}.4}", "1.2.{3,4}",
        "1.2.3.{4,x}", "1.2.3.{400}", "::{x}", "1:{2:3}", "1.2.3.9-4", "1.2.3.4-300", "1.2.3.-4", "1.2.3.4-", "1.2.3.a-b",
        "*.1.2.3", "1-2", "1.*", "1.2.3.0-0", "1.2.3.4*", "1.2.3.4.*", "300.2.3.*", "x.2.*.*", "2001:*:1", "2001:1-2:3",
        "::*", "1:fffff-2", "1:2-10000", "1:g-h", "xyz:1:*", "1::2::3",
    ],
)  # fmt: skip
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadAddressPattern):
        parse_pattern(pattern)


@pytest.mark.parametrize("pattern", ["1:2:3:4:5:6:7:8:*", "1.2.3.4:*", "1.2.x.*", "1.2.3.{}"])
@pytest.mark.parametrize("host", ["1:2:3:4:5:6:7:8", "1.2.3.4"])
def test_pattern_without_a_possible_address_matches_nothing(pattern: str, host: str) -> None:
    assert not matches(pattern, host)


@pytest.mark.parametrize("text", ["0.0.0.0", "255.255.255.255"])
def test_ipv4_addresses_are_recognised(text: str) -> None:
    assert is_v4(text)


@pytest.mark.parametrize("text", ["", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4\n", "1.2.3.٤", "1.2.3.-4", "::1"])
def test_other_texts_are_no_ipv4_addresses(text: str) -> None:
    assert not is_v4(text)


@pytest.mark.parametrize(
    "text",
    ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "::1.2.3.4", "fe80::1%eth0", "::1/128", "::+1"],
)
def test_ipv6_addresses_are_recognised(text: str) -> None:
    assert is_v6(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        ":1",
        "1:",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "12345::",
        "g::",
        "::1/129",
        "::1/x",
        "::1/1/1",
        "::%",
        "::1%a%b",
        "::256.1.1.1",
        "1.2.3.4",
        ":::",
    ],
)
def test_other_texts_are_no_ipv6_addresses(text: str) -> None:
    assert not is_v6(text)


def test_address_is_expanded_to_eight_groups_in_upper_case() -> None:
    assert expand("2001:db8::a") == "2001:0DB8:0000:0000:0000:0000:0000:000A"
    assert expand("1.2.3.4") == "1.2.3.4"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("fe80::1%eth0", "FE80:0000:0000:0000:0000:0000:0000:0001"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_address_of_a_peer_has_the_form_of_patterns(host: str, expected: str) -> None:
    assert peer_address(host) == expected
