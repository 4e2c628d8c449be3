"""Logins at a real OpenID provider, which falsifies its answers on request."""

import http.client
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from support.console import PASSWORD, RunningConsole
from support.oidc import ALICE, CLIENT_ID, PROXIED, SECRET, Provider, begin, come_back, log_in
from web.accounts.login_limits import FAILURES_OF_ADDRESS
from web.accounts.oidc import provider as provider_module
from web.accounts.oidc import requests

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(process: Provider) -> Provider:
    """The provider without anything of the test before."""
    process.set(ALICE)
    return process


@pytest.fixture
def console(tmp_path: Path, provider: Provider) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console", **provider.options(tmp_path)) as console:
        yield console


def entries(console: RunningConsole, action: str) -> list[tuple[str, str, str, str]]:
    with closing(sqlite3.connect(console.folder / "console.db")) as database:
        rows = database.execute(
            "SELECT user, subject, outcome, after FROM audit WHERE action = ? ORDER BY id", (action,)
        )
        return [tuple(row) for row in rows]


def users(console: RunningConsole) -> list[str]:
    with closing(sqlite3.connect(console.folder / "console.db")) as database:
        return [name for (name,) in database.execute("SELECT name FROM users ORDER BY name")]


# ---- a login


def test_login_leads_to_the_page_that_was_asked_for(console: RunningConsole, provider: Provider) -> None:
    browser = console.browser()
    page = browser.get(browser.get("/users?filter=x").headers["location"])
    assert 'href="/login/oidc?next=%2Fusers%3Ffilter%3Dx">Log in with Example SSO</a>' in page.text
    chinese = browser.get("/login", {"Accept-Language": "zh"}).text
    assert "使用 Example SSO 登录" in chinese
    answer = log_in(browser, provider, "?next=%2Ftopics%3Ffilter%3Dx")
    assert (answer.status, answer.headers["location"]) == (303, "/topics?filter=x")
    assert browser.get("/account").status == 200
    assert browser.read("/account")["role"] == "operator"


def test_request_to_the_provider_has_pkce_state_and_nonce(console: RunningConsole, provider: Provider) -> None:
    query = parse_qs(urlsplit(begin(console.browser())).query)
    assert query["response_type"] == ["code"]
    assert query["client_id"] == [CLIENT_ID]
    assert query["redirect_uri"] == [f"http://127.0.0.1:{console.port}/login/oidc/callback"]
    assert query["scope"] == ["openid profile email"]
    assert query["code_challenge_method"] == ["S256"]
    assert all(len(query[name][0]) == 43 for name in ("state", "nonce", "code_challenge"))


def test_cookies_of_a_login_are_for_this_browser_and_its_console_only(
    console: RunningConsole, provider: Provider
) -> None:
    browser = console.browser()
    started = browser.get("/login/oidc")
    [cookie] = started.cookies
    assert cookie.startswith("headrace_login=")
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"} <= {part.strip() for part in cookie.split(";")}
    answer = come_back(browser, provider.approve(started.headers["location"]))
    assert len(answer.cookies) == 2
    assert browser.cookies["headrace_login"] == ""
    assert len(browser.cookies["headrace_session"]) == 43
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"])
def test_login_never_leads_to_another_site(console: RunningConsole, provider: Provider, then: str) -> None:
    answer = log_in(console.browser(), provider, "?" + urlencode({"next": then}))
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_login_behind_a_proxy_and_below_a_path(tmp_path: Path, provider: Provider) -> None:
    options = {"console_trusted_proxies": "127.0.0.1", "console_base_path": "/headrace"}
    with RunningConsole(tmp_path / "console", **options, **provider.options(tmp_path)) as console:
        browser = console.browser()
        forwarded = {
            "X-Forwarded-For": "192.0.2.7",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "console.example",
        }
        started = browser.get("/login/oidc?next=%2Faccount", forwarded)
        assert started.cookies[0].startswith("__Secure-headrace_login=")
        back = provider.approve(started.headers["location"])
        assert back.startswith(f"{PROXIED}/login/oidc/callback?")
        answer = browser.get(back.removeprefix(PROXIED), forwarded)
        assert (answer.status, answer.headers["location"]) == (303, "/headrace/account")
        assert any(cookie.startswith("__Secure-headrace_session=") for cookie in answer.cookies)
        assert browser.get("/account", forwarded).status == 200


