"""Every route of the console and every role: who is refused follows from the declaration, and the declarations are reviewed here."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.settings import ClientConfig
from support.console import Browser, RunningConsole, request
from web.application import ConsoleSettings, make_console
from web.config import ConsoleConfig
from web.pages.audit_actions import ACTION_WORDS
from web.paths import API
from web.routes import Access, Change, Query, Raw, Route
from web.serving.page_renderer import MENU_GROUPS
from web.translations import catalogue

PASSWORD = "correct horse battery"
ROLES = [Access.VIEWER, Access.OPERATOR, Access.ADMIN]

OPEN_TO_ANYONE = {
    "/static/<name:path>", "/login", "/first-login", "/language", "/healthz", "/readyz", "/rocketmq/<subgroup:str>", "/metrics"
}  # fmt: skip
CHANGES_OF_VIEWERS = {"/account/password", "/account/zone", "/tokens", "/tokens/<token:str>/delete"}
"""Of the user's own account only."""
ONLY_FOR_ADMINISTRATORS = ("/users", "/sessions", "/audit")
CHANGED_BY_ADMINISTRATORS = ("/acl", "/exports")


def declared(folder: Path) -> list[Route]:
    async def build() -> list[Route]:
        console = make_console(ConsoleSettings(ConsoleConfig(), ClientConfig("127.0.0.1:1"), folder))
        console.close()
        return list(console.routes)

    return asyncio.run(build())


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[Route]:
    return declared(tmp_path_factory.mktemp("declared"))


def test_every_entry_of_the_navigation_is_in_one_group(routes: list[Route]) -> None:
    entries = sorted(route.menu for route in routes if isinstance(route, Query) and route.menu)
    assert sorted(name for _, names in MENU_GROUPS for name in names) == entries
    assert {title for title, _ in MENU_GROUPS if title} <= set(catalogue("zh"))


def test_every_action_of_the_audit_log_has_words(routes: list[Route]) -> None:
    without_form = {"login", "logout", "export.download"}
    assert {route.action for route in routes if isinstance(route, Change)} | without_form == set(ACTION_WORDS)


def test_no_form_takes_a_field_that_it_does_not_declare(routes: list[Route]) -> None:
    forms = {route.form for route in routes if isinstance(route, Change)}
    assert len(forms) > 20
    assert [form for form in forms if not form.__struct_config__.forbid_unknown_fields] == []


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path_factory.mktemp("console"), api_timeout=0.2) as console:
        yield console


@pytest.fixture(scope="module")
def browsers(console: RunningConsole) -> dict[Access, Browser]:
    admin = console.administrator()
    browsers = {Access.ANYONE: console.browser(), Access.ADMIN: admin}
    for role in (Access.VIEWER, Access.OPERATOR):
        name = role.name.lower()
        assert admin.send("/users", {"user": name, "password": PASSWORD, "role": name}, "/users").status == 303
        browsers[role] = console.browser()
        assert browsers[role].log_in(name, PASSWORD).status == 303
    return browsers


def test_address_of_a_form_that_is_opened_again_leads_to_its_page(
    routes: list[Route], browsers: dict[Access, Browser]
) -> None:
    pages = {route.path for route in routes if isinstance(route, Query)}
    shapes = [re.compile(re.sub(r"<\w+:\w+>", "[^/]+", page)) for page in pages]
    for change in routes:
        if isinstance(change, Change) and change.path not in pages:
            address = re.sub(r"<\w+:\w+>", "a%2Fb", change.path)
            answer = browsers[Access.VIEWER].get(address)
            page = answer.headers["location"]
            assert (answer.status, address.startswith(f"{page}/")) == (303, True), address
            assert any(shape.fullmatch(page) for shape in shapes), page


@pytest.fixture(scope="module")
def tokens(browsers: dict[Access, Browser]) -> dict[Access, str]:
    found = {}
    for role in ROLES:
        name = role.name.lower()
        browsers[role].send("/tokens", {"name": name, "role": name, "days": "1"}, "/tokens")
        match = re.search(r"headrace_[\w-]{43}", browsers[role].get("/tokens").text)
        assert match is not None
        found[role] = match[0]
    return found


def test_open_routes_and_low_roles_are_those_that_were_reviewed(routes: list[Route]) -> None:
    for route in routes:
        if route.access is Access.ANYONE:
            assert route.path in OPEN_TO_ANYONE, route.path
            assert isinstance(route, Raw)
        if isinstance(route, Change) and route.access < Access.OPERATOR:
            assert route.path in CHANGES_OF_VIEWERS, route.path
        if route.path.startswith(ONLY_FOR_ADMINISTRATORS):
            assert route.access is Access.ADMIN, route.path
        if isinstance(route, Change) and route.path.startswith(CHANGED_BY_ADMINISTRATORS):
            assert route.access is Access.ADMIN, route.path


