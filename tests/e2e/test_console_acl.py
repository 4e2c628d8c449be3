"""Access control in the console, on an appliance with accounts: trial of rules, changes by requests, and secrets that are never shown."""

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from headrace import BrokerError, Credentials
from headrace.client.settings import ClientConfig
from headrace.sync import Admin
from support.appliance import Appliance
from support.console import PASSWORD, Browser, first_administrator, is_up
from support.html_forms import forms_of
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
SECRET = "secret-of-admin"
PLAIN = f"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: administrator
  secretKey: {SECRET}
  admin: true
- accessKey: billing1
  secretKey: secret-of-billing
  defaultTopicPerm: SUB
  topicPerms:
  - Orders=DENY
"""
SETTINGS = {"aclEnable": "true", "mappedFileSizeCommitLog": "16777216"}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("acl") / "data"
    (data / "conf").mkdir(parents=True)
    (data / "conf" / "plain_acl.yml").write_text(PLAIN)
    port = free_port()
    environment = {**os.environ, "ROCKETMQ_ACCESS_KEY": "administrator", "ROCKETMQ_SECRET_KEY": SECRET}
    with Appliance(data, settings=SETTINGS, environment=environment, console_port=port) as appliance:
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


def stored(appliance: Appliance, access_key: str) -> dict[str, Any]:
    """The account in the broker's file; empty if there is none."""
    content = yaml.safe_load((Path(appliance.data) / "conf" / "plain_acl.yml").read_text())
    return next((one for one in content["accounts"] if one["accessKey"] == access_key), {})