# ---- users


def test_user_of_the_provider_is_an_account_that_the_audit_log_names(
    console: RunningConsole, provider: Provider
) -> None:
    log_in(console.browser(), provider)
    [(user, subject, outcome, after)] = entries(console, "login")
    assert (user, subject, outcome) == ("oidc:alice", f"{provider.issuer} 4711 (Alice Liddell)", "done")
    details = {"issuer": provider.issuer, "subject": "4711", "display_name": "Alice Liddell", "role": "operator"}
    assert json.loads(after) == details
    assert json.loads(entries(console, "user.create")[0][3]) == details
    admin = console.administrator()  # the link for the first administrator is still valid
    assert [(row["user"], row["kind"]) for row in admin.read("/users")["users"]["rows"]] == [
        ("admin", "local"),
        ("oidc:alice", "oidc"),
    ]
    assert admin.read("/users/oidc%3Aalice")["subject"] == "4711"


def test_subject_identifies_a_user_whatever_its_names(console: RunningConsole, provider: Provider) -> None:
    log_in(console.browser(), provider)
    provider.set({**ALICE, "preferred_username": "admin", "name": "Alice Hargreaves"})
    log_in(console.browser(), provider)
    provider.set({**ALICE, "sub": "4712"})  # somebody else took the name
    log_in(console.browser(), provider)
    provider.set({**ALICE, "sub": "4713", "preferred_username": "<b>é x"})
    log_in(console.browser(), provider)
    assert users(console) == ["oidc:_b___x", "oidc:alice", "oidc:alice-2"]


def test_local_users_and_those_of_the_provider_are_separate(console: RunningConsole, provider: Provider) -> None:
    admin = console.administrator()
    provider.set({**ALICE, "preferred_username": "admin"})
    browser = console.browser()
    log_in(browser, provider)
    assert users(console) == ["admin", "oidc:admin"]
    assert console.browser().log_in("oidc:admin", "").status == 403
    assert 'action="/account/password"' not in browser.get("/account").text
    assert 'action="/account/password"' in admin.get("/account").text
    shown = admin.get("/users/oidc%3Aadmin").text
    assert [f'action="/users/oidc%3Aadmin/{form}"' in shown for form in ("role", "password", "delete")] == [
        False,
        False,
        True,
    ]
    assert provider.issuer in shown
    own = browser.send("/account/password", {"current": "", "password": PASSWORD, "again": PASSWORD}, "/account")
    assert (own.status, "has no password here" in own.cause) == (400, True)
    for path, form, cause in (
        ("/users/oidc%3Aadmin/password", {"password": PASSWORD}, "has no password here"),
        ("/users/oidc%3Aadmin/role", {"role": "admin"}, "comes from the OpenID provider"),
        ("/users", {"user": "oidc:eve", "password": PASSWORD, "role": "viewer"}, "is invalid"),
    ):
        answer = admin.send(path, form, "/users")
        assert (answer.status, cause in answer.cause) == (400, True), answer.cause


def test_last_administrator_with_a_password_stays(console: RunningConsole, provider: Provider) -> None:
    console.administrator()
    provider.set({**ALICE, "groups": ["platform"]})
    browser = console.browser()
    log_in(browser, provider)
    answer = browser.send("/users/admin/delete", {}, "/users")
    assert (answer.status, "the last administrator with a password" in answer.cause) == (400, True)


