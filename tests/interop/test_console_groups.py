"""Pages of consumer groups over real clusters, Apache's and ours, with the SDK's and the Java client's members."""

import html
from typing import Any
from urllib.parse import quote, urlencode

from headrace import Admin
from support.client import Client, assert_exactly
from support.console import Browser
from support.sdk import patient, run
from support.servers import Server, wait_until


def listed(browser: Browser, group: str) -> dict[str, Any]:
    """The group's row in the list; {} if there is none without a problem."""
    rows = browser.read(f"/groups?filter={group}").get("groups", {"rows": []})["rows"]
    return next((row for row in rows if row["group"] == group and not row["problem"]), {})


def test_list_and_page_show_the_member_and_the_lag_of_a_group(browser: Browser, client: Client) -> None:
    client.create_topic("PagedGroup", 2)
    client.consume("paged", "PagedGroup")
    sent = client.send("PagedGroup", 20)
    assert_exactly(client.receive("paged", 20), sent)
    group = "paged-group"

    def is_consumed() -> bool:
        row = listed(browser, group)
        return row.get("lag") == 0 and row["topics"] == ["PagedGroup"]

    def is_shown() -> bool:
        shown.update(browser.read(f"/groups/{group}"))
        return shown.get("problems") == [] and shown["findings"] == []

    shown: dict[str, Any] = {}
    try:
        wait_until(is_consumed, 60, "the list shows the group without lag")
        row = listed(browser, group)
        assert (row["state"], row["members"], row["mode"], row["delay"]) == ("online", 1, "clustering", 0)

        wait_until(is_shown, 60, "the page shows that every queue is read")
        assert shown["summary"]["type"] == "push"
        (member,) = shown["members"]["rows"]
        owners = {(one["queue"], one["client"]) for one in shown["queues"]["rows"] if one["topic"] == "PagedGroup"}
        assert owners == {(0, member["client"]), (1, member["client"])}
        assert {one["topic"] for one in shown["subscriptions"]["rows"]} == {"PagedGroup", f"%RETRY%{group}"}
        assert shown["settings"]["rows"][0]["retries"] == 16

        link = f"/groups/{group}/members/{quote(member['client'], safe='')}"
        assert link in browser.answered(f"/groups/{group}").text
        wait_until(
            lambda: "PullMessageService" in browser.read(f"{link}?stacks=yes").get("stacks", ""),
            60,
            "the member's threads",
        )
    finally:
        client.stop("paged")

    sent = client.send("PagedGroup", 7)

    def is_behind() -> bool:
        row = listed(browser, group)
        return row.get("state") == "offline" and row["lag"] == len(sent) and (row["delay"] or 0) > 0

    wait_until(is_behind, 60, "the list shows that nobody consumes the new messages")
    reason = "No member is connected, so nobody consumes these messages."
    wait_until(lambda: reason in browser.answered(f"/groups/{group}").text, 60, "the page names the reason of the lag")


def test_unknown_group_is_not_found(browser: Browser) -> None:
    answer = browser.get("/groups/nobody-has-this")
    assert answer.status == 404
    assert "nobody-has-this" in answer.text