def rows(browser: Browser, path: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.read(path)[table]["rows"]
    return found


def test_accounts_are_listed_without_their_secret_keys(admin: Browser, operator: Browser) -> None:
    found = {row["access_key"]: row for row in rows(admin, "/acl", "accounts")}
    assert (found["billing1"]["default_topic"], found["billing1"]["topics"]) == ("SUB", ["Orders=DENY"])
    [broker] = rows(admin, "/acl", "brokers")
    assert (broker["state"], broker["white_addresses"], broker["problem"]) == ("enabled", ["10.10.103.*"], "")
    pages = ("/acl", "/acl/accounts/billing1", "/acl/new", "/acl/check?resource=Orders", "/audit", "/acl?format=csv")
    for page in pages:
        answer = admin.answered(page)
        assert answer.status == 200, page
        assert "secret-of" not in answer.text, page
    assert operator.answered("/acl").status == 200
    assert operator.get("/acl/accounts/billing1").status == 403
    assert operator.send("/acl/accounts", {"access_key": "intruder1", "admin": "true"}).status == 403


def test_check_names_who_may_do_it_and_the_rule_as_the_command_does(appliance: Appliance, admin: Browser) -> None:
    for action, resource, account in (
        ("pub", "Orders", "billing1"),
        ("sub", "Other", "billing1"),
        ("sub", "group:g", "billing1"),
        ("admin", "", "administrator"),
        ("pub", "Orders", "nobody12"),
    ):
        said = appliance.run(
            "acl",
            "check",
            account,
            action,
            *([resource] if resource else []),
            "--data",
            str(appliance.data),
            check=False,
        ).stdout
        query = urlencode({"action": action, "resource": resource, "account": account})
        [row] = rows(admin, f"/acl/check?{query}", "decisions")
        assert said.startswith(f"{'allowed' if row['allowed'] else 'denied'}: {row['rule']}"), said
    from_white = rows(admin, "/acl/check?action=pub&resource=Orders&account=nobody12&from=10.10.103.7", "decisions")
    assert from_white[0]["rule"] == "globalWhiteRemoteAddresses contains 10.10.103.7"
    everybody = rows(admin, "/acl/check?action=sub&resource=Orders", "decisions")
    assert {row["access_key"]: row["allowed"] for row in everybody}["billing1"] is False


def test_trial_shows_what_would_change_and_saves_nothing(appliance: Appliance, admin: Browser) -> None:
    before = stored(appliance, "billing1")
    query = urlencode({"default_topic": "PUB", "topics": "Orders=SUB", "resource": "Mail"})
    found = {(row["resource"], row["action"]): row for row in rows(admin, f"/acl/accounts/billing1?{query}", "trial")}
    assert (found["Orders", "sub"]["now"], found["Orders", "sub"]["then"]) == (False, True)
    assert found["Orders", "sub"]["rule_then"] == "topicPerms: Orders=SUB"
    assert (found["Mail", "pub"]["now"], found["Mail", "pub"]["then"], found["Mail", "pub"]["changes"]) == (
        False,
        True,
        True,
    )
    assert found["", "admin"]["changes"] is False
    assert admin.get(f"/acl/accounts/billing1?{query}").status == 200
    assert stored(appliance, "billing1") == before
    for wrong in (
        {"topics": "Orders"},
        {"topics": "a=PUB,b=SUB"},
        {"default_topic": "READ"},
        {"white_address": "1.2.3"},
    ):
        answer = admin.get(f"/acl/accounts/billing1?{urlencode({'default_topic': 'PUB', **wrong})}")
        assert answer.status == 400, wrong


def test_new_account_is_created_with_a_secret_key_that_is_shown_once(appliance: Appliance, admin: Browser) -> None:
    form = {"access_key": "created1", "default_topic": "PUB|SUB", "default_group": "SUB", "topics": "Orders=PUB"}
    made = admin.send("/acl/accounts", form)
    assert made.status == 303, made.cause
    shown = re.search(r"shown only now: ([\w-]{32})", html.unescape(admin.get("/acl").text))
    assert shown is not None
    assert shown[1] not in admin.get("/acl").text
    assert shown[1] not in admin.get("/audit?format=jsonl").text
    assert stored(appliance, "created1")["secretKey"] == shown[1]
    config = ClientConfig(appliance.name_server, credentials=Credentials("created1", shown[1]))
    with Admin(config) as sdk, pytest.raises(BrokerError, match="Need admin permission"):
        sdk.update_broker_config(appliance.broker, {"fileReservedTime": 49})
    assert shown[1] not in (appliance.data / "logs" / "headrace.log").read_text()


def test_changed_account_keeps_its_secret_key(appliance: Appliance, admin: Browser) -> None:
    form = {"access_key": "billing1", "default_topic": "DENY", "topics": "", "groups": "billing=SUB"}
    done = admin.send("/acl/accounts", form)
    assert done.status == 303, done.cause
    account = stored(appliance, "billing1")
    assert (account["secretKey"], account["defaultTopicPerm"]) == ("secret-of-billing", "DENY")
    assert (account.get("topicPerms"), account["groupPerms"]) == ([], ["billing=SUB"])
    [row] = [one for one in rows(admin, "/acl", "accounts") if one["access_key"] == "billing1"]
    assert (row["topics"], row["groups"]) == ([], ["billing=SUB"])
    assert admin.send("/acl/accounts", {**form, "secret_key": "another-secret"}).status == 303
    assert stored(appliance, "billing1")["secretKey"] == "another-secret"
    assert "another-secret" not in admin.get("/acl").text + admin.get("/audit?format=jsonl").text


def test_account_is_deleted_by_typing_its_key(appliance: Appliance, admin: Browser) -> None:
    assert admin.send("/acl/accounts", {"access_key": "deleted1", "secret_key": "short-lived"}).status == 303
    assert admin.send("/acl/accounts/deleted1/delete", {"confirm": "deleted"}).status == 400
    assert stored(appliance, "deleted1")
    assert admin.send("/acl/accounts/deleted1/delete", {"confirm": "deleted1"}).status == 303
    assert stored(appliance, "deleted1") == {}
    assert admin.get("/acl/accounts/deleted1").status == 404
    assert admin.send("/acl/accounts/deleted1/delete", {"confirm": "deleted1"}).status == 404


def test_global_white_addresses_are_replaced(appliance: Appliance, admin: Browser) -> None:
    done = admin.send("/acl/white-addresses", {"addresses": "10.1.0.*\r\n10.2.0.1\r\n"})
    assert done.status == 303, done.cause
    assert rows(admin, "/acl", "brokers")[0]["white_addresses"] == ["10.1.0.*", "10.2.0.1"]
    assert admin.send("/acl/white-addresses", {"addresses": "10.1"}).status == 400
    assert admin.send("/acl/white-addresses", {"addresses": ""}).status == 303
    assert rows(admin, "/acl", "brokers")[0]["white_addresses"] == []
    version = rows(admin, "/acl", "brokers")[0]["version"]
    with Admin(ClientConfig(appliance.name_server, credentials=Credentials("administrator", SECRET))) as sdk:
        sdk.update_global_white_addresses(["10.9.9.9"], broker=appliance.broker)
    wait_until(lambda: rows(admin, "/acl", "brokers")[0]["white_addresses"] == ["10.9.9.9"], 10, "the SDK's change")
    assert rows(admin, "/acl", "brokers")[0]["version"] == version + 1


def test_refused_account_is_shown_again_without_its_secret_key(admin: Browser) -> None:
    page = "/acl/new?access_key=refused1&default_topic=DENY&topics=Orders%3DPUB"
    asked = forms_of(admin.get(page).text)
    [form] = [one for one in asked if one.action == "/acl/accounts"]
    refused = admin.send("/acl/accounts", {**form.hidden, "secret_key": "Typed1!\t", "broker": "no-such-broker"}, page)
    assert refused.status >= 400
    [again] = [one for one in forms_of(refused.text) if one.action == "/acl/accounts"]
    assert (again.hidden, again.failure.strip() != "", "Typed1!" in refused.text) == (form.hidden, True, False)
    invalid = admin.get(f"{page}&groups=billing%3DEVERYTHING&white_address=1.2.3.4")
    [form] = [one for one in forms_of(invalid.text) if one.action == "/acl/new" and one.style == "fields"]
    values = dict(form.values)
    assert invalid.status == 400
    assert (values["access_key"], values["groups"], values["white_address"]) == (
        "refused1",
        "billing=EVERYTHING",
        "1.2.3.4",
    )
    assert form.failure.strip()
    page = "/acl/accounts/administrator"
    [form] = [one for one in forms_of(admin.get(page).text) if one.action == f"{page}/delete"]
    refused = admin.send(f"{page}/delete", {**form.hidden, "confirm": "administrat"}, page)
    [form] = [one for one in forms_of(refused.text) if one.action == f"{page}/delete"]
    assert (refused.status, dict(form.values)["confirm"], form.is_folded) == (400, "administrat", False)