def path_of(route: Route) -> str:
    return re.sub(r"<\w+:(\w+)>", lambda part: "1" if part[1] == "int" else "x", route.path)


@pytest.mark.slow
def test_browser_of_a_lower_role_is_refused_on_every_route(
    routes: list[Route], browsers: dict[Access, Browser]
) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for route in routes:
        path = path_of(route)
        for role, browser in browsers.items():
            method = "POST" if isinstance(route, Change) else route.methods[0] if isinstance(route, Raw) else "GET"
            if role >= route.access and not isinstance(route, Change):
                continue
            page = browser._ask(method, path, b"" if method == "POST" else None, dict(form))
            if role is Access.ANYONE:
                is_login = page.status == 303 and page.headers["location"].startswith("/login")
                assert is_login or (page.status == 401 and path.startswith(API)), (path, page.status)
            elif role < route.access:
                assert (page.status, "this request requires the role" in page.cause) == (403, True), (
                    path,
                    role,
                    page.cause,
                )
            else:  # permitted, but not sent by a page of the session
                assert (page.status, "belongs to another session" in page.cause) == (403, True), (
                    path,
                    role,
                    page.cause,
                )


@pytest.mark.slow
def test_token_of_a_lower_role_is_refused_on_every_operation(
    console: RunningConsole, routes: list[Route], tokens: dict[Access, str]
) -> None:
    for route in routes:
        if isinstance(route, Raw) and not route.summary:
            continue
        for role in (None, *ROLES):
            if role is not None and role >= route.access and not isinstance(route, Change):
                continue
            headers = {} if role is None else {"Authorization": f"Bearer {tokens[role]}"}
            method, body = ("POST", b"[") if isinstance(route, Change) else ("GET", None)
            page = request(method, console.port, API + path_of(route).removeprefix(API), body, headers)
            expected = 401 if role is None else 403 if role < route.access else 400  # 400: the body is not JSON
            assert page.status == expected, (route.path, role, page.text)
            assert set(page.json()) == {"error", "advice"}


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_every_page_opens_for_the_lowest_role_that_may_see_it(
    routes: list[Route], browsers: dict[Access, Browser], role: Access
) -> None:
    for route in routes:
        if isinstance(route, Query) and route.access is role and "<" not in route.path:
            page = browsers[role].get(route.path)
            assert page.status in {200, 400, 502, 504}, (route.path, page.status)  # there is no cluster


@pytest.mark.slow
def test_page_that_cannot_be_shown_links_to_its_list(routes: list[Route], browsers: dict[Access, Browser]) -> None:
    lists = {route.menu: route.path for route in routes if isinstance(route, Query) and route.menu}
    pages = {
        path_of(route): route.menu or route.section
        for route in routes
        if isinstance(route, Query) and "<" in route.path
    }
    failed = []
    for path, section in {**pages, "/topics/x/nothing/below": "Topics", "/exports/x/download": "Exports"}.items():
        page = browsers[Access.ADMIN].get(path)
        if page.status >= 400:
            failed.append(path)
            assert f'<nav class="crumbs" aria-label="Path"><a href="{lists[section]}">' in page.text, path
    assert {"/topics/x", "/groups/x", "/users/x", "/alerts/rules/x", "/cluster/brokers/x", "/exports/x"} <= set(failed)
    assert 'class="crumbs"' not in browsers[Access.ADMIN].get("/nothing").text
    assert 'class="crumbs"' not in browsers[Access.VIEWER].get("/users/x").text, "it may not see the list"


@pytest.mark.slow
@pytest.mark.parametrize("role", [Access.ANYONE, Access.ADMIN])
def test_every_answer_of_every_route_has_the_security_headers(
    routes: list[Route], browsers: dict[Access, Browser], role: Access
) -> None:
    expected = {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    unsafe = ("'unsafe-inline'", "'unsafe-eval'", "*", "http:", "https:", "data:")
    for route in routes:
        page = browsers[role].get(path_of(route))
        headers: Any = page.headers
        assert role is Access.ANYONE or not headers.get("location", "").startswith("/login"), route.path
        assert {name: headers.get(name) for name in expected} == expected, route.path
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert not [word for word in unsafe if word in policy]
        assert "server" not in headers
        assert "x-powered-by" not in headers