def test_group_is_created_reset_copied_and_deleted(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedReset", 1)
    client.send("PagedReset", 10)
    client.await_pullable("PagedReset", 10)
    group = "paged-reset"
    made = browser.send("/new-group", {"name": group, "retries": "3"})
    assert (made.status, made.headers.get("location")) == (303, f"/groups/{group}"), made.text
    assert browser.send("/new-group", {"name": group}).status == 400

    changed = browser.send(f"/groups/{group}/settings", {"retries": "5", "may_broadcast": "false"})
    assert changed.status == 303, changed.text
    (settings,) = browser.read(f"/groups/{group}")["settings"]["rows"]
    assert (settings["retries"], settings["may_broadcast"], settings["is_enabled"]) == (5, False, True)

    async def offset(of: str, store: int | None = None) -> int | None:
        async with Admin(patient(server)) as admin:
            (queue,) = await admin.subscribe_queues("PagedReset")
            if store is not None:
                await admin.update_consumer_offset(of, queue, store)
            return await admin.consumer_offset(of, queue)

    run(offset(group, 7))
    preview = browser.read(f"/groups/{group}/reset?topic=PagedReset&to=start")
    (row,) = preview["changes"]["rows"]
    assert (row["stored_offset"], row["target_offset"], row["skipped"], row["again"], preview["again"]) == (
        7,
        0,
        0,
        7,
        7,
    )
    assert run(offset(group)) == 7, "a preview changes nothing"
    for page in ("/groups", "/new-group", f"/groups/{group}", f"/groups/{group}/reset"):
        assert browser.answered(page).status == 200, page
    assert f'/groups/{group}/clone">Clone offsets to another group</a>' in browser.answered(f"/groups/{group}").text
    confirm = browser.answered(f"/groups/{group}/reset?topic=PagedReset&to=time&time=2026-01-01T00:00")
    assert "0 messages would be skipped, 7 would be consumed again." in confirm.text
    assert '<input type="hidden" name="time" value="2026-01-01T00:00">' in confirm.text

    for form, expected in (
        ({"to": "start"}, 0),
        ({"to": "end"}, 10),
        ({"to": "time", "time": "2026-01-01T00:00:00"}, 0),
        ({"to": "offset", "offset": "4"}, 4),
        ({"to": "offset", "offset": "99"}, 10),
    ):
        done = browser.send(f"/groups/{group}/reset", {"topic": "PagedReset", **form})
        assert done.status == 303, done.text
        assert run(offset(group)) == expected, form

    run(offset("paged-source", 6))
    done = browser.send(f"/groups/{group}/reset", {"topic": "PagedReset", "to": "group", "source": "paged-source"})
    assert done.status == 303, done.text
    assert run(offset(group)) == 6
    for source, status in (("paged-nobody", 400), (group, 400), ("", 400)):
        form = {"topic": "PagedReset", "to": "group", "source": source}
        assert browser.send(f"/groups/{group}/reset", form).status == status
        assert browser.get(f"/groups/{group}/reset?{urlencode(form)}").status == status
    assert run(offset(group)) == 6

    clone = browser.get(f"/groups/{group}/clone?topic=PagedReset&target=paged-target")
    assert "Copies the offsets of paged-reset on PagedReset to paged-target: 1 queues." in clone.text
    done = browser.send(f"/groups/{group}/clone", {"topic": "PagedReset", "target": "paged-target"})
    assert (done.status, done.headers.get("location")) == (303, "/groups/paged-target"), done.text
    assert run(offset("paged-target")) == run(offset(group)) == 6
    # No member has ever connected, so the group has no retry topic.
    (row,) = browser.read("/groups/paged-target")["queues"]["rows"]
    assert (row["topic"], row["consumer_offset"], row["lag"]) == ("PagedReset", 6, 4)
    consumers = browser.read("/topics/PagedReset/consumers")["consumers"]["rows"]
    assert ("paged-target", 4) in {(one["group"], one["lag"]) for one in consumers}

    refused = browser.send(f"/groups/{group}/delete", {"name": "another"})
    assert refused.status == 400
    assert "Type paged-reset to delete it." in refused.text
    deleted = browser.send(f"/groups/{group}/delete", {"name": group})
    assert (deleted.status, deleted.headers.get("location")) == (303, "/groups"), deleted.text
    assert listed(browser, group) == {}


def test_offsets_of_connected_members_are_not_reset_behind_their_back(browser: Browser, client: Client) -> None:
    client.create_topic("PagedOnline", 1)
    sent = client.send("PagedOnline", 5)
    client.consume("paged-online", "PagedOnline")
    try:
        assert_exactly(client.receive("paged-online", 5), sent)
        group = "paged-online-group"
        form = {"topic": "PagedOnline", "to": "offset", "offset": "1"}
        refused = browser.send(f"/groups/{group}/reset", form)
        assert refused.status == 400, refused.text
        assert "connected members" in refused.text
        assert browser.send(f"/groups/{group}/delete", {"name": group}).status == 400
    finally:
        client.stop("paged-online")


def test_group_is_paused_and_resumed_as_mqadmin_sees_it(browser: Browser, server: Server, client: Client) -> None:
    client.create_topic("PagedPause", 4)
    client.consume("paged-pause", "PagedPause")
    group = "paged-pause-group"

    def config() -> str:
        printed: str = client.call("mqadmin", arguments=["getConsumerConfig", "-g", group, "-n", server.name_server])
        return "".join(printed.split())

    try:
        first = client.send("PagedPause", 8)
        assert_exactly(client.receive("paged-pause", 8), first)
        wait_until(lambda: listed(browser, group).get("lag") == 0, 60, "the group without lag")
        paused = browser.send(f"/groups/{group}/pause", {})
        assert paused.status == 303, paused.cause
        assert "consumeEnable=false" in config()
        assert "retryMaxTimes=16" in config()
        second = client.send("PagedPause", 8, first=8)
        wait_until(lambda: listed(browser, group).get("lag") == 8, 60, "the lag of a paused group")
        shown = browser.read(f"/groups/{group}")
        assert (shown["consumption"], shown["summary"]["members"]) == ("paused", 1)
        [row] = [one for one in browser.read("/topics/PagedPause")["groups"]["rows"] if one["group"] == group]
        assert row["lag"] == 8
        assert row["delay"] > 0

        (member,) = shown["members"]["rows"]
        broker = shown["queues"]["rows"][0]["broker"]
        link = f"/topics/PagedPause/consumers?broker={broker}&queue=3"
        assert html.escape(link) in browser.get("/topics/PagedPause").text
        [consumer] = browser.read(link)["consumers"]["rows"]
        assert (consumer["queue"], consumer["group"], consumer["client"]) == (3, group, member["client"])
        assert consumer["lag"] > 0
        assert browser.get(link).status == browser.get("/topics/PagedPause/consumers").status == 200

        resumed = browser.send(f"/groups/{group}/resume", {})
        assert resumed.status == 303, resumed.cause
        assert "consumeEnable=true" in config()
        assert_exactly(client.receive("paged-pause", 16), [*first, *second])
    finally:
        client.stop("paged-pause")
    client.call(
        "mqadmin",
        arguments=["updateSubGroup", "-b", server.broker, "-g", group, "-s", "false", "-n", server.name_server],
    )
    wait_until(lambda: browser.read(f"/groups/{group}")["consumption"] == "paused", 60, "the pause by mqadmin")
