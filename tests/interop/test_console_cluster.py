"""Pages of the cluster over Apache's servers and ours: what the console changes is seen by mqadmin, and the reverse."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.client import Client
from support.console import Browser, RunningConsole
from support.servers import Server, wait_until


@pytest.fixture(scope="module")
def browser(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("console")
    with RunningConsole(folder, server.name_server, api_timeout=30) as console:
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


def row_of(browser: Browser, server: Server) -> dict[str, Any]:
    rows = read(browser, "/cluster")["brokers"]["rows"]
    return next(row for row in rows if row["address"] == server.broker)


def mqadmin(client: Client, *arguments: str) -> str:
    """What Apache's command line prints."""
    printed: str = client.call("mqadmin", arguments=[*arguments, "-n", client.server.name_server])
    return printed


def option(browser: Browser, page: str, key: str) -> str | None:
    rows = read(browser, f"{page}?filter={key}")["options"]["rows"]
    return next((row["value"] for row in rows if row["key"] == key), None)


def test_lists_and_pages_show_brokers_and_name_servers(browser: Browser, server: Server) -> None:
    wait_until(lambda: row_of(browser, server)["writes"] == "allowed", 60, "the broker with its routes")
    # Apache's broker cannot tell its figures in the first second after its start.
    wait_until(lambda: row_of(browser, server)["problem"] == "", 60, "figures of the broker")
    row = row_of(browser, server)
    assert (row["role"], row["id"], row["problem"], row["version"][:4]) == ("master", 0, "", "V4_9")
    assert None not in (row["out_today"], row["disk_used_percent"], row["started"])
    # Apache's broker reports rates some time after its start.
    wait_until(lambda: row_of(browser, server)["in_per_second"] is not None, 60, "rates")
    [name_server] = read(browser, "/cluster")["name_servers"]["rows"]
    assert name_server["address"] == server.name_server
    assert server.broker in name_server["brokers"]
    figures = read(browser, f"/cluster/brokers/{quote(server.broker, safe='')}?figures.size=250")["figures"]
    assert {"brokerVersionDesc", "commitLogMaxOffset", "putTps"} <= {one["name"] for one in figures["rows"]}
    for page in ("/cluster", f"/cluster/brokers/{server.broker}", f"/cluster/name-servers/{server.name_server}"):
        wait_until(lambda page=page: browser.get(page).status == 200, 60, page)  # type: ignore[misc]


def test_changed_options_are_seen_by_mqadmin_and_the_reverse(browser: Browser, server: Server, client: Client) -> None:
    page = f"/cluster/brokers/{quote(server.broker, safe='')}"
    before = option(browser, page, "defaultQueryMaxNum")
    assert before is not None
    changed = browser.send(page, {"key": "defaultQueryMaxNum", "value": "29"})
    assert changed.status == 303, changed.cause
    said = mqadmin(client, "getBrokerConfig", "-b", server.broker)
    assert any(line.split() == ["defaultQueryMaxNum", "=", "29"] for line in said.splitlines()), said
    mqadmin(client, "updateBrokerConfig", "-b", server.broker, "-k", "defaultQueryMaxNum", "-v", before)
    wait_until(lambda: option(browser, page, "defaultQueryMaxNum") == before, 60, "the change by mqadmin")
    assert browser.send(page, {"key": "noSuchOption", "value": "1"}).status == 502


def test_writes_stopped_in_the_routes_are_seen_by_mqadmin_and_the_reverse(
    browser: Browser, server: Server, client: Client
) -> None:
    client.create_topic("StoppedWrites", 1)
    name = row_of(browser, server)["broker"]
    page = f"/cluster/writes/{name}"

    def permission() -> str:
        return mqadmin(client, "topicRoute", "-t", "StoppedWrites")

    stopped = browser.send(f"{page}/stop", {"way": "routes"})
    assert stopped.status == 303, stopped.cause
    try:
        assert '"perm":4' in permission().replace(" ", "")
        wait_until(lambda: read(browser, page)["state"] == "stopped in the routes", 60, "the page to show it")
    finally:
        mqadmin(client, "addWritePerm", "-b", name)
    wait_until(lambda: read(browser, page)["state"] == "allowed", 60, "the permission added by mqadmin")
    assert '"perm":6' in permission().replace(" ", "")
    mqadmin(client, "wipeWritePerm", "-b", name)
    allowed = browser.send(f"{page}/allow", {"way": "routes"})
    assert allowed.status == 303, allowed.cause
    assert '"perm":6' in permission().replace(" ", "")


def test_broker_that_refuses_messages_is_on_the_dashboard(browser: Browser, server: Server, client: Client) -> None:
    name = row_of(browser, server)["broker"]
    page = f"/cluster/writes/{name}"
    stopped = browser.send(f"{page}/stop", {"way": "broker"})
    assert stopped.status == 303, stopped.cause
    try:
        assert "brokerPermission=4" in mqadmin(client, "getBrokerConfig", "-b", server.broker).replace(" ", "")
        [found] = read(browser, "/")["stopped"]
        assert 0 < found.pop("disk_used_percent") < 100
        assert found == {"broker": name, "state": "stopped on the broker", "page": page}
    finally:
        mqadmin(client, "updateBrokerConfig", "-b", server.broker, "-k", "brokerPermission", "-v", "6")
    wait_until(lambda: read(browser, "/")["stopped"] == [], 60, "the permission given by mqadmin")
