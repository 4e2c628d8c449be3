"""The tables of Java's names and the client's: what they call the client's is there, and no setting is missing."""

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
"""Words that stand for what a program would write there."""
PYTHON = {*dir(builtins), *keyword.kwlist, "SSLContext", "create_task", "timedelta", "add_done_callback", "send_nowait"}


def table_of(page: str) -> list[tuple[str, str]]:
    """The rows behind the heading, without the head."""
    text = (PAGES / f"{page}.md").read_text().partition(BEHIND)[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert all(len(row) == 2 for row in rows), page
    return [(row[0], row[1]) for row in rows[1:]]


def known_words() -> set[str]:
    """What the client exports, what its classes have, what its functions are given."""
    words = set(headrace.__all__)
    for name in headrace.__all__:
        value = getattr(headrace, name)
        members = dict(inspect.getmembers(value)) if inspect.isclass(value) else {}
        words |= members.keys()
        if dataclasses.is_dataclass(value):
            words |= {one.name for one in dataclasses.fields(value)}
        for function in (value, *members.values()):
            if inspect.isroutine(function) or inspect.isclass(function):
                try:
                    words |= inspect.signature(function).parameters.keys()
                except ValueError:
                    pass  # one of Python's own, in C
    return words


@pytest.mark.parametrize("page", ["index", "producer", "consumer", "admin"])
def test_what_a_table_names_is_there(page: str) -> None:
    rows = table_of(page)
    assert rows
    known = known_words() | PYTHON | EXAMPLES
    for java, here in rows:
        for code in re.findall(r"`([^`]+)`", here):
            unknown = {word for word in re.findall(r"[A-Za-z_]+", code) if word not in known and word != "msg"}
            assert not unknown, f"{page}: {java} is not {code}"


def test_no_setting_of_a_client_and_no_call_of_admin_is_missing() -> None:
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
