"""Pages of messages over real clusters, Apache's and ours."""

import os
from typing import Any

from headrace import Message
from support.client import Client, assert_exactly
from support.console import Browser
from support.sdk import producing, run
from support.servers import Server, wait_until


def rows(browser: Browser, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.read(f"/messages?{query}").get("messages", {"rows": []})["rows"]
    return found


def found(browser: Browser, query: str) -> list[dict[str, Any]]:
    """What a search finds once it finds anything: indexes are written after messages are acknowledged."""
    wait_until(lambda: rows(browser, query), 60, query)
    return rows(browser, query)


def send(server: Server, topic: str, count: int) -> list[tuple[str, str]]:
    """Sends JSON messages with a tag, a key and a property; their unique ids and offset message ids."""

    async def main() -> list[tuple[str, str]]:
        async with producing(server, "paged-messages") as producer:
            results = [
                await producer.send(
                    Message(
                        topic, f'{{"n":{number}}}', f"tag{number % 2}", f"key-{number}", properties={"colour": "red"}
                    )
                )
                for number in range(count)
            ]
            return [(result.message_id, result.offset_message_id) for result in results]

    return run(main())


def test_message_is_found_by_both_ids_key_and_time(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedMessages", 2)
    sent = send(server, "PagedMessages", 6)
    unique_id, offset_id = sent[3]
    client.await_pullable("PagedMessages", 6)

    for query in (
        f"by=id&id={offset_id}",
        f"by=id&id={unique_id}",
        f"by=id&topic=PagedMessages&id={unique_id}",
        "by=key&topic=PagedMessages&key=key-3",
        "by=time&topic=PagedMessages&begin=0&property=KEYS%3Dkey-3",
    ):
        (row,) = found(browser, query)
        assert (row["id"], row["offset_id"]) == (unique_id, offset_id), query
        assert (row["tag"], row["keys"], row["body"]) == ("tag1", ["key-3"], '{"n":3}'), query
    assert len(rows(browser, "by=time&topic=PagedMessages&begin=0")) == 6
    assert len(rows(browser, "by=time&topic=PagedMessages&begin=0&tag=tag0&property=colour%3Dred")) == 3
    assert browser.answered("/messages").status == 200
    nothing = browser.answered("/messages?by=key&topic=PagedMessages&key=unknown")
    assert nothing.status == 200
    assert "<dd>PagedMessages</dd>" in nothing.text
    assert "No message was found." in nothing.text

    for message_id in (unique_id, offset_id):
        page = browser.answered(f"/messages/{message_id}?topic=PagedMessages")
        assert page.status == 200, page.text
        assert "&#34;n&#34;: 3" in page.text
        assert "colour" in page.text
    assert len(browser.answered("/messages?by=time&topic=PagedMessages&begin=0&format=csv").text.splitlines()) == 7


def test_whole_body_of_a_message_is_downloaded(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedBodies", 1)
    bodies = [os.urandom(100_000), b"<script>alert(1)</script>" * 50_000]  # clients compress the second

    async def main() -> list[str]:
        async with producing(server, "paged-bodies") as producer:
            return [(await producer.send(Message("PagedBodies", body))).offset_message_id for body in bodies]

    for offset_id, body in zip(run(main()), bodies, strict=True):
        link = f"/messages/{offset_id}/body"
        assert f'href="{link}" download>' in browser.get(f"/messages/{offset_id}").text
        for path in (link, f"/api/v1{link}"):
            page = browser.get(path)
            assert (page.status, page.body) == (200, body)
            assert page.headers["content-type"] == "application/octet-stream"
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["content-disposition"] == f'attachment; filename="{offset_id}.bin"'
    assert browser.get("/messages/7F00000100002A9F0000000000000000/body").status == 404


def test_failed_search_is_an_error_and_never_an_empty_list(browser: Browser) -> None:
    assert browser.answered("/messages?by=time&topic=NoSuchTopicHere&begin=0").status == 404
    unknown = browser.get("/messages?by=id&id=7F00000100002A9F0000000000000000")
    assert unknown.status == 404
    assert "topics has a message with the id" in unknown.text


def test_message_is_tracked_and_pushed_to_a_client(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedPush", 1)
    sent = client.send("PagedPush", 1)
    client.consume("paged-push", "PagedPush")
    group = "paged-push-group"
    try:
        assert_exactly(client.receive("paged-push", 1), sent)
        (row,) = rows(browser, "by=time&topic=PagedPush&begin=0")
        path = f"/messages/{row['offset_id']}?topic=PagedPush"

        def is_consumed() -> bool:
            groups = browser.read(path).get("groups", {"rows": []})["rows"]
            return [(one["group"], one["state"]) for one in groups] == [(group, "offset is beyond it")]

        wait_until(is_consumed, 60, "the message's page shows that the group has consumed it")
        (member,) = browser.read(f"/groups/{group}")["members"]["rows"]
        pushed = browser.send(f"/messages/{row['offset_id']}/push", {"group": group, "client": member["client"]})
        assert pushed.status == 303, pushed.text
        assert "CR_SUCCESS" in browser.answered(pushed.headers["location"]).text
    finally:
        client.stop("paged-push")


def test_copies_of_a_message_reach_all_groups_or_one(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedCopies", 1)
    sent = client.send("PagedCopies", 1)
    for name in ("copies-first", "copies-second"):
        client.consume(name, "PagedCopies")
    try:
        for name in ("copies-first", "copies-second"):
            assert_exactly(client.receive(name, 1), sent)
        (row,) = rows(browser, "by=time&topic=PagedCopies&begin=0")
        page = f"/messages/{row['offset_id']}/resend"

        copied = browser.send(page, {})
        assert copied.status == 303, copied.cause
        for name in ("copies-first", "copies-second"):
            _, copy = client.receive(name, 2)
            assert copy["msgId"] != sent[0]["msgId"]
            assert (copy["keys"], copy["tags"]) == (sent[0]["keys"], sent[0]["tags"])
            assert copy["bodySha256"] == sent[0]["bodySha256"]
            assert own_properties(copy) == own_properties(sent[0])

        copied = browser.send(page, {"group": "copies-first-group"})
        assert copied.status == 303, copied.cause
        wait_until(lambda: len(client.received("copies-first")) == 3, 60, "the copy for the first group")
        *_, copy = client.received("copies-first")
        assert (copy["topic"], copy["bodySha256"]) == ("PagedCopies", sent[0]["bodySha256"])
        assert own_properties(copy) == own_properties(sent[0])
        assert "%RETRY%copies-first-group" in browser.get(copied.headers["location"]).text
        assert len(client.received("copies-second")) == 2, "the copy was for the first group only"

        pushed = browser.send(f"/messages/{row['offset_id']}/push", {"group": "copies-second-group"})
        assert pushed.status == 303, pushed.cause
        entries = browser.read("/audit?filter=message.resend")
        assert [entry["outcome"] for entry in entries["audit"]["rows"]] == ["done", "done"]
    finally:
        client.stop("copies-first", "copies-second")


def own_properties(message: dict[str, Any]) -> dict[str, str]:
    """The properties that the program set which sent the message."""
    return {name: value for name, value in message["properties"].items() if not name.isupper()}
