"""Pages of messages over real clusters, Apache's and ours."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Message
from support.client import Client, assert_exactly
from support.console import Browser, RunningConsole
from support.sdk import producing, run
from support.servers import Server, wait_until


@pytest.fixture(scope="module")
def browser(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with RunningConsole(tmp_path_factory.mktemp("console"), server.name_server, api_timeout=30) as console:
        yield console.administrator()


def read(browser: Browser, path: str) -> dict[str, Any]:
    """The answer of the API. It fails while the machine is too busy for the page's deadline."""
    answers: list[dict[str, Any]] = []

    def is_answered() -> bool:
        answer = browser.get(f"/api/v1{path}")
        if answer.status == 200:
            answers.append(answer.json())
        return bool(answers)

    wait_until(is_answered, 60, path)
    return answers[0]


def rows(browser: Browser, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(browser, f"/messages?{query}").get("messages", {"rows": []})["rows"]
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
    assert browser.get("/messages").status == 200
    nothing = browser.get("/messages?by=key&topic=PagedMessages&key=unknown")
    assert nothing.status == 200
    assert "Searched: topic PagedMessages" in nothing.text
    assert "No message was found." in nothing.text

    for message_id in (unique_id, offset_id):
        page = browser.get(f"/messages/{message_id}?topic=PagedMessages")
        assert page.status == 200, page.text
        assert "&#34;n&#34;: 3" in page.text
        assert "colour" in page.text
    assert len(browser.get("/messages?by=time&topic=PagedMessages&begin=0&format=csv").text.splitlines()) == 7


def test_failed_search_is_an_error_and_never_an_empty_list(browser: Browser) -> None:
    assert browser.get("/messages?by=time&topic=NoSuchTopicHere&begin=0").status == 502
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
            groups = read(browser, path).get("groups", {"rows": []})["rows"]
            return [(one["group"], one["state"]) for one in groups] == [(group, "consumed")]

        wait_until(is_consumed, 60, "the message's page shows that the group has consumed it")
        (member,) = read(browser, f"/groups/{group}")["members"]["rows"]
        pushed = browser.send(f"/messages/{row['offset_id']}/push", {"group": group, "client": member["client"]})
        assert pushed.status == 303, pushed.text
        assert "CR_SUCCESS" in browser.get(pushed.headers["location"]).text
    finally:
        client.stop("paged-push")
