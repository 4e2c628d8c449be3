import contextlib
import html
import re
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import PASSWORD, Page, RunningConsole, request
from web.accounts.database import open_database
from web.accounts.login_limits import FAILURES_OF_ADDRESS, LoginLimits
from web.errors import DatabaseUnusable

pytestmark = pytest.mark.slow


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console") as console:
        yield console


def test_pages_lead_to_the_login_and_back(console: RunningConsole) -> None:
    admin = console.administrator()
    assert admin.get("/topics").status == 502  # there is no cluster here, but a user
    visitor = console.browser()
    page = visitor.get("/topics?kind=retry")
    assert page.status == 303
    assert page.headers["location"] == "/login?next=%2Ftopics%3Fkind%3Dretry"
    form = {"name": "admin", "password": PASSWORD, "next": "/topics?kind=retry"}
    assert visitor.post("/login", form).headers["location"] == "/topics?kind=retry"


def test_api_without_a_login_answers_401_as_json(console: RunningConsole) -> None:
    page = console.browser().get("/api/v1/topics")
    assert page.status == 401
    assert page.json() == {"error": "you are not logged in", "advice": "Log in first."}


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "javascript:x"])
def test_login_never_leads_to_another_site(console: RunningConsole, then: str) -> None:
    console.administrator()
    answer = console.browser().post("/login", {"name": "admin", "password": PASSWORD, "next": then})
    assert answer.headers["location"] == "/"


def test_first_login_link_is_private_and_valid_once(console: RunningConsole) -> None:
    file = console.folder / "first-login"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((console.folder / "console.db").stat().st_mode) == 0o600
    link = console.link
    assert console.browser().get(link).status == 200
    console.administrator()
    assert not file.exists()
    for answer in (
        console.browser().get(link),
        console.browser().post(link, {"name": "eve", "password": PASSWORD, "again": PASSWORD}),
        console.browser().get("/first-login?token="),
    ):
        assert answer.status == 403


def test_login_with_the_first_link_is_listed_in_the_account(console: RunningConsole) -> None:
    events = console.administrator().read("/account")["events"]["rows"]
    assert [(row["event"], row["user"], row["outcome"], row["address"]) for row in events] == [
        ("logged in", "admin", "done", "127.0.0.1")
    ]


def test_name_of_a_viewer_is_shown_with_the_role(console: RunningConsole) -> None:
    admin, user = console.administrator(), console.browser()
    admin.send("/users", {"user": "lee", "password": PASSWORD, "role": "viewer"}, page="/account")
    user.log_in("lee", PASSWORD)
    assert ">lee (viewer)</a>" in user.get("/account").text
    assert ">admin</a>" in admin.get("/account").text


def test_first_administrator_needs_a_long_password_typed_twice(console: RunningConsole) -> None:
    browser = console.browser()
    short = browser.post(console.link, {"name": "admin", "password": "short", "again": "short"})
    assert (short.status, "12 to 1024 characters" in short.text) == (400, True)
    differs = browser.post(console.link, {"name": "admin", "password": PASSWORD, "again": PASSWORD + "x"})
    assert (differs.status, "the two passwords differ" in differs.text) == (400, True)


def test_link_stays_valid_when_the_console_is_restarted(tmp_path: Path) -> None:
    with RunningConsole(tmp_path) as console:
        token = console.link.partition("token=")[2]
    with RunningConsole(tmp_path) as console:
        assert console.link.partition("token=")[2] == token
        console.administrator()


def test_login_begins_a_new_session_and_logout_ends_it(console: RunningConsole) -> None:
    browser = console.administrator()
    first = browser.cookies["headrace_session"]
    browser.log_in("admin", PASSWORD)
    second = browser.cookies["headrace_session"]
    assert second != first
    browser.cookies["headrace_session"] = first  # a token that somebody planted or kept
    assert browser.get("/topics").status == 303
    browser.cookies["headrace_session"] = second
    assert browser.send("/logout", {}, "/nowhere").status == 303
    browser.cookies["headrace_session"] = second
    assert browser.get("/topics").status == 303


def test_session_survives_a_restart_of_the_console(tmp_path: Path) -> None:
    with RunningConsole(tmp_path) as console:
        cookies = console.administrator().cookies
    with RunningConsole(tmp_path) as console:
        browser = console.browser()
        browser.cookies = cookies
        answer = browser.get("/nowhere")
        assert answer.status == 404
        assert '<a href="/">Go to the dashboard</a>' in answer.text


