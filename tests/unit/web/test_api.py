"""The API: tokens, and the document of its operations."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.console import PASSWORD, Browser, Page, RunningConsole, request
from web.accounts.database import open_database
from web.accounts.tokens import MOST_OF_USER, Tokens
from web.errors import Invalid
from web.routes import Access

DAY_MS = 86_400_000


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console") as console:
        yield console


def create(browser: Browser, role: str, name: str = "ci") -> str:
    """A token, as its user sees it once."""
    made = browser.send("/tokens", {"name": name, "role": role, "days": "1"}, "/tokens")
    assert made.status == 303, made.cause
    match = re.search(r"headrace_[\w-]{43}", browser.get("/tokens").text)
    assert match is not None
    return match[0]


def ask(console: RunningConsole, token: str, path: str, body: bytes | None = None) -> Page:
    headers = {"Authorization": f"Bearer {token}"}
    return request("GET" if body is None else "POST", console.port, f"/api/v1{path}", body, headers)


# ---- the store of tokens


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(open_database(tmp_path)) as opened:
        opened.execute(
            "INSERT INTO users (name, access, password, created_ms, last_login_ms) VALUES ('alice', 2, 'hash', 1, 2)"
        )
        yield opened


def test_token_ends_with_its_time_its_user_and_its_revocation(database: sqlite3.Connection) -> None:
    now = [0]
    tokens = Tokens(database, lambda: now[0])
    secret = tokens.create("alice", "ci", Access.VIEWER, 2)
    now[0] = 2 * DAY_MS - 1
    assert tokens.find(secret) is not None
    now[0] += 1
    assert tokens.find(secret) is None
    assert tokens.list() == []
    secret = tokens.create("alice", "ci", Access.VIEWER, 2)
    tokens.revoke(tokens.list()[0].id)
    assert tokens.find(secret) is None
    secret = tokens.create("alice", "ci", Access.VIEWER, 2)
    database.execute("DELETE FROM users")
    assert tokens.find(secret) is None


def test_token_may_do_no_more_than_its_user_may_now(database: sqlite3.Connection) -> None:
    tokens = Tokens(database, lambda: 0)
    secret = tokens.create("alice", "ci", Access.OPERATOR, 1)
    database.execute("UPDATE users SET access = 1")
    token = tokens.find(secret)
    assert token is not None
    assert token.access is Access.VIEWER


def test_database_has_no_token_with_which_one_could_log_in(tmp_path: Path, database: sqlite3.Connection) -> None:
    tokens = Tokens(database, lambda: 0)
    secret = tokens.create("alice", "ci", Access.OPERATOR, 1)
    database.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in stored
    assert secret.removeprefix("headrace_").encode() not in stored


def test_user_has_a_limited_number_of_tokens(database: sqlite3.Connection) -> None:
    tokens = Tokens(database, lambda: 0)
    for number in range(MOST_OF_USER):
        tokens.create("alice", f"ci-{number}", Access.VIEWER, 1)
    with pytest.raises(Invalid, match="already has 50 tokens"):
        tokens.create("alice", "one more", Access.VIEWER, 1)
    for name, days in (("", 1), ("x" * 65, 1), ("a\nb", 1), ("x", 0), ("x", 400)):
        with pytest.raises(Invalid):
            tokens.create("alice", name, Access.VIEWER, days)


# ---- over HTTP


@pytest.mark.slow
def test_program_with_a_token_reads_and_changes_without_a_session(console: RunningConsole) -> None:
    admin = console.administrator()
    token = create(admin, "admin")
    form = f'{{"user": "eve", "password": "{PASSWORD}", "role": "viewer"}}'.encode()
    made = ask(console, token, "/users", form)
    assert made.status == 200
    assert set(made.json()) == {"message", "before", "after", "location"}
    assert [row["user"] for row in ask(console, token, "/users").json()["users"]["rows"]] == ["admin", "eve"]
    rows = admin.get("/api/v1/audit").json()["audit"]["rows"]
    assert [row["user"] for row in rows if row["subject"] == "eve"] == ["admin (token ci)"]
    assert token not in str(rows)


@pytest.mark.slow
def test_token_opens_the_api_only_and_is_shown_once(console: RunningConsole) -> None:
    admin = console.administrator()
    token = create(admin, "viewer")
    assert token not in admin.get("/tokens").text
    headers = {"Authorization": f"Bearer {token}"}
    assert request("GET", console.port, "/tokens", headers=headers).status == 303
    assert ask(console, token, "/audit").status == 403
    for wrong in (token + "x", token[:-1], "headrace_", "x"):
        refused = ask(console, wrong, "/tokens")
        assert (refused.status, refused.json()["error"]) == (401, "the token is invalid, was revoked or has expired")


@pytest.mark.slow
def test_token_cannot_create_tokens_nor_exceed_its_user(console: RunningConsole) -> None:
    admin = console.administrator()
    token = create(admin, "admin")
    assert ask(console, token, "/tokens", b'{"name": "more"}').status == 403
    admin.send("/users", {"user": "eve", "password": PASSWORD, "role": "viewer"}, "/users")
    eve = console.browser()
    eve.log_in("eve", PASSWORD)
    assert eve.send("/tokens", {"name": "x", "role": "operator", "days": "1"}, "/tokens").status == 403


@pytest.mark.slow
def test_users_see_and_revoke_their_own_tokens_and_administrators_all(console: RunningConsole) -> None:
    admin = console.administrator()
    admin.send("/users", {"user": "eve", "password": PASSWORD, "role": "viewer"}, "/users")
    eve = console.browser()
    eve.log_in("eve", PASSWORD)
    of_admin, of_eve = create(admin, "viewer", "of admin"), create(eve, "viewer", "of eve")

    def rows(browser: Browser) -> dict[str, str]:
        return {row["name"]: row["token"] for row in browser.get("/api/v1/tokens").json()["tokens"]["rows"]}

    assert set(rows(eve)) == {"of eve"}
    assert set(rows(admin)) == {"of admin", "of eve"}
    assert eve.send(f"/tokens/{rows(admin)['of admin']}/delete", {}, "/tokens").status == 404
    assert ask(console, of_admin, "/tokens").status == 200
    assert admin.send(f"/tokens/{rows(admin)['of eve']}/delete", {}, "/tokens").status == 303
    assert ask(console, of_eve, "/tokens").status == 401


@pytest.mark.slow
def test_api_of_a_browser_still_needs_the_session_s_csrf_token(console: RunningConsole) -> None:
    admin = console.administrator()
    form = f'{{"user": "eve", "password": "{PASSWORD}", "role": "viewer"}}'.encode()
    assert admin._ask("POST", "/api/v1/users", form, {}).status == 403
    assert admin._ask("POST", "/api/v1/users", form, {"Authorization": "Basic eDp5"}).status == 403
    assert admin._ask("POST", "/api/v1/users", form, {"X-CSRF-Token": admin.csrf("/users")}).status == 200


# ---- the document


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


@pytest.mark.slow
def test_program_with_a_token_reads_a_table_as_csv_or_json_lines(console: RunningConsole) -> None:
    token = create(console.administrator(), "admin")
    page = ask(console, token, "/users?format=csv")
    assert page.headers["content-type"] == "text/csv; charset=utf-8"
    assert page.text.splitlines()[0].startswith("user,")
    page = ask(console, token, "/users?format=jsonl&table=sessions")
    assert page.headers["content-type"] == "application/x-ndjson"
    assert json.loads(page.text.splitlines()[0])["user"] == "admin"
    assert ask(console, token, "/users?format=json").json()["users"]["total"] == 1
    assert ask(console, token, "/users?format=xml").status == 400


@pytest.mark.slow
def test_audit_log_has_words_on_its_page_and_identifiers_for_programs(console: RunningConsole) -> None:
    admin = console.administrator()
    create(admin, "viewer")
    page = admin.get("/audit?action=token.create").text
    assert ">create API token</option>" in page
    assert re.findall(r'data-label="Action">\s*([^<]*?)\s*<', page) == ["create API token"]
    admin.cookies["language"] = "zh"
    assert "创建 API 令牌" in admin.get("/audit").text
    [row] = [json.loads(line) for line in admin.get("/audit?action=token.create&format=jsonl").text.splitlines()]
    assert (row["action"], row["subject"]) == ("token.create", "ci")
    assert '"token.create"' in admin.get("/audit?format=csv").text
    assert {one["action"] for one in admin.get("/api/v1/audit").json()["audit"]["rows"]} >= {"token.create", "login"}
    assert admin.get("/audit?action=nothing").status == 400


@pytest.mark.slow
def test_document_has_every_operation_and_no_open_reference(tmp_path: Path) -> None:
    with RunningConsole(tmp_path, console_base_path="/headrace") as console:
        admin = console.administrator()
        assert console.browser().get("/api/v1/openapi.json").status == 401
        document = admin.get("/api/v1/openapi.json").json()
        assert "durations, such as delay, are milliseconds" in document["info"]["description"]
        operations = admin.get("/api/v1/api?size=250").json()["operations"]["rows"]
    assert document["servers"] == [{"url": "/headrace/api/v1"}]
    listed = {(row["path"].removeprefix("/api/v1"), row["method"].lower()) for row in operations}
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} == listed
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    for reference in _references(document):
        at = document
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]
    parameters = {one["name"] for one in document["paths"]["/search"]["get"]["parameters"]}
    assert {"q", "keys", "kind", "sort", "page", "format", "table"} <= parameters
    parameters = {one["name"] for one in document["paths"]["/history"]["get"]["parameters"]}
    assert parameters == {"series", "seconds"}
    assert {"/history/names", "/dead-letters/{group}/export", "/messages/{id}/body"} <= document["paths"].keys()
    form = document["paths"]["/tokens"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert form == {"$ref": "#/components/schemas/CreateTokenForm"}
    with contextlib.suppress(KeyError):
        assert document["components"]["schemas"]["CreateTokenForm"]["required"] == ["name"]
