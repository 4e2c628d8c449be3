"""What strangers and users with few rights can send: no request stops, fills or deceives the console."""

import contextlib
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sanic.compat import Header

from headrace.model.address_list import parse_networks
from support.console import PASSWORD, RunningConsole, get, request
from support.servers import wait_until
from web.errors import Invalid, Refused
from web.serving import connections
from web.serving.security import Proxies, check_origin, check_text

TRUSTED = Proxies(parse_networks("x", "10.0.0.0/8"))


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path / "console") as console:
        yield console


# ---- headers


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["6.6.6.6", "192.0.2.7"], "192.0.2.7"),  # the browser's own line, then the proxy's
        (["6.6.6.6, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        (["6.6.6.6", "192.0.2.7, 10.0.0.2", "10.0.0.3"], "192.0.2.7"),
        (["::ffff:192.0.2.7"], "192.0.2.7"),
        (["6.6.6.6, <script>"], "10.0.0.1"),
        (["6.6.6.6, "], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
@pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1"])
def test_address_is_the_last_that_no_trusted_proxy_has(lines: list[str], address: str, peer: str) -> None:
    assert TRUSTED.address(peer, Header([("x-forwarded-for", line) for line in lines])) == address


def test_headers_of_others_than_trusted_proxies_are_ignored() -> None:
    headers = Header([
        ("x-forwarded-for", "192.0.2.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
        ("host", "console.example"),
    ])  # fmt: skip
    assert TRUSTED.address("198.51.100.1", headers) == "198.51.100.1"
    assert not TRUSTED.is_https("198.51.100.1", headers)
    assert TRUSTED.host("198.51.100.1", headers) == "console.example"
    assert (TRUSTED.is_https("10.0.0.1", headers), TRUSTED.host("10.0.0.1", headers)) == (True, "evil.example")


def test_scheme_and_host_are_what_the_nearest_proxy_added() -> None:
    headers = Header([("x-forwarded-proto", "https"), ("x-forwarded-proto", "http"),
                      ("x-forwarded-host", "evil.example, console.example")])  # fmt: skip
    assert not TRUSTED.is_https("10.0.0.1", headers)
    assert TRUSTED.host("10.0.0.1", headers) == "console.example"


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "//", "http://evil.example"])
def test_origin_that_is_not_the_console_s_is_refused(origin: str) -> None:
    with pytest.raises(Refused):
        check_origin(Header([("origin", origin)]), "console.example")


def test_second_origin_is_not_overlooked() -> None:
    with pytest.raises(Refused):
        check_origin(
            Header([("origin", "http://console.example"), ("origin", "http://evil.example")]), "console.example"
        )


def test_header_that_is_not_text_is_refused() -> None:
    check_text(Header([("user-agent", "Browser/1 é")]))
    with pytest.raises(Invalid, match="the header authorization is not valid UTF-8"):
        check_text(Header([("authorization", "Bearer \udcff")]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["Authorization", "Origin", "Host", "Cookie", "User-Agent", "Accept-Language", "Content-Type", "X-Forwarded-For",
     "X-CSRF-Token", "Sec-Fetch-Site", "HX-Request", "\xff"],
)  # fmt: skip
def test_malformed_header_is_answered_without_an_internal_error(
    console: RunningConsole, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for path in ("/login", "/metrics", "/topics", "/api/v1/topics", "/healthz"):
        for method in ("GET", "POST"):
            head = f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode()
            with socket.create_connection(("127.0.0.1", console.port), 10) as connection:
                connection.sendall(head + name.encode("latin-1") + b": http://[\xff\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(65_536), b""))
            assert b" 400 " in answer.partition(b"\r\n")[0] or b" 405 " in answer.partition(b"\r\n")[0], (path, answer)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("peer", "headers", "local"),
    [
        ("127.0.0.1", {"host": "127.0.0.1:8080"}, True),
        ("::1", {"host": "[::1]:8080"}, True),
        ("::ffff:127.0.0.1", {"host": "localhost:8080"}, True),
        ("127.0.0.1", {"host": "console.example"}, False),  # a proxy, or a page of a name that leads here
        ("127.0.0.1", {"host": "[" }, False),
        ("127.0.0.1", {}, False),
        ("127.0.0.1", {"host": "localhost", "x-forwarded-for": "127.0.0.1"}, False),
        ("127.0.0.1", {"host": "localhost", "forwarded": "for=127.0.0.1"}, False),
        ("192.0.2.7", {"host": "localhost"}, False),
        ("::ffff:192.0.2.7", {"host": "localhost"}, False),
    ],
)  # fmt: skip
def test_only_programs_of_this_machine_are_local(peer: str, headers: dict[str, str], local: bool) -> None:
    assert Proxies(()).is_local(peer, Header(headers)) is local
    assert not Proxies(parse_networks("x", "127.0.0.0/8,::1")).is_local(peer, Header(headers))


@pytest.mark.slow
def test_metrics_through_a_local_proxy_need_the_token(tmp_path: Path) -> None:
    with RunningConsole(tmp_path) as console:
        assert get(console.port, "/metrics").status == 200
        assert get(console.port, "/metrics", {"Host": "metrics.example"}).status == 401
    with RunningConsole(tmp_path, console_trusted_proxies="127.0.0.1") as console:
        assert get(console.port, "/metrics").status == 401
        (tmp_path / "metrics-token").write_text("secret\n")
        assert get(console.port, "/metrics", {"Authorization": "Bearer secret"}).status == 200


# ---- connections


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65_536) == b""
    except ConnectionError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "head", [b"GET /login HTTP/1.1\r\nX: ", b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"]
)
def test_request_that_arrives_byte_by_byte_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(connections, "BODY_S", 1.0)
    with RunningConsole(tmp_path) as console, socket.create_connection(("127.0.0.1", console.port), 0.1) as connection:
        connection.sendall(head)
        answer = b""
        deadline = time.monotonic() + 20
        while b" 408 " not in answer:  # a byte every tenth of a second, far below every timeout of Sanic
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                connection.sendall(b"a")
            try:
                answer += connection.recv(65_536)
            except TimeoutError:
                continue


@pytest.mark.slow
def test_connections_are_limited_and_idle_ones_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    with RunningConsole(tmp_path) as console, contextlib.ExitStack() as stack:

        def connect(begin: bytes) -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", console.port), 10))
            connection.sendall(begin)
            return connection

        idle = [connect(b"") for _ in range(6)]
        assert get(console.port, "/login").status == 200
        assert _is_closed(idle[0])
        assert _is_closed(idle[1])
        for _ in range(4):
            connect(b"GET /login HTTP/1.1\r\n")
        wait_until(lambda: _is_refused(console.port), 10, "no connection beyond those with requests in progress")


def _is_refused(port: int) -> bool:
    try:
        get(port, "/login")
    except OSError:
        return True
    return False


# ---- changes


@pytest.mark.slow
def test_change_whose_browser_disconnects_is_completed_and_recorded(console: RunningConsole) -> None:
    admin = console.administrator()
    body = urlencode({"csrf": admin.csrf("/nowhere"), "user": "eve", "password": PASSWORD, "role": "viewer"}).encode()
    cookie = f"headrace_session={admin.cookies['headrace_session']}"
    with socket.create_connection(("127.0.0.1", console.port), 10) as connection:
        connection.sendall(
            f"POST /users HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def outcomes() -> list[str]:
        rows = admin.get("/api/v1/audit").json()["audit"]["rows"]
        return [row["outcome"] for row in rows if (row["action"], row["subject"]) == ("user.create", "eve")]

    wait_until(lambda: outcomes() == ["done"], 20, "the outcome in the audit log")
    assert admin.get("/users/eve").status == 200


@pytest.mark.slow
def test_two_first_logins_at_once_make_one_administrator(console: RunningConsole) -> None:
    statuses: list[int] = []

    def post(name: str) -> None:
        form = urlencode({"name": name, "password": PASSWORD, "again": PASSWORD}).encode()
        types = {"Content-Type": "application/x-www-form-urlencoded"}
        statuses.append(request("POST", console.port, console.link, form, types).status)

    posts = [threading.Thread(target=post, args=(name,)) for name in ("alice", "eve")]
    for one in posts:
        one.start()
    for one in posts:
        one.join()
    assert sorted(statuses) == [303, 403]


@pytest.mark.slow
def test_console_whose_disk_is_full_shows_pages(console: RunningConsole) -> None:
    admin = console.administrator()
    with contextlib.closing(sqlite3.connect(console.folder / "console.db")) as database:
        database.execute("UPDATE sessions SET seen_ms = seen_ms - 120000")
        database.execute("CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
        database.commit()
        assert admin.get("/users").status == 200
        database.execute("ALTER TABLE sessions RENAME TO lost")
        database.commit()
        page = admin.get("/users")
    assert page.status == 503
    assert "the console&#39;s database failed" in page.text or "the console's database failed" in page.cause


# ---- answers


@pytest.mark.slow
def test_cookie_over_https_can_only_be_set_by_the_console(tmp_path: Path) -> None:
    with RunningConsole(tmp_path, console_trusted_proxies="127.0.0.1") as console:
        admin = console.administrator()
        forwarded = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
        answer = admin.post("/login", {"name": "admin", "password": PASSWORD}, forwarded)
        assert answer.headers["set-cookie"].startswith("__Host-headrace_session=")
        assert "; Path=/; " in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        secure = admin.cookies["__Host-headrace_session"]
        planted = {**forwarded, "Cookie": f"headrace_session={secure}"}
        assert console.browser().get("/users", planted).status == 303  # over HTTPS only the name with the prefix counts
        assert "strict-transport-security" not in admin.get("/login").headers


# ---- probes


@pytest.mark.slow
def test_strangers_get_the_verdict_of_probes_without_names_addresses_and_reasons(console: RunningConsole) -> None:
    stranger = {"X-Forwarded-For": "203.0.113.9"}
    for path in ("/healthz", "/readyz"):
        own, theirs = (get(console.port, f"{path}?verbose", headers) for headers in ({}, stranger))
        assert theirs.status == own.status
        assert theirs.json() == {"ok": own.json()["ok"]}
        assert own.json()["checks"]
    reasons, verdict = (get(console.port, "/readyz", headers) for headers in ({}, stranger))
    assert "127.0.0.1:1" in reasons.text
    assert (verdict.status, verdict.text) == (503, "failed\n")
    known = console.administrator().get("/readyz", stranger)
    assert "127.0.0.1:1" in known.text