def test_role_is_read_at_each_login_and_its_loss_removes_sessions_and_tokens(
    console: RunningConsole, provider: Provider
) -> None:
    first = console.browser()
    log_in(first, provider)
    assert first.send("/tokens", {"name": "t", "role": "viewer", "days": "1"}, "/tokens").status in {200, 303}
    provider.set({**ALICE, "groups": ["staff"]})
    log_in(console.browser(), provider)
    assert first.read("/account")["role"] == "viewer"
    assert entries(console, "user.role")[0][0] == "oidc:alice"
    provider.set({**ALICE, "groups": []})
    refused = log_in(console.browser(), provider)
    assert (refused.status, "Alice Liddell has no role in this console" in refused.cause) == (403, True)
    assert "the claim groups has no value that gives a role" in refused.cause
    assert first.get("/account").status == 303
    assert users(console) == []


def test_sessions_end_as_those_of_local_users(console: RunningConsole, provider: Provider) -> None:
    admin, browser = console.administrator(), console.browser()
    log_in(browser, provider)
    [session] = [row for row in admin.read("/users")["sessions"]["rows"] if row["user"] == "oidc:alice"]
    assert admin.send(f"/sessions/{session['session']}/delete", {}, "/users").status == 303
    assert browser.get("/account").status == 303
    log_in(browser, provider)
    assert browser.send("/logout", {}, "/account").status == 303
    assert browser.get("/account").status == 303


def test_another_issuer_removes_the_users_of_the_one_before(tmp_path: Path, provider: Provider) -> None:
    with RunningConsole(tmp_path / "console", **provider.options(tmp_path)) as console:
        console.administrator()
        browser = console.browser()
        log_in(browser, provider)
    with RunningConsole(tmp_path / "console") as console:
        assert users(console) == ["admin"]
        assert entries(console, "user.delete")[0][1] == "oidc:alice"
        again = console.browser()
        again.cookies = browser.cookies
        assert again.get("/account").status == 303
        assert "/login/oidc" not in again.get("/login").text
        assert again.get("/login/oidc").status == 404


# ---- refusals


def refused(console: RunningConsole, provider: Provider) -> str:
    """A login whose last answer is the login page, with the cause; nothing was created."""
    browser = console.browser()
    answer = log_in(browser, provider)
    assert answer.status in {400, 403, 502}, answer.status
    assert not browser.cookies.get("headrace_session")
    assert users(console) == []
    assert SECRET not in answer.text
    assert 'action="/login"' in answer.text  # with the form for local users
    return answer.cause


@pytest.mark.parametrize(
    ("falsify", "reason"),
    [
        ({"claims": {"nonce": "another"}}, "it belongs to another login (nonce)"),
        ({"claims": {"nonce": None}}, "a claim is missing (nonce)"),
        ({"claims": {"aud": "another"}}, "it was issued for another client (aud)"),
        ({"claims": {"aud": [CLIENT_ID, "another"]}}, "it was issued for another client (azp)"),
        ({"claims": {"iss": "https://evil.example"}}, "it names another issuer (iss)"),
        ({"claims": {"exp": 1_000_000_000}}, "it has expired (exp)"),
        ({"claims": {"iat": 9_999_999_999}}, "it was issued in the future (iat)"),
        ({"claims": {"sub": None}}, "a claim is missing"),
        ({"claims": {"sub": "a\u0000b"}}, "its subject is not valid (sub)"),
        ({"claims": {"groups": None}}, "has no role in this console"),
        ({"claims": {"groups": {"staff": True}}}, "has no role in this console"),
        ({"claims": {"groups": "STAFF"}}, "has no role in this console"),
        ({"alg": "none"}, "ID token of the provider was refused"),
        ({"alg": "HS256"}, "its signature is not valid"),
        ({"key": "other"}, "its signature is not valid"),
        ({"key": "unknown"}, "it is not signed with a key of the provider"),
        ({"answer": {"id_token": "x.y.z"}}, "ID token of the provider was refused"),
    ],
    ids=str,
)
def test_token_that_is_not_right_in_every_part_is_refused(
    console: RunningConsole, provider: Provider, falsify: dict[str, Any], reason: str
) -> None:
    provider.set(**falsify)
    assert reason in refused(console, provider)
    [(user, issuer, outcome, _)] = entries(console, "login")
    assert (user, issuer.startswith(provider.issuer), outcome.startswith("refused: ")) == ("", True, True)
    provider.set()
    assert log_in(console.browser(), provider).status == 303


