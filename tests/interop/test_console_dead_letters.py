"""Pages of dead letters over real clusters, Apache's and ours."""

import asyncio
import json
from typing import Any

from headrace import Message, Reject
from headrace.client.consuming.received_message import ReceivedMessage
from support.console import Browser
from support.consuming import Gathered, create_topic, eventually, push
from support.sdk import DEADLINE_S, producing, run
from support.servers import Server, wait_until

PAYLOAD = "<img src=x onerror=alert(1)>"


def give_up(server: Server, topic: str, group: str, bodies: list[bytes]) -> None:
    """Makes dead letters with a key and a property."""

    async def main() -> None:
        seen: list[bytes] = []

        def handler(message: ReceivedMessage) -> None:
            seen.append(message.body)
            raise Reject("of no use")

        await create_topic(server, topic, 1)
        async with push(server, group, topic, handler):
            async with producing(server, "dead-letters") as producer:
                for number, body in enumerate(bodies):
                    properties = {"colour": PAYLOAD}
                    await producer.send(Message(topic, body, "tag", f"key-{number}", properties=properties))
            await eventually(lambda: sorted(seen) == sorted(bodies), "all are given up")

    run(main())


def letters(browser: Browser, group: str, count: int, query: str = "") -> list[dict[str, Any]]:
    """The dead letters that the page shows, once there are so many."""

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = browser.read(f"/dead-letters/{group}{query}")["letters"]["rows"]
        return found

    wait_until(lambda: len(rows()) == count, 60, f"{count} dead letters of {group}")
    return rows()


def press_twice_for_one(browser: Browser, group: str, offset_id: str) -> None:
    for _ in range(2):
        done = browser.send(f"/dead-letters/{group}/resend", {"message": offset_id, "to": "group"})
        assert done.status == 303, done.cause


def press_twice_for_all(browser: Browser, group: str) -> None:
    shown = browser.read(f"/dead-letters/{group}")
    assert (shown["count"], len(shown["ranges"])) == (4, 1)
    for expected in (3, 0):
        form = {"range": shown["ranges"][0], "to": "group", "rate": "100"}
        started = browser.send(f"/dead-letters/{group}/resend-all", form)
        assert started.status == 303, started.cause

        def is_finished() -> bool:
            return bool(browser.read(f"/dead-letters/{group}/progress")["run"]["state"] == "finished")

        wait_until(is_finished, 60, "the run")
        sent = browser.read(f"/dead-letters/{group}/progress")["run"]
        assert (sent["sent"], sent["skipped"]) == (expected, 4 - expected)


