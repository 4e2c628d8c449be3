"""What an order may name: names only, and few of them."""

from typing import Any

import pytest

from appliance.errors import ExportRefused
from appliance.export_order import ExportOrder

GOOD: dict[str, Any] = {"command": "start-export", "target": "orders", "topics": ["Orders", "%RETRY%a|b"]}


def test_order_has_the_values_of_the_request() -> None:
    order = ExportOrder.from_request({**GOOD, "format": "delta", "broker": "broker-b", "from_ms": 1, "to_ms": 2})
    assert order == ExportOrder("orders", "delta", ("Orders", "%RETRY%a|b"), "broker-b", 1, 2)
    assert ExportOrder.from_request(GOOD).as_json() == {
        "target": "orders", "format": "parquet", "topics": ("Orders", "%RETRY%a|b"), "broker": "", "from_ms": None, "to_ms": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("target", value) for value in ("", ".", "..", "../x", "a/b", "/etc", "-x", ".x", "a\n", "a\0", "é", "x" * 65, "s3://x", "a#b", None, 7, ["a"])),
        *(("format", value) for value in ("", "csv", None, ["parquet"], {})),
        *(("topics", value) for value in ("Orders", None, {"a": 1}, [""], ["a b"], ["a\n"], ["--strict=1\0"], [7], [None], ["x" * 300], ["a"] * 101)),
        *(("broker", value) for value in (None, 7, ["a"])),
        *(("from_ms", value) for value in (-1, 1.5, "1", True, 1 << 62)),
        *(("to_ms", value) for value in (-1, 1.5, "1", True, 1 << 62)),
        ("engine", "spark"), ("--strict", ""), ("source", "/etc"),
    ],
)  # fmt: skip
def test_anything_but_names_and_times_is_refused(field: str, value: object) -> None:
    with pytest.raises(ExportRefused):
        ExportOrder.from_request({**GOOD, field: value})


def test_period_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ExportRefused, match="ends before it begins"):
        ExportOrder.from_request({**GOOD, "from_ms": 2, "to_ms": 2})
