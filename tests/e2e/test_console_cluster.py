"""The cluster in the console, on an appliance: figures, configuration with its sources, and writes to a broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from urllib.parse import quote

import pytest

from headrace.sync import Admin
from support.appliance import Appliance
from support.console import PASSWORD, Browser, first_administrator, is_up
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
SMALL = {"mappedFileSizeCommitLog": "16777216"}


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conf") / "broker.conf"
    path.write_text("fileReservedTime=48\n")
    return path


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory, conf: Path) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("cluster") / "data"
    port = free_port()
    with Appliance(data, settings=SMALL, more=("-c", str(conf)), console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        yield appliance
        log = (appliance.data / "logs" / "headrace.log").read_text()
        assert "request failed path" not in log, log[log.index("request failed path") :][:4_000]


@pytest.fixture(scope="module")
def admin(appliance: Appliance) -> Browser:
    port = int(appliance.command[appliance.command.index("--console-port") + 1])
    return first_administrator(appliance.data / "console", port)


@pytest.fixture(scope="module")
def operator(admin: Browser) -> Browser:
    assert admin.send("/users", {"user": "olga", "password": PASSWORD, "role": "operator"}).status == 303
    browser = Browser(admin.port)
    assert browser.log_in("olga", PASSWORD).status == 303
    return browser


def broker_page(appliance: Appliance) -> str:
    return f"/cluster/brokers/{quote(appliance.broker, safe='')}"


def options(browser: Browser, page: str, **arguments: str) -> dict[str, Any]:
    query = "&".join(f"{key}={value}" for key, value in {"size": "250", **arguments}.items())
    return {row["key"]: row for row in browser.read(f"{page}?{query}")["options"]["rows"]}


def test_list_has_brokers_with_figures_and_name_servers_with_their_brokers(
    appliance: Appliance, admin: Browser
) -> None:
    answer = admin.read("/cluster")
    [broker] = answer["brokers"]["rows"]
    assert (broker["address"], broker["role"], broker["writes"], broker["problem"]) == (
        appliance.broker,
        "master",
        "allowed",
        "",
    )
    assert broker["version"].startswith("V4_9")
    assert broker["in_today"] is not None
    [name_server] = answer["name_servers"]["rows"]
    assert (name_server["address"], name_server["brokers"]) == (appliance.name_server, [appliance.broker])
    for page in ("/cluster", broker_page(appliance), f"/cluster/writes/{broker['broker']}"):
        assert admin.answered(page).status == 200, page
    assert "commitLogMaxOffset" in admin.answered(broker_page(appliance) + "?figures.filter=commitLogMax").text


def test_each_option_has_the_source_of_its_value(appliance: Appliance, admin: Browser, conf: Path) -> None:
    found = options(admin, broker_page(appliance))
    kept = found["fileReservedTime"]
    assert (kept["value"], kept["origin"], kept["source"]) == ("48", "file", str(conf))
    assert found["mappedFileSizeCommitLog"]["origin"] == "command line"
    assert found["listenPort"]["source"] == "--port"
    assert found["deleteWhen"]["origin"] == "default"
    assert found["haListenPort"]["origin"] == "fixed, not configurable"
    assert [key for key, row in found.items() if row["origin"].startswith("changed")] == []
    assert set(options(admin, broker_page(appliance), shown="set")) >= {"fileReservedTime", "listenPort"}
    assert "deleteWhen" not in options(admin, broker_page(appliance), shown="set")
    name_server = f"/cluster/name-servers/{quote(appliance.name_server, safe='')}"
    of_name_server = options(admin, name_server)
    assert of_name_server["brokerChannelExpiredTime"]["origin"] == "default"
    assert [key for key, row in of_name_server.items() if row["origin"].startswith("changed")] == []
    assert "brokerChannelExpiredTime" in admin.answered(f"{name_server}?key=brokerChannelExpiredTime").text


def test_changed_option_is_seen_by_the_sdk_and_saved(
    appliance: Appliance, admin: Browser, operator: Browser, conf: Path
) -> None:
    page = broker_page(appliance)
    form = {"key": "fileReservedTime", "value": "49"}
    assert operator.send(page, form).status == 403
    changed = admin.send(page, form)
    assert changed.status == 303, changed.cause
    with Admin(appliance.name_server) as sdk:
        assert sdk.broker_config(appliance.broker)["fileReservedTime"] == "49"
        sdk.update_broker_config(appliance.broker, {"deleteWhen": "05"})
    assert "fileReservedTime=49" in conf.read_text()
    wait_until(lambda: options(admin, page)["deleteWhen"]["value"] == "05", 10, "the SDK's change")
    row = options(admin, page)["fileReservedTime"]
    assert (row["value"], row["origin"], row["source"], row["started_with"]) == (
        "49",
        "changed while running, saved",
        str(conf),
        "48",
    )
    name_server = f"/cluster/name-servers/{quote(appliance.name_server, safe='')}"
    changed = admin.send(name_server, {"key": "brokerChannelExpiredTime", "value": "130000"})
    assert changed.status == 303, changed.cause
    row = options(admin, name_server)["brokerChannelExpiredTime"]
    assert (row["value"], row["origin"]) == ("130000", "changed while running, until the next restart")


@pytest.mark.parametrize(
    ("form", "status", "cause"),
    [
        ({"key": "listenPort", "value": "1"}, 502, "cannot be changed while the broker runs"),
        ({"key": "noSuchOption", "value": "1"}, 502, "unknown option noSuchOption"),
        ({"key": "fileReservedTime", "value": "many"}, 502, "expected a whole number"),
        ({"key": "brokerConfigPath", "value": "/etc/x"}, 502, "black list"),
        ({"key": "a=b\nc", "value": "1"}, 400, "unknown option"),
        ({"key": "fileReservedTime", "value": "1\nrocketmqHome=/x"}, 400, "line break"),
    ],
)
def test_refused_changes_have_their_cause(
    appliance: Appliance, admin: Browser, form: dict[str, str], status: int, cause: str
) -> None:
    answer = admin.send(broker_page(appliance), form)
    assert (answer.status, cause in answer.cause) == (status, True), answer.cause


def test_writes_are_stopped_in_the_routes_and_at_the_broker_and_allowed_again(
    appliance: Appliance, admin: Browser, operator: Browser
) -> None:
    [row] = admin.read("/cluster")["brokers"]["rows"]
    page = f"/cluster/writes/{row['broker']}"

    def state() -> str:
        return str(operator.read(page)["state"])

    def stopped_on_the_dashboard() -> list[dict[str, Any]]:
        stopped: list[dict[str, Any]] = operator.read("/")["stopped"]
        return stopped

    link = f'<a href="{page}">Stop or allow writes</a>'
    assert stopped_on_the_dashboard() == []
    assert link not in operator.get("/").text
    with Admin(appliance.name_server) as sdk:
        sdk.create_topic("Stopped")
        assert sdk.publish_queues("Stopped")
        stopped = operator.send(f"{page}/stop", {"way": "routes"})
        assert stopped.status == 303, stopped.cause
        assert "1 of 1 name servers stopped writes to" in operator.get(page).text
        assert state() == "stopped in the routes"
        assert stopped_on_the_dashboard() == [
            {"broker": row["broker"], "state": state(), "page": page, "disk_used_percent": ANY}
        ]
        assert not sdk.publish_queues("Stopped")
        assert operator.send(f"{page}/allow", {"way": "routes"}).status == 303
        assert state() == "allowed"
        assert sdk.publish_queues("Stopped")

        refusing = operator.send(f"{page}/stop", {"way": "broker"})
        assert refusing.status == 303, refusing.cause
        assert state() == "stopped on the broker"
        assert sdk.broker_config(appliance.broker)["brokerPermission"] == "4"
        assert "stopped on the broker" in admin.get("/cluster").text
        assert stopped_on_the_dashboard() == [
            {"broker": row["broker"], "state": state(), "page": page, "disk_used_percent": ANY}
        ]
        dashboard = operator.get("/").text
        assert f"{row['broker']}: writes are stopped on the broker. {link}" in dashboard
        assert operator.send(f"{page}/allow", {"way": "broker"}).status == 303
        assert sdk.broker_config(appliance.broker)["brokerPermission"] == "6"
        wait_until(lambda: state() == "allowed", 10, "the broker to register its permission")
    assert stopped_on_the_dashboard() == []
    assert operator.send(f"{page}/stop", {"way": "both"}).status == 400


def test_other_addresses_are_never_connected_to(appliance: Appliance, admin: Browser) -> None:
    for page in ("/cluster/brokers/127.0.0.1:1", "/cluster/name-servers/127.0.0.1:1", "/cluster/writes/nowhere"):
        assert admin.get(page).status == 404, page
    assert admin.send("/cluster/brokers/127.0.0.1:1", {"key": "a", "value": "b"}).status == 404
    assert admin.get(f"/cluster/name-servers/{appliance.broker}").status == 404