@pytest.mark.parametrize(
    "falsify",
    [
        {"answer": {}},
        {"answer": {"id_token": 7}},
        {"answer": {"id_token": "x" * 100_000}},
        {"answer": {"id_token": "x" * 1_000_000}},
        {"answer": "<html>"},
        {"answer": "[" * 100_000},
        {"answer": ["id_token"]},
        {"status": 500},
        {"status": 302, "location": "http://127.0.0.1:1/"},
    ],
    ids=lambda falsify: str(falsify)[:40],
)
def test_answer_that_cannot_be_used_is_the_provider_s_fault_and_local_users_still_log_in(
    console: RunningConsole, provider: Provider, falsify: dict[str, Any]
) -> None:
    provider.set(**falsify)
    cause = refused(console, provider)
    assert "the login with Example SSO is not available" in cause
    assert "Log in with a user name and password of this console" in cause
    assert entries(console, "login") == []
    console.administrator()
    assert console.browser().log_in("admin", PASSWORD).status == 303


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "https://169.254.169.254/latest"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": 7},
        {"jwks_uri": None},
        {"jwks_uri": "http://user@127.0.0.1/"},
    ],
    ids=str,
)
def test_discovery_document_cannot_lead_elsewhere(
    console: RunningConsole, provider: Provider, document: dict[str, Any]
) -> None:
    provider.set(document=document)
    page = console.browser().get("/login/oidc")
    assert (page.status, "the login with Example SSO is not available" in page.cause) == (502, True)


def test_state_of_another_login_or_browser_is_refused(console: RunningConsole, provider: Provider) -> None:
    browser, other = console.browser(), console.browser()
    back = provider.approve(begin(browser))
    query = parse_qs(urlsplit(back).query)
    altered = f"{console.config.url}login/oidc/callback?{urlencode({**query, 'state': 'x' * 43}, doseq=True)}"
    assert "the provider's response belongs to another login" in come_back(browser, altered).cause
    begin(other)
    assert "the provider's response belongs to another login" in come_back(other, back).cause
    assert "was started in another browser" in come_back(console.browser(), back).cause
    assert users(console) == []


def test_answer_is_used_once(console: RunningConsole, provider: Provider) -> None:
    browser = console.browser()
    back = provider.approve(begin(browser))
    kept = dict(browser.cookies)
    assert come_back(browser, back).status == 303
    again = console.browser()
    again.cookies = kept
    replayed = come_back(again, back)
    assert (replayed.status, "the provider's response was already used" in replayed.cause) == (403, True)
    assert not again.cookies.get("headrace_session")


def test_code_of_another_login_is_refused_by_pkce_and_nonce(console: RunningConsole, provider: Provider) -> None:
    """An attacker's code, injected into the login of a victim whose state is known."""
    stolen = parse_qs(urlsplit(provider.approve(begin(console.browser()))).query)
    victim = console.browser()
    own = parse_qs(urlsplit(provider.approve(begin(victim))).query)
    injected = urlencode({**own, "code": stolen["code"]}, doseq=True)
    answer = victim.get(f"/login/oidc/callback?{injected}")
    assert (answer.status, "the provider refused the login" in answer.cause) == (403, True)


def test_nonce_that_was_changed_on_the_way_is_refused(console: RunningConsole, provider: Provider) -> None:
    browser = console.browser()
    parts = urlsplit(begin(browser))
    query = parse_qs(parts.query) | {"nonce": ["another"]}
    back = provider.approve(parts._replace(query=urlencode(query, doseq=True)).geturl())
    assert "it belongs to another login (nonce)" in come_back(browser, back).cause


def test_request_that_the_provider_calls_invalid_counts_as_a_failed_login(
    console: RunningConsole, provider: Provider
) -> None:
    provider.set(status=400, answer={"error": "invalid_request"})
    assert "the OpenID provider refused the login: invalid_request" in refused(console, provider)
    assert len(entries(console, "login")) == 1


