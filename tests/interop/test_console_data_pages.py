"""Dashboard, search and live tail over real clusters, Apache's and ours."""

import http.client
from contextlib import closing
from typing import Any

from headrace import Message
from support.client import Client
from support.console import Browser
from support.sdk import producing, run
from support.servers import Server, wait_until

TOPIC = "AASearched"


def send(server: Server, count: int) -> str:
    """Sends messages with keys; the unique id of the last one."""

    async def main() -> str:
        async with producing(server, "searched-messages") as producer:
            for number in range(count):
                result = await producer.send(Message(TOPIC, b"x", keys=f"searched-key-{number}"))
            return result.message_id

    return run(main())


def test_search_finds_topics_and_messages_and_the_tail_shows_them(
    browser: Browser, server: Server, client: Client
) -> None:
    client.create_topic(TOPIC, 1)
    message_id = send(server, 3)
    client.await_pullable(TOPIC, 3)

    def hits(text: str) -> list[tuple[str, str]]:
        return [(row["kind"], row["name"]) for row in browser.read(f"/search?q={text}")["results"]["rows"]]

    wait_until(lambda: hits(TOPIC.lower()) == [("topic", TOPIC)], 60, "the topic")
    wait_until(lambda: hits("searched-key-2") == [("message", message_id)], 60, "the message by its key")
    wait_until(lambda: hits(message_id) == [("message", message_id)], 60, "the message by its id")

    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
    with closing(connection):
        headers = {"Cookie": f"headrace_session={browser.cookies['headrace_session']}", "Last-Event-ID": "1"}
        connection.request("GET", f"{browser.base_path}/topics/{TOPIC}/tail/events", headers=headers)
        with closing(connection.getresponse()) as answer:
            assert answer.status == 200
            data = ""
            while message_id not in data:
                line = answer.readline().decode()
                assert line, "the stream ended"
                data += line
    assert data.count("event: message") == 2


def test_dashboard_has_the_disk_of_each_broker_and_charts(browser: Browser) -> None:
    answers: list[dict[str, Any]] = []

    def has_disks() -> bool:
        answers.append(browser.read("/"))
        return bool(answers[-1]["disks"]["rows"])

    wait_until(has_disks, 60, "the disks")
    answer = answers[-1]
    [row] = answer["disks"]["rows"]
    assert 0 < row["used_percent"] < 100
    assert row["lasts_weekend"] in {"yes", "no", "unknown"}
    assert answer["weekend"]["answer"] == row["lasts_weekend"]
    assert [chart["lines"][0]["series"] for chart in answer["charts"]["charts"]][:2] == ["cluster.in", "cluster.lag"]
    wait_until(lambda: browser.get("/").status == http.client.OK, 60, "the page")
