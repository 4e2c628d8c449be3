"""Setting keys in an operator's broker.conf without touching the rest of it."""

import os
from pathlib import Path

import pytest

from broker.broker_conf import BrokerConf, with_values
from headrace.protocol.bodies.properties_text import decode_properties_text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a=1\n"),
        ("a=0", "a=1\n"),
        ("# a=0\nb = 2\n", "# a=0\nb = 2\na=1\n"),
        ("a : 0\nb=2\na=5\n", "a=1\nb=2\na=1\n"),
        ("a=0\\\n  5\nb=2\n", "a=1\nb=2\n"),
        ("b=2\\\n  a=7\n", "b=2\\\n  a=7\na=1\n"),
        ("# note \\\na=0\n", "# note \\\na=1\n"),
        ("\n! x\n\na\n", "\n! x\n\na=1\n"),
        ("b=2\r\na=0\r\n", "b=2\na=1\n"),
        ("b=x\u2028a=0\x0cc\n", "b=x\u2028a=0\x0cc\na=1\n"),
    ],
)
def test_only_lines_with_the_key_are_changed(before: str, after: str) -> None:
    assert with_values(before, {"a": "1"}) == after


@pytest.mark.parametrize("value", ["", " x", "a\\b", "a=b:c#d", "10.0.0.1:9876;10.0.0.2:9876", "line\nline"])
def test_written_value_is_read_again(value: str) -> None:
    assert decode_properties_text(with_values("b=2\n", {"a": value})) == {"a": value, "b": "2"}


def test_file_keeps_its_permissions_and_a_symbolic_link_is_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.conf", tmp_path / "broker.conf"
    real.write_text("a=0\n")
    real.chmod(0o640)
    link.symlink_to(real)
    BrokerConf(link).set({"a": "1"})
    assert link.is_symlink()
    assert real.read_text() == "a=1\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["broker.conf", "real.conf"]