@pytest.mark.parametrize("named", [None, "https://evil.example"])
def test_answer_of_another_issuer_is_refused(console: RunningConsole, provider: Provider, named: str | None) -> None:
    browser = console.browser()
    query = parse_qs(urlsplit(provider.approve(begin(browser))).query)
    query.pop("iss")
    if named is not None:
        query["iss"] = [named]
    answer = browser.get(f"/login/oidc/callback?{urlencode(query, doseq=True)}")
    assert (answer.status, "comes from another OpenID provider" in answer.cause) == (403, True)


def test_refusal_of_the_provider_is_shown_without_texts_of_the_url(console: RunningConsole, provider: Provider) -> None:
    provider.set({**ALICE, "denied": True})
    assert "the login was cancelled" in refused(console, provider)
    browser = console.browser()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    sent = urlencode({"state": state, "error": "Call 555-1234", "error_description": "Call 555-1234"})
    answer = browser.get(f"/login/oidc/callback?{sent}")
    assert (answer.status, "555-1234" in answer.text) == (403, False)


def test_page_that_was_asked_for_is_kept_after_a_failure(console: RunningConsole, provider: Provider) -> None:
    provider.set({**ALICE, "groups": []})
    browser = console.browser()
    back = provider.approve(begin(browser, "?next=%2Ftopics%3Ffilter%3Dx"))
    for page in (
        come_back(browser, back, {"Accept-Language": "zh"}),
        browser.get("/login?next=%2Ftopics%3Ffilter%3Dx"),
    ):
        assert 'name="next" value="/topics?filter=x"' in page.text
        assert 'href="/login/oidc?next=%2Ftopics%3Ffilter%3Dx"' in page.text
        # Choosing a language leads to the login page, not to an answer that was used.
        assert 'name="next" value="/login?next=%2Ftopics%3Ffilter%3Dx"' in page.text


def test_refusal_is_explained_in_chinese(console: RunningConsole, provider: Provider) -> None:
    provider.set({**ALICE, "groups": []})
    browser = console.browser()
    answer = come_back(browser, provider.approve(begin(browser)), {"Accept-Language": "zh"})
    assert (answer.status, "Alice Liddell 在此控制台中没有角色" in answer.text) == (403, True)


def test_callback_without_arguments_leads_to_the_login_page(console: RunningConsole) -> None:
    answer = console.browser().get("/login/oidc/callback")
    assert (answer.status, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("code", ["", "x" * 5_000, "a\nb", "é"])
def test_malformed_code_never_reaches_the_provider(console: RunningConsole, provider: Provider, code: str) -> None:
    browser = console.browser()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    answer = browser.get(f"/login/oidc/callback?{urlencode({'state': state, 'code': code})}")
    assert (answer.status, "has no valid code" in answer.cause) == (400, True)


def test_many_refused_answers_close_the_login_for_that_address(console: RunningConsole, provider: Provider) -> None:
    statuses = []
    for _ in range(FAILURES_OF_ADDRESS + 1):
        browser = console.browser()
        state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
        statuses.append(browser.get(f"/login/oidc/callback?state={state}&code=y").status)
    assert statuses == [403] * FAILURES_OF_ADDRESS + [429]
    assert len(entries(console, "login")) == FAILURES_OF_ADDRESS


def test_other_sites_cannot_close_the_login_of_their_visitors(console: RunningConsole, provider: Provider) -> None:
    browser = console.browser()
    back = provider.approve(begin(browser))
    for number in range(2 * FAILURES_OF_ADDRESS):
        sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": ("document", "iframe", "image")[number % 3]}
        assert browser.get("/login/oidc/callback?state=x&code=y", sent).status == 403
    assert entries(console, "login") == []
    console.administrator()
    assert console.browser().log_in("admin", PASSWORD).status == 303
    # Nor do they end a login that was begun.
    assert come_back(browser, back, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}).status == 303


@pytest.mark.parametrize("host", ["evil.example/x", "a b", "", '"><script>'])
def test_malformed_host_is_refused(console: RunningConsole, host: str) -> None:
    answer = console.browser().get("/login/oidc", {"Host": host})
    assert answer.status == http.client.BAD_REQUEST


