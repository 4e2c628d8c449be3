"""The page of traces over real clusters, Apache's and ours, with traces of the Java client."""

from typing import Any

from support.client import Client, assert_exactly
from support.console import Browser
from support.servers import wait_until


def test_way_of_a_traced_message_is_found_by_its_id_and_its_key(browser: Browser, client: Client) -> None:
    client.create_topic("PagedTrace", 1)
    (sent,) = client.send("PagedTrace", 1, group="paged-trace-shop", trace="")
    client.consume("paged-trace", "PagedTrace", trace="")
    message_id, key = sent["msgId"], sent["keys"].split()[0]
    try:
        assert_exactly(client.receive("paged-trace", 1), [sent])

        def steps() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = browser.read(f"/traces?id={message_id}")["steps"]["rows"]
            return found

        def is_complete() -> bool:
            return [(step["kind"], step["state"]) for step in steps()] == [("sent", "success"), ("consumed", "success")]

        # Clients collect traces for a while, and indexes are written after messages are acknowledged.
        wait_until(is_complete, 90, "the traces of the send and of the consumer")
    finally:
        client.stop("paged-trace")
    first, second = steps()
    assert (first["group"], first["topic"], first["client"]) == ("paged-trace-shop", "PagedTrace", "127.0.0.1")
    assert (second["group"], second["retries"]) == ("paged-trace-group", 0)

    page = browser.answered(f"/traces?id={message_id}")
    assert page.status == 200, page.cause
    assert page.text.count("<rect") == 4
    rows = browser.read(f"/traces?key={key}")["messages"]["rows"]
    assert (message_id, ["paged-trace-group"]) in [(row["id"], row["groups"]) for row in rows]
    assert "paged-trace-group" in browser.answered(f"/traces?id={message_id}&format=csv").text


def test_missing_topic_and_missing_traces_are_told_apart(browser: Browser) -> None:
    unknown = browser.answered("/traces?id=NONE&topic=NoSuchTraceTopic")
    assert "The cluster has no topic NoSuchTraceTopic" in unknown.text
    empty = browser.answered("/traces?id=NONE&topic=SELF_TEST_TOPIC")
    assert empty.status == 200, empty.cause
    assert "There are no traces of the message." in empty.text