def test_session_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(console: RunningConsole) -> None:
    console.administrator()
    answer = console.browser().log_in("admin", PASSWORD)
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(r"headrace_session=[\w-]{43}; Path=/; SameSite=Lax; HttpOnly", cookie, re.IGNORECASE)
    assert cookie.partition("=")[2][:43] not in (console.folder / "console.db").read_bytes().decode("latin-1")


def test_wrong_passwords_and_unknown_users_look_the_same(console: RunningConsole) -> None:
    console.administrator()
    browser = console.browser()
    wrong, unknown = browser.log_in("admin", "wrong password"), browser.log_in("nobody", "wrong password")
    assert wrong.status == unknown.status == 403
    assert wrong.text.replace("admin", "") == unknown.text.replace("nobody", "")


def test_many_wrong_passwords_close_the_login_for_that_address(console: RunningConsole) -> None:
    console.administrator()
    browser = console.browser()
    statuses = [browser.log_in("admin", f"wrong password {number}").status for number in range(12)]
    assert statuses == [403] * 10 + [429] * 2
    refused = browser.log_in("admin", PASSWORD)
    assert refused.status == 429
    assert "Try again in 5 min." in refused.text


def test_failed_logins_take_no_memory_and_drive_nothing_out_of_the_audit_log(console: RunningConsole) -> None:
    admin, browser = console.administrator(), console.browser()
    for _ in range(FAILURES_OF_ADDRESS + 20):
        browser.log_in("a" * 100_000, "wrong")
    rows = admin.get("/api/v1/audit").json()["audit"]["rows"]
    assert len([row for row in rows if row["action"] == "login"]) <= FAILURES_OF_ADDRESS + 1
    limits = LoginLimits(lambda: 0)
    for number in range(200):
        limits.failed(f"10.0.0.{number}", f"{number}" * 1000)
    assert limits.wait_ms("127.0.0.1", "x" * 1000) > 0  # names that nobody can have count as one


@pytest.mark.parametrize("path", ["/login", "/topics", "/language"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=x\r\n"
         b"Content-Type: text/plain; charset=punycode\r\n\r\n" + b"A" * 500_000 + b"\r\n--b--\r\n"),
        ("application/x-www-form-urlencoded", b"a=1&" * 500_000),
        ("application/x-www-form-urlencoded", b"name=\xff"),
    ],
    ids=["multipart", "many-fields", "not-ascii"],
)  # fmt: skip
def test_form_of_a_stranger_is_refused_before_it_takes_time(
    console: RunningConsole, path: str, kind: str, body: bytes
) -> None:
    began = time.monotonic()
    page = request("POST", console.port, path, body, {"Content-Type": kind})
    assert page.status in {303, 400}
    assert time.monotonic() - began < 5


def test_login_of_another_site_s_page_is_refused(console: RunningConsole) -> None:
    console.administrator()
    form = {"name": "admin", "password": PASSWORD}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert console.browser().post("/login", form, headers).status == 403
    own = {"Origin": f"http://127.0.0.1:{console.port}", "Sec-Fetch-Site": "same-origin"}
    assert console.browser().post("/login", form, own).status == 303


def test_form_without_the_session_s_token_is_refused(console: RunningConsole) -> None:
    browser, other = console.administrator(), console.browser()
    other.log_in("admin", PASSWORD)
    for csrf in ("", "0" * 64, other.csrf("/nowhere"), "\udcff"):
        assert browser.post("/logout", {"csrf": csrf} if csrf != "\udcff" else {"csrf": "é"}).status == 403
    assert browser.get("/nowhere").status == 404  # still logged in


def test_every_answer_has_the_security_headers(console: RunningConsole) -> None:
    admin = console.administrator()
    pages = [
        console.browser().get("/login"),
        console.browser().get("/topics"),
        console.browser().get("/api/v1/topics"),
        console.browser().get("/static/console.css"),
        admin.get("/topics"),
        admin.get("/nowhere"),
        admin.get("/%ff"),
        admin.post("/audit", {}),
    ]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
    assert [page.status for page in pages] == [200, 303, 401, 200, 502, 404, 404, 405]


def test_pages_have_no_inline_code(console: RunningConsole) -> None:
    admin = console.administrator()
    for path in ("/login", "/nowhere", console.config.console_base_path + "/topics"):
        text = admin.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", text)


