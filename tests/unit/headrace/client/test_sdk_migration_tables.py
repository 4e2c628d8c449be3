"""The tables of Java's names and the client's: the client's names exist, and no setting is missing."""

import builtins
import dataclasses
import inspect
import keyword
import re
from pathlib import Path

import pytest

import headrace

PAGES = Path(__file__).resolve().parents[4] / "docs" / "sdk"
BEHIND = "## Coming from the Java client"
EXAMPLES = {
    "asyncio",
    "config",
    "function",
    "group",
    "name",
    "names",
    "value",
    "seconds",
    "scheduler",
    "consumer",
    "producer",
    "context",
    "headrace",
    "sync",
}
"""Placeholders in the tables."""
PYTHON = {*dir(builtins), *keyword.kwlist, "SSLContext", "create_task", "timedelta", "add_done_callback", "send_nowait"}


def table_of(page: str) -> list[tuple[str, str]]:
    """The rows after the heading, without the table's head."""
    text = (PAGES / f"{page}.md").read_text().partition(BEHIND)[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert all(len(row) == 2 for row in rows), page
    return [(row[0], row[1]) for row in rows[1:]]


def known_words() -> set[str]:
    """The client's exports, the attributes of its classes, and the parameters of its functions."""
    words = set(headrace.__all__)
    for name in headrace.__all__:
        value = getattr(headrace, name)
        members = dict(inspect.getmembers(value)) if inspect.isclass(value) else {}
        members.pop("__class__", None)
        words |= members.keys()
        if dataclasses.is_dataclass(value):
            words |= {one.name for one in dataclasses.fields(value)}
        for function in (value, *members.values()):
            if inspect.isroutine(function) or inspect.isclass(function):
                try:
                    words |= inspect.signature(function).parameters.keys()
                except ValueError:
                    pass  # implemented in C by Python
    return words


@pytest.mark.parametrize("page", ["index", "producer", "consumer", "admin"])
def test_every_name_in_the_migration_tables_exists(page: str) -> None:
    rows = table_of(page)
    assert rows
    known = known_words() | PYTHON | EXAMPLES
    for java, here in rows:
        for code in re.findall(r"`([^`]+)`", here):
            unknown = {word for word in re.findall(r"[A-Za-z_]+", code) if word not in known and word != "msg"}
            assert not unknown, f"{page}: {java} is not {code}"


def test_migration_tables_cover_all_settings_and_admin_calls() -> None:
    index, admin = (" ".join(here for _, here in table_of(page)) for page in ("index", "admin"))
    for one in dataclasses.fields(headrace.ClientConfig):
        assert one.name == "on_event" or re.search(rf"`{one.name}\b", index), one.name
    calls = {name for name, value in inspect.getmembers(headrace.Admin) if inspect.isfunction(value) and name[0] != "_"}
    without_java_name = {
        "start",
        "close",
        "publish_queues",
        "subscribe_queues",
        "system_topics",
        "unit_topics",
        "queue_owners",
        "consumer_offset",
        "correction_offsets",
    }
    missing = {name for name in calls - without_java_name if f"`{name}`" not in admin}
    assert not missing
