"""Topics and groups that the console creates, changes, resets and deletes are so for mqadmin, and the reverse; on Apache's broker and ours."""

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from support.client import Client, assert_exactly
from support.console import Browser
from support.servers import Server, wait_until

Mqadmin = Callable[..., str]


@pytest.fixture
def mqadmin(client: Client, server: Server) -> Mqadmin:
    """Runs a command with the name server's address; returns what it prints."""

    def run(*arguments: str) -> str:
        printed: str = client.call("mqadmin", arguments=[*arguments, "-n", server.name_server], errors=True)
        return printed

    return run


def queues_of(route: str) -> tuple[int, int, int]:
    """Read queues, write queues and permission of the only broker in a route as mqadmin prints it."""
    [read] = re.findall(r'"readQueueNums":\s*(\d+)', route)
    [write] = re.findall(r'"writeQueueNums":\s*(\d+)', route)
    [permission] = re.findall(r'"perm":\s*(\d+)', route)
    return int(read), int(write), int(permission)


def test_topic_of_the_console_is_seen_by_mqadmin(browser: Browser, client: Client, mqadmin: Mqadmin) -> None:
    topic = "TopicOfConsole"
    form = {"topic": topic, "read_queues": "3", "write_queues": "2", "permission": "RW"}
    made = browser.send("/topics", form)
    assert made.status == 303, made.cause
    wait_until(lambda: topic in mqadmin("topicList").split(), 60, "the topic in the list")
    assert queues_of(mqadmin("topicRoute", "-t", topic)) == (3, 2, 6)
    client.await_route(topic)
    client.send(topic, 4)
    client.await_pullable(topic, 4)
    rows = [line.split() for line in mqadmin("topicStatus", "-t", topic).splitlines() if not line.startswith("#")]
    assert sum(int(row[3]) - int(row[2]) for row in rows if len(row) > 3) == 4

    changed = browser.send(f"/topics/{topic}", {"read_queues": "4", "write_queues": "4", "permission": "R"})
    assert changed.status == 303, changed.cause
    wait_until(lambda: queues_of(mqadmin("topicRoute", "-t", topic)) == (4, 4, 4), 60, "the change in the route")

    deleted = browser.send(f"/topics/{topic}/delete", {"confirm": topic})
    assert deleted.status == 303, deleted.cause
    wait_until(lambda: topic not in mqadmin("topicList").split(), 60, "the topic to leave the list")


def test_topic_of_mqadmin_is_seen_by_the_console(browser: Browser, server: Server, mqadmin: Mqadmin) -> None:
    topic = "TopicOfMqadmin"

    def shown() -> tuple[int, int, str] | None:
        page = browser.get(f"/api/v1/topics/{topic}")
        if page.status != 200:
            return None
        rows = page.json()["brokers"]["rows"]
        if not rows:
            return None
        [row] = rows
        return row["read_queues"], row["write_queues"], row["permission"]

    def is_listed() -> bool:
        rows = browser.read(f"/topics?filter={topic}")["topics"]["rows"]
        return [row["topic"] for row in rows] == [topic]

    mqadmin("updateTopic", "-b", server.broker, "-t", topic, "-r", "3", "-w", "2", "-p", "6")
    wait_until(is_listed, 60, "the topic in the list")
    wait_until(lambda: shown() == (3, 2, "RW-"), 60, "the page of the topic")
    mqadmin("updateTopic", "-b", server.broker, "-t", topic, "-r", "4", "-w", "4", "-p", "4")
    wait_until(lambda: shown() == (4, 4, "R--"), 60, "the change on the page")
    mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", topic)
    wait_until(lambda: not is_listed(), 60, "the topic to leave the list")
    wait_until(lambda: browser.get(f"/topics/{topic}").status == 404, 60, "no page of the topic")


def consumed(mqadmin: Mqadmin, group: str, topic: str) -> list[int]:
    """The group's offsets in the queues of a topic, as mqadmin prints them."""
    rows = [line.split() for line in mqadmin("consumerProgress", "-g", group).splitlines()]
    return [int(row[4]) for row in rows if row[:1] == [topic]]


