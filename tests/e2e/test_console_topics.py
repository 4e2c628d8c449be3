"""Topics in the console, on an appliance: what it changes is seen by the SDK, and who may change what."""

import json
from collections.abc import Iterator

import pytest

from headrace.sync import Admin
from support.appliance import Appliance
from support.console import PASSWORD, Browser, first_administrator, is_up, request
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
PAYLOAD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("console") / "data"
    with Appliance(data, settings={"mappedFileSizeCommitLog": "16777216"}, console_port=free_port()) as appliance:
        wait_until(lambda: is_up(port_of(appliance)), 30, "console")
        yield appliance
        log = (appliance.data / "logs" / "headrace.log").read_text()
        assert "request failed path" not in log, log[log.index("request failed path") :][:4_000]


@pytest.fixture(scope="module")
def admin(appliance: Appliance) -> Browser:
    return first_administrator(appliance.data / "console", port_of(appliance))


@pytest.fixture(scope="module")
def viewer(appliance: Appliance, admin: Browser) -> Browser:
    assert admin.send("/users", {"user": "vera", "password": PASSWORD, "role": "viewer"}).status == 303
    browser = Browser(port_of(appliance))
    assert browser.log_in("vera", PASSWORD).status == 303
    return browser


def port_of(appliance: Appliance) -> int:
    return int(appliance.command[appliance.command.index("--console-port") + 1])


def test_topic_is_created_changed_and_deleted_as_the_sdk_sees_it(appliance: Appliance, admin: Browser) -> None:
    made = admin.send("/topics", {"topic": "Orders", "read_queues": "3", "write_queues": "2", "permission": "RW"})
    assert (made.status, made.headers["location"]) == (303, "/topics/Orders")
    assert "The topic Orders was created." in admin.get("/topics/Orders").text
    assert "The topic Orders was created." not in admin.get("/topics/Orders").text
    with Admin(appliance.name_server) as sdk:
        config = sdk.topic_configs(appliance.broker)["Orders"]
        assert (config.read_queue_count, config.write_queue_count, config.permission) == (3, 2, 6)
        settings = {"read_queues": "3", "write_queues": "3", "permission": "R"}
        assert admin.send("/topics/Orders", settings).status == 303
        config = sdk.topic_configs(appliance.broker)["Orders"]
        assert (config.write_queue_count, config.permission) == (3, 4)
        assert admin.send("/topics/Orders/delete", {"confirm": "orders"}).status == 400
        assert "Orders" in sdk.topic_configs(appliance.broker)
        assert admin.send("/topics/Orders/delete", {"confirm": "Orders"}).status == 303
        assert admin.send("/topics/%C3%83/delete", {"confirm": "Ã"}).status == 404  # no topic can have this name
        assert "Orders" not in sdk.topic_configs(appliance.broker)


def test_changes_are_in_the_audit_log_with_before_and_after(admin: Browser) -> None:
    admin.send("/topics", {"topic": "Audited", "read_queues": "1", "write_queues": "1", "permission": "RW"})
    admin.send("/topics/Audited", {"read_queues": "2", "write_queues": "2", "permission": "RW"})
    admin.send("/topics/Audited/delete", {"confirm": "wrong"})
    lines = admin.get("/audit?format=jsonl&filter=Audited").text.splitlines()
    failed, changed, created = (json.loads(line) for line in lines)
    assert (created["user"], created["address"], created["action"], created["subject"]) == (
        "admin",
        "127.0.0.1",
        "topic.create",
        "Audited",
    )
    assert created["before"] == ""
    [before] = json.loads(changed["before"]).values()
    [after] = json.loads(changed["after"]).values()
    assert (before["read_queues"], after["read_queues"]) == (1, 2)
    assert failed["action"] == "topic.delete"
    assert failed["outcome"].startswith("failed: 'wrong' is not the name of this topic")


def test_sent_message_is_counted_and_its_properties_are_stored(appliance: Appliance, admin: Browser) -> None:
    admin.send("/topics", {"topic": "Mail", "read_queues": "1", "write_queues": "1", "permission": "RW"})
    form = {
        "body": PAYLOAD,
        "tags": "T",
        "keys": "k1 k2",
        "properties": f"colour={PAYLOAD}\nsize=2",
        "delay_level": "0",
    }
    sent = admin.send("/topics/Mail/messages", form)
    assert sent.status == 303, sent.cause
    with Admin(appliance.name_server) as sdk:
        wait_until(lambda: sdk.query_messages("Mail", "k2"), 15, "the index")
        [message] = sdk.query_messages("Mail", "k2")
    assert message.body == PAYLOAD.encode()
    assert message.properties["colour"] == PAYLOAD
    wait_until(
        lambda: admin.get("/api/v1/topics?filter=Mail").json()["topics"]["rows"][0]["messages"] == 1, 15, "count"
    )
    assert admin.get("/api/v1/topics/Mail").json()["messages"] == 1


def test_json_of_a_change_needs_the_token_in_a_header(admin: Browser) -> None:
    body = json.dumps({"topic": "ByApi", "permission": "RW"})
    cookie = {"Cookie": f"headrace_session={admin.cookies['headrace_session']}", "Content-Type": "application/json"}
    refused = request("POST", admin.port, "/api/v1/topics", body.encode(), cookie)
    assert (refused.status, refused.json()["error"]) == (403, "the form belongs to another session")
    done = request("POST", admin.port, "/api/v1/topics", body.encode(), {**cookie, "X-CSRF-Token": admin.csrf()})
    assert (done.status, done.json()["message"]) == (200, "The topic ByApi was created.")