def test_every_answer_has_the_security_headers(console: RunningConsole, provider: Provider) -> None:
    browser = console.browser()
    plain = console.browser().get("/login")
    for page in (browser.get("/login/oidc"), browser.get("/login/oidc/callback?state=x")):
        for name in ("content-security-policy", "referrer-policy", "x-frame-options"):
            assert page.headers[name] == plain.headers[name]
        assert page.headers["cache-control"] == "no-store"


# ---- a provider that changes, fails or is slow


def test_key_that_the_provider_has_just_published_is_read(
    console: RunningConsole, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(console.browser(), provider).status == 303
    monkeypatch.setattr(provider_module, "RETRY_S", 0.0)
    provider.set(key="new")
    assert log_in(console.browser(), provider).status == 303


def test_provider_that_does_not_run_is_named_and_local_users_log_in(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(provider_module, "RETRY_S", 0.0)
    with Provider() as own:
        options = own.options(tmp_path)
    with RunningConsole(tmp_path / "console", **options) as console:
        console.administrator()
        page = console.browser().get("/login/oidc")
        assert (page.status, "the login with Example SSO is not available" in page.cause) == (502, True)
        assert "Log in with a user name and password" in page.cause
        assert f"issuer={own.issuer} error='no answer from 127.0.0.1: " in caplog.text
        assert console.browser().log_in("admin", PASSWORD).status == 303


def test_visitors_cannot_fill_the_log(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(provider_module, "RETRY_S", 600.0)
    with Provider() as own:
        options = own.options(tmp_path)
    with RunningConsole(tmp_path / "console", **options) as console:
        assert [console.browser().get("/login/oidc").status for _ in range(20)] == [502] * 20
    assert caplog.text.count("login with OpenID Connect failed") == 1


def test_provider_that_does_not_answer_is_given_up_while_local_users_log_in(
    console: RunningConsole, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.administrator()
    monkeypatch.setattr(requests, "DEADLINE_S", 2.0)
    provider.set(delay=True)
    browsers = [console.browser() for _ in range(6)]
    backs = [provider.approve(begin(browser)) for browser in browsers]
    answers: list[int] = []
    waiting = [
        threading.Thread(target=lambda one=one, back=back: answers.append(come_back(one, back).status))  # type: ignore[misc]
        for one, back in zip(browsers, backs, strict=True)
    ]
    for thread in waiting:
        thread.start()
    assert console.browser().log_in("admin", PASSWORD).status == 303
    assert any(thread.is_alive() for thread in waiting)
    for thread in waiting:
        thread.join(30)
    assert answers == [502] * 6


@pytest.mark.parametrize(
    ("contents", "cause"),
    [
        (None, "No such file or directory"),
        ("", "expected one line"),
        ("a\nb", "expected one line"),
        ("wrong", "invalid_client"),
    ],
)
def test_secret_that_cannot_be_used_is_explained_in_the_log(
    console: RunningConsole,
    provider: Provider,
    caplog: pytest.LogCaptureFixture,
    contents: str | None,
    cause: str,
) -> None:
    secret = Path(console.config.console_oidc_client_secret_file)
    secret.unlink()
    if contents is not None:
        secret.write_text(contents)
    assert "is not available" in refused(console, provider)
    assert cause in caplog.text
    assert SECRET not in caplog.text
    secret.write_text(SECRET)  # read at each login
    assert log_in(console.browser(), provider).status == 303


@pytest.mark.parametrize("method", ["client_secret_post", "none"])
def test_other_ways_of_a_client_to_prove_itself(tmp_path: Path, method: str) -> None:
    with Provider(token_endpoint_auth_method=method) as provider:
        options = provider.options(tmp_path)
        if method == "none":
            options["console_oidc_client_secret_file"] = ""
        else:
            provider.set(document={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
        with RunningConsole(tmp_path / "console", **options) as console:
            assert log_in(console.browser(), provider).status == 303