def test_session_behind_a_trusted_https_proxy_is_secure_and_has_the_browser_s_address(tmp_path: Path) -> None:
    with RunningConsole(tmp_path, console_trusted_proxies="127.0.0.1", console_base_path="/headrace") as console:
        admin = console.administrator()
        forwarded = {
            "X-Forwarded-For": "10.1.1.1, 192.0.2.7",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "console.example",
            "Origin": "https://console.example",
        }
        answer = admin.post("/login", {"name": "admin", "password": PASSWORD}, forwarded)
        assert answer.status == 303
        assert "; Secure" in answer.headers["set-cookie"]
        assert answer.headers["set-cookie"].startswith("__Secure-headrace_session=")
        assert "Path=/headrace;" in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert answer.headers["location"] == "/headrace/"
        for _ in range(11):
            last = admin.post(
                "/login", {"name": "x", "password": "wrong"}, {**forwarded, "X-Forwarded-For": "1.1.1.1, 192.0.2.9"}
            )
        assert last.status == 429
        assert admin.log_in("admin", PASSWORD).status == 303  # another address
        assert 'href="/headrace/static/' in admin.get("/nowhere").text


def test_console_refuses_a_file_of_a_newer_version(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(
        DatabaseUnusable, match=r"written by a newer version .* install that version again, or move it away"
    ):
        open_database(tmp_path)


def test_change_that_cannot_be_written_to_the_audit_log_is_not_done(console: RunningConsole) -> None:
    admin = console.administrator()
    csrf = admin.csrf("/nowhere")
    with contextlib.closing(sqlite3.connect(console.folder / "console.db")) as database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
        form = {"csrf": csrf, "user": "eve", "password": PASSWORD, "role": "viewer"}
        answer = admin.post("/users", form)
        assert (answer.status, "database failed: disk is full" in answer.cause) == (503, True)
        assert database.execute("SELECT name FROM users").fetchall() == [("admin",)]


# ---- what users are told of their own account


def notice_of(page: Page) -> str:
    """What the page shows once."""
    found = re.search(r'<p class="(?:problems|notice)" role="status">(.*?)</p>', page.text, re.DOTALL)
    return "" if found is None else html.unescape(re.sub("<[^>]*>", "", found[1]))


def test_user_is_told_after_a_login_that_the_password_was_changed(console: RunningConsole) -> None:
    admin, user = console.administrator(), console.browser()
    admin.send("/users", {"user": "olga", "password": PASSWORD, "role": "viewer"}, page="/account")
    for _ in range(2):
        assert user.log_in("olga", PASSWORD).status == 303
        assert notice_of(user.get("/account")) == ""
    changed = admin.send("/users/olga/password", {"password": "another long password"}, page="/account")
    assert changed.status == 303, changed.cause
    assert user.log_in("olga", PASSWORD).status == 403
    assert user.log_in("olga", "another long password").status == 303
    assert "Your password or your role was changed since your last login." in notice_of(user.get("/account"))
    assert notice_of(user.get("/account")) == ""
    events = user.read("/account")["events"]["rows"]
    assert [(row["event"], row["user"], row["outcome"]) for row in events[:3]] == [
        ("logged in", "olga", "done"),
        ("logged in", "", "refused: wrong name or password"),
        ("password set by an administrator", "admin", "done"),
    ]
    events = admin.read("/account")["events"]["rows"]
    assert [(row["event"], row["user"]) for row in events] == [("logged in", "admin")], "nothing of others"


def test_user_is_told_after_a_login_that_the_one_before_came_from_another_address(tmp_path: Path) -> None:
    with RunningConsole(tmp_path / "console", console_trusted_proxies="127.0.0.1") as console:
        console.administrator()
        for address, told in (
            ("192.0.2.1", "127.0.0.1"),
            ("192.0.2.1", ""),
            ("192.0.2.9", "192.0.2.1"),
            ("192.0.2.9", ""),
        ):
            user, sent = console.browser(), {"X-Forwarded-For": address}
            assert user.post("/login", {"name": "admin", "password": PASSWORD}, sent).status == 303
            notice = notice_of(user.get("/account", sent))
            assert notice == (f"Your last login was from another address: {told}. Show details" if told else "")


def test_form_of_the_own_password_cannot_change_the_role(console: RunningConsole) -> None:
    admin, user = console.administrator(), console.browser()
    admin.send("/users", {"user": "olga", "password": PASSWORD, "role": "viewer"}, page="/account")
    user.log_in("olga", PASSWORD)
    form = {"current": PASSWORD, "password": "another long password", "again": "another long password"}
    more = {"role": "admin", "access": "3", "user": "admin", "name": "admin"}
    assert user.send("/account/password", {**form, **more}, page="/account").status == 303
    assert console.browser().log_in("admin", PASSWORD).status == 303
    assert user.log_in("olga", "another long password").status == 303
    assert user.read("/account")["role"] == "viewer"