def test_viewer_sees_topics_but_neither_forms_nor_changes(
    appliance: Appliance, viewer: Browser, admin: Browser
) -> None:
    admin.send("/topics", {"topic": "Kept", "permission": "RW"})
    for path in ("/topics", "/topics/Kept", "/"):
        page = viewer.get(path)
        assert page.status == 200
        assert 'action="/topics' not in page.text.replace('method="get" action="/topics', "")
        assert "Audit log" not in page.text
    refused = viewer.send("/topics/Kept/delete", {"confirm": "Kept"})
    assert refused.status == 403
    assert "vera has the role viewer; this request requires the role operator" in refused.text
    assert [viewer.get(path).status for path in ("/users", "/audit", "/users/admin", "/api/v1/users")] == [403] * 4
    with Admin(appliance.name_server) as sdk:
        assert "Kept" in sdk.topics()
    assert "refused: vera has the role viewer" in admin.get("/audit?format=jsonl&filter=vera").text


def test_form_of_another_site_changes_nothing(appliance: Appliance, admin: Browser) -> None:
    form = {"topic": "Forged", "read_queues": "1", "write_queues": "1", "permission": "RW"}
    assert admin.post("/topics", form).status == 403
    assert admin.post("/topics", {**form, "csrf": admin.csrf()}, {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert admin.post("/topics", {**form, "csrf": admin.csrf()}, {"Origin": "http://evil.example"}).status == 403
    with Admin(appliance.name_server) as sdk:
        assert "Forged" not in sdk.topics()


@pytest.mark.parametrize(
    ("form", "cause"),
    [
        ({"topic": "a b"}, "Use 1 to 127 of these characters: a-z, A-Z, 0-9, _ - % |"),
        ({"topic": ""}, "is not a valid topic name"),
        ({"topic": "T", "read_queues": "0"}, "invalid number of read queues: 0"),
        ({"topic": "T", "read_queues": "many"}, "the form is invalid"),
        ({"topic": "T", "permission": "X"}, "the permission 'X' is not one of"),
        ({"topic": "T", "broker": "nowhere"}, "no master of the broker nowhere is registered"),
        ({"topic": "TBW102"}, "already exists"),
        ({"topic": PAYLOAD}, "Use 1 to 127 of these characters: a-z, A-Z, 0-9, _ - % |"),
    ],
)
def test_invalid_forms_are_answered_with_their_cause(admin: Browser, form: dict[str, str], cause: str) -> None:
    answer = admin.send("/topics", form)
    assert answer.status == 400
    assert cause in answer.text.replace("&#39;", "'")
    assert PAYLOAD not in answer.text


def test_texts_of_users_and_addresses_are_escaped(admin: Browser) -> None:
    for path in (f"/topics?filter={PAYLOAD}", f"/topics/{PAYLOAD}", f"/topics?kind={PAYLOAD}", f"/{PAYLOAD}"):
        assert PAYLOAD not in admin.get(path.replace("<", "%3C").replace(">", "%3E")).text
    browser = Browser(admin.port)
    form = {"name": "admin", "password": PASSWORD}
    browser.post("/login", form, {"User-Agent": PAYLOAD})
    page = admin.get("/users").text
    assert PAYLOAD not in page
    assert "&lt;script&gt;alert(1)" in page


def test_unknown_topic_is_an_error_and_not_an_empty_page(admin: Browser) -> None:
    page = admin.get("/topics/Nowhere")
    assert page.status == 404
    assert "the topic Nowhere does not exist" in page.text


def test_overview_shows_roles_and_brokers(appliance: Appliance, admin: Browser) -> None:
    answer = admin.get("/api/v1/").json()
    assert {row["role"] for row in answer["roles"]["rows"]} >= {"broker", "console", "nameserver"}
    [broker] = answer["brokers"]["rows"]
    assert broker["address"] == appliance.broker
    assert broker["put_per_second"] is not None
    assert answer["problems"] == []
    assert admin.get("/").status == 200


def test_users_are_added_changed_and_deleted(appliance: Appliance, admin: Browser) -> None:
    assert admin.send("/users", {"user": "otto", "password": PASSWORD, "role": "viewer"}).status == 303
    otto = Browser(port_of(appliance))
    otto.log_in("otto", PASSWORD)
    assert otto.send("/topics", {"topic": "ByOtto", "permission": "RW"}).status == 403
    assert admin.send("/users/otto/role", {"role": "operator"}).status == 303
    assert otto.send("/topics", {"topic": "ByOtto", "permission": "RW"}).status == 303
    assert otto.get("/users").status == 403
    new = {"current": PASSWORD, "password": PASSWORD + "2", "again": PASSWORD + "2"}
    assert otto.send("/account/password", {**new, "current": "wrong"}).status == 400
    assert otto.send("/account/password", new).status == 303
    assert otto.get("/topics").status == 303  # its session has ended
    assert otto.log_in("otto", PASSWORD).status == 403
    assert otto.log_in("otto", PASSWORD + "2").status == 303
    [session] = admin.get("/api/v1/users/otto").json()["sessions"]["rows"]
    assert admin.get(f"/sessions/{session['session']}").status == 200
    assert admin.send(f"/sessions/{session['session']}/delete", {}).status == 303
    assert otto.get("/topics").status == 303
    assert admin.send("/users/otto/delete", {}).status == 303
    assert otto.log_in("otto", PASSWORD + "2").status == 403
    last = admin.send("/users/admin/delete", {})
    assert (last.status, "admin is the last administrator" in last.text) == (400, True)
    assert admin.send("/users/admin/role", {"role": "viewer"}).status == 400
    assert admin.get("/audit").status == admin.get("/account").status == admin.get("/users/admin").status == 200
    assert PASSWORD not in admin.get("/audit?format=jsonl").text
