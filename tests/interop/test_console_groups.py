"""Pages of consumer groups over real clusters, Apache's and ours, with the SDK's and the Java client's members."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.client import Client, assert_exactly
from support.console import Browser, RunningConsole
from support.servers import Server, wait_until


@pytest.fixture(scope="module")
def browser(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("console")
    with RunningConsole(folder, server.name_server, api_timeout=30) as console:
        yield console.administrator()


def read(browser: Browser, path: str) -> dict[str, Any]:
    """The answer of the API, {} while it fails: on a busy machine a member may answer too late."""
    answer = browser.get(f"/api/v1{path}")
    return answer.json() if answer.status == 200 else {}


def listed(browser: Browser, group: str) -> dict[str, Any]:
    """The group's row in the list; {} if there is none without a problem."""
    rows = read(browser, f"/groups?filter={group}").get("groups", {"rows": []})["rows"]
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
        shown.update(read(browser, f"/groups/{group}"))
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
        assert link in browser.get(f"/groups/{group}").text
        wait_until(
            lambda: "PullMessageService" in read(browser, f"{link}?stacks=yes").get("stacks", ""),
            60,
            "the member's threads",
        )
    finally:
        client.stop("paged")

    sent = client.send("PagedGroup", 7)

    def is_behind() -> bool:
        row = listed(browser, group)
        return row.get("state") == "offline" and row["lag"] == len(sent) and row["delay"] > 0

    wait_until(is_behind, 60, "the list shows that nobody consumes the new messages")


def test_unknown_group_is_not_found(browser: Browser) -> None:
    answer = browser.get("/groups/nobody-has-this")
    assert answer.status == 404
    assert "nobody-has-this" in answer.text