def two_batches(browser: Browser, client: Client, topic: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Four messages, then three that were stored later, in one queue; and a time just before the three, ms.

    No message has this time: a reset to a time that several messages share finds any of them.
    """
    client.create_topic(topic, 1)

    def stored(count: int) -> list[int]:
        rows: list[dict[str, Any]] = []

        def are_found() -> bool:
            rows[:] = browser.read(f"/messages?by=time&topic={topic}")["messages"]["rows"]
            return len(rows) == count

        wait_until(are_found, 60, f"{count} messages by time")
        return sorted(row["stored_at"] for row in rows)

    first = client.send(topic, 4)
    latest = stored(4)[-1]
    wait_until(lambda: time.time() * 1000 > latest + 100, 60, "a tenth of a second")
    second = client.send(topic, 3, first=4)
    return first, second, stored(7)[4] - 1


def consume_all(client: Client, name: str, topic: str, count: int) -> None:
    """A member of the group NAME-group consumes all, and leaves."""
    client.consume(name, topic)
    try:
        client.receive(name, count)
        client.await_committed(topic, f"{name}-group", count, name)
    finally:
        client.stop(name)


def test_group_of_the_console_is_seen_by_mqadmin(browser: Browser, client: Client, mqadmin: Mqadmin) -> None:
    topic, group = "GroupOfConsole", "of-console-group"
    made = browser.send("/new-group", {"name": group, "retries": "3"})
    assert made.status == 303, made.cause
    assert "retryMaxTimes=3" in re.sub(r"\s", "", mqadmin("getConsumerConfig", "-g", group))
    first, _, moment = two_batches(browser, client, topic)
    consume_all(client, "of-console", topic, 7)
    assert consumed(mqadmin, group, topic) == [7]

    done = browser.send(f"/groups/{group}/reset", {"topic": topic, "to": "time", "time": str(moment)})
    assert done.status == 303, done.cause
    wait_until(lambda: consumed(mqadmin, group, topic) == [len(first)], 60, "the new offset")

    deleted = browser.send(f"/groups/{group}/delete", {"name": group})
    assert deleted.status == 303, deleted.cause
    assert "retryMaxTimes" not in mqadmin("getConsumerConfig", "-g", group)


def test_group_of_mqadmin_is_seen_by_the_console(
    browser: Browser, server: Server, client: Client, mqadmin: Mqadmin
) -> None:
    topic, group = "GroupOfMqadmin", "of-mqadmin-group"

    def shown(table: str, key: str) -> Any:
        page = browser.get(f"/api/v1/groups/{group}")
        rows = page.json()[table]["rows"] if page.status == 200 else []
        return next((row[key] for row in rows if row.get("topic", topic) == topic), None)

    mqadmin("updateSubGroup", "-b", server.broker, "-g", group, "-r", "5")
    wait_until(lambda: shown("settings", "retries") == 5, 60, "the settings")
    first, _, moment = two_batches(browser, client, topic)
    consume_all(client, "of-mqadmin", topic, 7)
    wait_until(lambda: shown("queues", "consumer_offset") == 7, 60, "the offset of the group")

    mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", str(moment))
    wait_until(lambda: shown("queues", "consumer_offset") == len(first), 60, "the new offset")

    mqadmin("deleteSubGroup", "-b", server.broker, "-g", group, "-r", "true")
    wait_until(lambda: browser.get(f"/groups/{group}").status == 404, 60, "no page of the group")


def test_connected_members_continue_at_the_time_of_a_reset(browser: Browser, client: Client, mqadmin: Mqadmin) -> None:
    topic, group = "ResetConnected", "reset-connected-group"
    first, second, moment = two_batches(browser, client, topic)
    client.consume("reset-connected", topic)
    try:
        assert_exactly(client.receive("reset-connected", 7), [*first, *second])
        client.await_committed(topic, group, 7, "reset-connected")
        done = browser.send(f"/groups/{group}/reset", {"topic": topic, "to": "time", "time": str(moment)})
        assert done.status == 303, done.cause

        def times() -> Counter[str]:
            return Counter(message["msgId"] for message in client.received("reset-connected"))

        again = {message["msgId"]: 2 for message in second}
        wait_until(lambda: times() == {**times(), **again}, 60, "the messages since the time once more")
        third = client.send(topic, 2, first=7)
        client.receive("reset-connected", 9)
        client.await_committed(topic, group, 9, "reset-connected")
        assert times() == {**{message["msgId"]: 1 for message in [*first, *third]}, **again}
        assert consumed(mqadmin, group, topic) == [9]
    finally:
        client.stop("reset-connected")