def test_dead_letters_are_shown_exported_and_sent_again_once(browser: Browser, server: Server) -> None:
    topic, group = "PagedDead", "paged-dead"
    bodies = [PAYLOAD.encode(), b"\xff\x00 no text", b'{"n": 2}', b"three"]
    give_up(server, topic, group, bodies)
    rows = sorted(letters(browser, group, 4), key=lambda row: row["keys"])
    assert [row["keys"] for row in rows] == [["key-0"], ["key-1"], ["key-2"], ["key-3"]]
    assert {row["original_topic"] for row in rows} == {topic}
    assert all(row["original_id"] and row["retries"] == 1 and row["resent_at"] is None for row in rows)

    listed = browser.read("/dead-letters?filter=paged-dead")["groups"]["rows"]
    assert [(row["group"], row["messages"], row["problem"]) for row in listed] == [(group, 4, "")]
    page = browser.answered(f"/dead-letters/{group}")
    assert "&lt;img src=x" in page.text
    assert PAYLOAD not in page.text
    assert browser.read(f"/dead-letters/{group}?end=2020-01-01")["count"] == 0
    assert browser.read(f"/dead-letters/{group}?begin={max(row['stored_at'] for row in rows)}")["count"] >= 1

    handled = browser.send(f"/dead-letters/{group}/handle", {"message": rows[0]["offset_id"], "note": PAYLOAD})
    assert handled.status == 303, handled.cause
    assert [row["keys"] for row in letters(browser, group, 1, "?state=handled")] == [["key-0"]]
    assert PAYLOAD not in browser.get(f"/dead-letters/{group}?state=handled").text
    exported = [json.loads(one) for one in browser.answered(f"/dead-letters/{group}/export").text.splitlines()]
    assert sorted((one["keys"], one["handled_by"], one["note"]) for one in exported if one["handled_at"]) == [
        (["key-0"], "admin", PAYLOAD)
    ]
    assert browser.read("/dead-letters?filter=paged-dead")["groups"]["rows"][0]["unhandled"] == 3
    undone = browser.send(f"/dead-letters/{group}/unhandle", {"message": rows[0]["offset_id"]})
    assert undone.status == 303, undone.cause
    assert len(letters(browser, group, 4)) == 4

    exported = browser.get(f"/api/v1/dead-letters/{group}/export?format=jsonl").text.splitlines()
    lines = sorted((json.loads(line) for line in exported), key=lambda line: line["keys"])
    assert [line["body"] for line in lines] == [PAYLOAD, None, '{"n": 2}', "three"]
    assert lines[1]["body_base64"] == "/wAgbm8gdGV4dA=="
    assert lines[0]["properties"]["colour"] == PAYLOAD
    sheet = browser.get(f"/dead-letters/{group}/export?format=csv")
    assert sheet.headers["content-type"].startswith("text/csv")
    assert len(sheet.text.splitlines()) == 5
    assert sheet.text.splitlines()[0].endswith(",resent_at,copy_id,handled_at,handled_by,note")

    async def main() -> None:
        again = Gathered()
        others = Gathered()
        async with push(server, group, topic, again), push(server, "paged-dead-others", topic, others):
            await others.receive(sorted(bodies))
            await asyncio.to_thread(press_twice_for_one, browser, group, rows[1]["offset_id"])
            await again.receive([bodies[1]])
            await asyncio.to_thread(press_twice_for_all, browser, group)
            await again.receive(sorted(bodies))
            assert sorted(message.body for message in again.messages) == sorted(bodies)
            assert {message.topic for message in again.messages} == {topic}
            assert all(message.properties["colour"] == PAYLOAD for message in again.messages)
            assert sorted(message.body for message in others.messages) == sorted(bodies), "only the group gets copies"

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))  # `run` would find the console's own threads
    run_page = browser.answered(f"/dead-letters/{group}/progress")
    assert run_page.status == 200, run_page.cause
    assert letters(browser, group, 0) == []
    rows = letters(browser, group, 4, "?state=handled")
    assert all(row["resent_at"] and row["copy_id"] and row["handled_by"] == "admin" for row in rows)
    exported = [json.loads(one) for one in browser.answered(f"/dead-letters/{group}/export").text.splitlines()]
    done = ("resent_at", "copy_id", "handled_at", "handled_by", "note")
    assert {one["id"]: [one[key] for key in done] for one in exported} == {
        row["id"]: [row[key] for key in done] for row in rows
    }
    message = browser.answered(f"/messages/{rows[0]['offset_id']}")
    assert f"/dead-letters/{group}/resend" in message.text
    assert browser.send(f"/messages/{rows[0]['offset_id']}/resend", {}).status == 400


def test_group_without_members_is_named_and_gets_its_copy_when_one_connects(browser: Browser, server: Server) -> None:
    group = "later-member"
    give_up(server, "PagedDeadLater", group, [b"one"])
    (row,) = letters(browser, group, 1)
    warning = f"The group {group} has no connected member."
    pages = (f"/dead-letters/{group}", f"/messages/{row['offset_id']}")
    wait_until(lambda: browser.read(pages[0])["without_members"] == [group], 60, "the member to be gone")
    for page in pages:
        assert warning in browser.answered(page).text
    done = browser.send(f"{pages[0]}/resend", {"message": row["offset_id"], "to": "group"})
    assert done.status == 303, done.cause

    async def main() -> None:
        again = Gathered()
        async with push(server, group, "PagedDeadLater", again):
            await again.receive([b"one"])
            for page in pages:
                assert warning not in (await asyncio.to_thread(browser.get, page)).text

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))  # `run` would find the console's own threads


def test_group_without_dead_letters_is_not_an_error_and_a_foreign_message_is(browser: Browser, server: Server) -> None:
    give_up(server, "PagedDeadOther", "other-group", [b"one"])
    (row,) = letters(browser, "other-group", 1)
    empty = browser.get("/dead-letters/never-gave-up")
    assert "There are no dead letters in this period." in empty.text
    assert browser.get("/dead-letters/never-gave-up/export").status == 404
    refused = browser.send("/dead-letters/never-gave-up/resend", {"message": row["offset_id"]})
    assert refused.status == 400
    assert "not in %DLQ%never-gave-up" in refused.cause
    assert browser.send("/dead-letters/other-group/cancel", {}).status == 404
