"""Statistics of filter functions as a table, for `headrace status` and `headrace filter list`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from appliance.cli.text_table import text_table

_HEAD: Final = ("FUNCTION", "STATE", "WORKER", "CALLS", "MESSAGES", "MATCHED", "MEAN", "FAILURES", "LAST FAILURE")


def function_lines(functions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The table, from what the broker has reported."""
    return text_table(_HEAD, [_row(name, one) for name, one in functions.items()])


def _row(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    messages = int(said.get("messages", 0))
    failures = int(said.get("failures", 0)), int(said.get("failed_messages", 0))
    state = "disabled" if said.get("disabled_reason") else "in use" if said.get("worker") else "idle"
    return (
        name,
        state,
        said.get("worker") or "-",
        f"{said.get('calls', 0):,}",
        f"{messages:,}",
        f"{said.get('matched', 0):,}",
        f"{said.get('busy_ms', 0) / messages:.3f} ms" if messages else "-",
        f"{failures[0]:,} + {failures[1]:,} messages" if failures[1] else f"{failures[0]:,}",
        f"{_clock(int(said.get('last_failure_ms', 0)))} {said.get('last_reason', '')}" if any(failures) else "-",
    )


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
