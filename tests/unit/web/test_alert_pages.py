"""Rules and channels in the console: what is changed, what is tested, and that secrets stay where they are."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.console import Browser, RunningConsole
from web.alerts.alert_book import EVENTS, AlertBook
from web.alerts.evaluator import AlertEvent
from web.alerts.rules import What

pytestmark = pytest.mark.slow
RULE = {
    "name": "orders late",
    "what": "lag-time",
    "threshold": "60",
    "for_s": "30",
    "subjects": "order-*",
    "channels": "log",
}
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("alerts")
    book = AlertBook(folder / "alerts.db")
    now_s = time.time()
    # The first one is one too many. Those of another rule follow, as if the clock had been set back.
    book.record(
        [
            AlertEvent(now_s, "group time lag", "forgotten", False, 0.0, ""),
            AlertEvent(now_s, "group time lag", "<b>billing", True, 400.0, "x", What.LAG_TIME, 300.0),
            *[AlertEvent(now_s - 60, "role restarts", "broker", False, 0.0, "")] * (EVENTS - 1),
        ]
    )
    book.close()
    with RunningConsole(folder) as running:
        yield running


@pytest.fixture(scope="module")
def admin(console: RunningConsole) -> Browser:
    return console.administrator()


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    """A server that takes webhooks: its address, and what it received."""
    received: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def send(browser: Browser, path: str, form: dict[str, str]) -> tuple[int, str]:
    page = browser.send(path, form, page="/alerts")
    return page.status, page.cause


def rules(browser: Browser) -> dict[str, Any]:
    return {row["rule"]: row for row in browser.get("/api/v1/alerts?size=250").json()["rules"]["rows"]}


def test_page_shows_what_fires_and_what_happened(admin: Browser) -> None:
    answer = admin.get("/api/v1/alerts").json()
    [firing] = answer["firing"]["rows"]
    assert (firing["rule"], firing["subject"], firing["fired_value"]) == ("group time lag", "<b>billing", 400.0)
    assert answer["events"]["rows"][0]["state"] == "firing"
    assert {row["rule"] for row in answer["rules"]["rows"]} >= {"broker down", "new dead letters"}
    assert [row["channel"] for row in answer["channels"]["rows"]] == ["log"]
    page = admin.get("/alerts")
    assert page.status == 200
    assert "<b>billing" not in page.text
    assert "6 min 40 s" in page.text
    assert "5 min" in page.text
    assert "100,000 messages" in page.text
    assert "at once" in page.text
    assert "1 dead letter<" in page.text
    assert 'title="Firing alerts">1</span>' in page.text, "the menu shows how many fire"
    chosen = admin.get("/alerts?state=firing")
    assert 'name="next" value="/alerts?state=firing"' in chosen.text, "another language keeps what was selected"
    assert "rule,subject,since,value,fired_value,threshold" in admin.get("/alerts?format=csv").text


def test_page_of_a_rule_has_all_its_events_that_are_kept(admin: Browser) -> None:
    path = "/alerts/rules/group%20time%20lag"
    [event] = admin.read(path)["events"]["rows"]
    assert (event["subject"], event["value"]) == ("<b>billing", 400.0)
    others = admin.read("/alerts/rules/role%20restarts?page=200")["events"]
    assert (others["total"], len(others["rows"])) == (EVENTS - 1, 49)
    assert admin.read("/alerts?events.filter=billing")["events"]["total"] == 1
    for page in (path, "/alerts"):
        assert (
            "Of all rules together, the newest 10,000 entries are kept; older ones were deleted."
            in admin.get(page).text
        )
    assert "No alert of this rule is recorded." in admin.get("/alerts/rules/broker%20down").text


def test_names_of_default_rules_are_translated(admin: Browser) -> None:
    assert ">new dead letters</a>" in admin.get("/alerts").text
    page = admin.get("/alerts", {"Accept-Language": "zh"})
    assert ">新增死信</a>" in page.text
    assert ">新增死信</a>" in admin.get("/alerts/channels/log", {"Accept-Language": "zh"}).text
    assert "new dead letters" in admin.read("/alerts/channels/log")["default_rules"]


def test_page_of_a_default_rule_has_its_translated_name_and_the_form_the_stored_one(admin: Browser) -> None:
    path, chinese = "/alerts/rules/new%20dead%20letters", {"Accept-Language": "zh"}
    page = admin.get(path, chinese).text
    assert '<span class="subject">新增死信</span>' in page
    assert "新增死信 · Headrace</title>" in page
    assert '<input name="name" value="new dead letters"' in page
    form = {"name": "new dead letters", "what": "dead-letters", "threshold": "2", "channels": "log"}
    assert send(admin, path, form) == (303, "")
    assert "规则 新增死信 已修改。" in admin.get(path, chinese).text
    assert send(admin, "/alerts/rules", {**RULE, "name": "log"}) == (303, "")
    assert '<span class="subject">log</span>' in admin.get("/alerts/rules/log", chinese).text
    assert send(admin, "/alerts/rules/log/delete", {}) == (303, "")


def test_rule_is_created_changed_and_deleted(admin: Browser) -> None:
    assert send(admin, "/alerts/rules", RULE) == (303, "")
    row = rules(admin)["orders late"]
    assert (row["threshold"], row["for_ms"], row["subjects"], row["channels"]) == (60.0, 30_000, "order-*", ["log"])
    assert send(admin, "/alerts/rules", RULE)[0] == 400
    assert send(admin, "/alerts/rules/orders%20late", {**RULE, "threshold": "90", "enabled": "false"}) == (303, "")
    assert (rules(admin)["orders late"]["threshold"], rules(admin)["orders late"]["enabled"]) == (90.0, False)
    assert admin.get("/alerts/rules/orders%20late").status == 200
    assert send(admin, "/alerts/rules/orders%20late/delete", {}) == (303, "")
    assert "orders late" not in rules(admin)
    assert send(admin, "/alerts/rules/orders%20late/delete", {})[0] == 404


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"what": "weather"}, "the form is invalid"),
        ({"threshold": "nan"}, "threshold must not be negative"),
        ({"threshold": "-1"}, "threshold must not be negative"),
        ({"for_s": "90000"}, "the duration must be at most"),
        ({"channels": "nobody"}, "unknown channel nobody"),
        ({"name": ""}, "1 to 255 characters"),
    ],
)
def test_invalid_rules_are_refused(admin: Browser, change: dict[str, str], cause: str) -> None:
    status, found = send(admin, "/alerts/rules", {**RULE, **change})
    assert (status, cause in found) == (400, True), found
    assert "orders late" not in rules(admin)


def test_rule_without_a_channel_is_refused(admin: Browser) -> None:
    status, cause = send(admin, "/alerts/rules", {key: value for key, value in RULE.items() if key != "channels"})
    assert (status, "the rule has no channel" in cause) == (400, True)


def test_webhook_is_tested_and_its_secrets_are_shown_nowhere(admin: Browser, hook: tuple[str, list[Any]]) -> None:
    address, received = hook
    form = {"name": "chat", "url": f"{address}/{SECRET}/in?key={SECRET}", "token": SECRET}
    assert send(admin, "/alerts/webhooks", form) == (303, "")
    assert send(admin, "/alerts/channels/chat/test", {}) == (303, "")
    [(path, token, body)] = received
    assert (path, token) == (f"/{SECRET}/in?key={SECRET}", f"Bearer {SECRET}")
    assert body["events"][0]["rule"] == "test"
    shown = [
        admin.get(path).text for path in ("/alerts", "/alerts/channels/chat", "/api/v1/alerts", "/audit?format=jsonl")
    ]
    assert not any(SECRET in text for text in shown)

    assert send(admin, "/alerts/webhooks", {"name": "chat"}) == (303, "")  # nothing is changed
    assert send(admin, "/alerts/channels/chat/test", {}) == (303, "")
    assert received[1][:2] == (path, token)
    assert send(admin, "/alerts/webhooks", {"name": "chat", "url": f"{address}/broken"}) == (303, "")
    status, cause = send(admin, "/alerts/channels/chat/test", {})
    assert status == 502
    assert "answered with status 500" in cause
    assert received[2][1] is None  # the token belongs to the address before


def test_channel_that_a_rule_uses_is_not_deleted(admin: Browser) -> None:
    mail = {"name": "mail", "host": "mail.example", "sender": "a@b.example", "recipients": "c@d.example, e@f.example"}
    assert send(admin, "/alerts/mails", mail) == (303, "")
    assert "c@d.example e@f.example" in admin.get("/alerts/channels/mail").text
    assert send(admin, "/alerts/rules", {**RULE, "name": "mailed", "channels": "mail"}) == (303, "")
    status, cause = send(admin, "/alerts/channels/mail/delete", {})
    assert (status, "rules still use the channel mail" in cause) == (400, True)
    assert send(admin, "/alerts/rules/mailed/delete", {}) == (303, "")
    assert send(admin, "/alerts/channels/mail/delete", {}) == (303, "")
    assert admin.get("/alerts/channels/mail").status == 404
    assert send(admin, "/alerts/mails", {**mail, "recipients": "nobody"})[0] == 400


def test_operators_change_rules_and_only_administrators_channels(console: RunningConsole, admin: Browser) -> None:
    people = {}
    for role in ("viewer", "operator"):
        assert admin.send("/users", {"user": role, "password": SECRET, "role": role}, page="/alerts").status == 303
        people[role] = console.browser()
        assert people[role].log_in(role, SECRET).status == 303
    own = {**RULE, "name": "by operator"}
    assert send(people["viewer"], "/alerts/rules", own)[0] == 403
    assert send(people["viewer"], "/alerts/channels/log/test", {})[0] == 403
    assert send(people["operator"], "/alerts/rules", own)[0] == 303
    assert send(people["operator"], "/alerts/channels/log/test", {})[0] == 303
    assert send(people["operator"], "/alerts/webhooks", {"name": "x", "url": "http://127.0.0.1:1/"})[0] == 403
    assert "/alerts/webhooks" not in people["operator"].get("/alerts").text
