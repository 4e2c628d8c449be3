"""Settings of topics and groups that are not the same on all brokers: what the forms of the console show, and what saving does."""

import html
import os
import re
import signal
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from headrace import SubscriptionGroupConfig, TopicConfig
from headrace.model.topic_config import UNIT
from headrace.sync import Admin
from support.console import Browser, RunningConsole
from support.servers import wait_until
from support.several_brokers import SeveralBrokers

pytestmark = pytest.mark.slow
SETTINGS = {"mappedFileSizeCommitLog": "8388608", "queueTableCapacity": "64"}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    data = tmp_path_factory.mktemp("two") / "data"
    with SeveralBrokers(data, {"a": {}, "b": {}}, settings=SETTINGS) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def sdk(brokers: SeveralBrokers) -> Iterator[Admin]:
    with Admin(brokers.name_server) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def admin(brokers: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with RunningConsole(tmp_path_factory.mktemp("console"), brokers.name_server, api_timeout=3.0) as console:
        yield console.administrator()


def form(page: str, action: str) -> str:
    """The form of a page, as text without line breaks."""
    found = re.search(rf'<form method="post" action="{re.escape(action)}".*?</form>', page, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"\s+", " ", found[0]))


def note(text: str) -> list[str]:
    """The items of a form's note about brokers that differ."""
    return [re.sub("<[^>]+>", "", item).strip() for item in re.findall("<li>(.*?)</li>", text)]


def test_form_of_a_topic_shows_how_brokers_differ_and_chooses_no_value(
    brokers: SeveralBrokers, sdk: Admin, admin: Browser
) -> None:
    of_b = TopicConfig("Unequal", 8, 4, 7, sys_flag=UNIT)
    sdk.update_topic(TopicConfig("Unequal", 8, 2, 4), broker=brokers.address_of("a"))
    sdk.update_topic(of_b, broker=brokers.address_of("b"))
    wait_until(lambda: admin.get("/topics/Unequal").status == 200, 30, "the topic is registered")
    wait_until(lambda: len(admin.read("/topics/Unequal")["brokers"]["rows"]) == 2, 30, "both brokers are registered")
    shown = form(admin.get("/topics/Unequal").text, "/topics/Unequal")
    assert note(shown) == ["Write queues: 2 (a); 4 (b)", "Permission: R (a); RW (b)"]
    assert "Saving writes the number of queues and the permission to the broker chosen below" in shown
    assert re.search('name="write_queues"[^>]* value="" required', shown)
    assert re.search('name="read_queues"[^>]* value="8" required', shown)
    assert '<select name="permission" required> <option value="" selected>Choose</option>' in shown
    admin.cookies["language"] = "zh"
    assert note(form(admin.get("/topics/Unequal").text, "/topics/Unequal")) == [
        "写队列数：2（a）；4（b）",
        "权限：R（a）；RW（b）",
    ]
    del admin.cookies["language"]

    empty = {"read_queues": "8", "write_queues": "", "permission": ""}
    assert admin.send("/topics/Unequal", empty).status == 400
    assert sdk.topic_configs(brokers.address_of("b"))["Unequal"] == of_b

    one = {"read_queues": "8", "write_queues": "3", "permission": "RW", "broker": "b"}
    assert admin.send("/topics/Unequal", one).status == 303
    assert sdk.topic_configs(brokers.address_of("a"))["Unequal"].write_queue_count == 2
    # The form has neither the flag of units nor the permission to inherit: both stay.
    assert sdk.topic_configs(brokers.address_of("b"))["Unequal"] == replace(of_b, write_queue_count=3)

    both = {"read_queues": "5", "write_queues": "5", "permission": "RW"}
    assert admin.send("/topics/Unequal", both).status == 303
    assert sdk.topic_configs(brokers.address_of("a"))["Unequal"] == TopicConfig("Unequal", 5, 5, 6)
    changed = replace(of_b, read_queue_count=5, write_queue_count=5)
    assert sdk.topic_configs(brokers.address_of("b"))["Unequal"] == changed
    shown = form(admin.get("/topics/Unequal").text, "/topics/Unequal")
    assert (note(shown), 'name="write_queues" min="1" max="1024" value="5"' in shown) == ([], True)


def test_form_of_a_group_shows_how_brokers_differ_and_chooses_no_value(
    brokers: SeveralBrokers, sdk: Admin, admin: Browser
) -> None:
    sdk.update_group(SubscriptionGroupConfig("unequal"), broker=brokers.address_of("a"))
    other = SubscriptionGroupConfig("unequal", consume_enable=False, retry_max_times=3)
    sdk.update_group(other, broker=brokers.address_of("b"))
    path = "/groups/unequal/settings"
    shown = form(admin.get("/groups/unequal").text, path)
    assert note(shown) == ["Consumption allowed: yes (a); no (b)", "Maximum retries: 16 (a); 3 (b)"]
    assert '<select name="is_enabled" required><option value="" selected>Choose</option>' in shown
    assert re.search('name="retries" value="" ', shown)
    assert re.search('name="retry_queues" value="1" ', shown)
    same = {"is_enabled": "true", "retries": "7", "retry_queues": "1", "may_broadcast": "true"}
    rest = {"starts_at_first": "true", "broker_id": "0", "slow_broker_id": "1", "notifies": "true"}
    assert admin.send(path, {**same, **rest, "retries": ""}).status == 400
    assert admin.send(path, {**same, **rest}).status == 303
    for name in "ab":
        config = sdk.group_configs(brokers.address_of(name))["unequal"]
        assert config == SubscriptionGroupConfig("unequal", retry_max_times=7)


def test_topic_is_not_changed_on_some_brokers_only_because_others_cannot_be_read(
    brokers: SeveralBrokers, sdk: Admin, admin: Browser
) -> None:
    for name in "ab":
        sdk.update_topic(TopicConfig("Everywhere", 4, 4), broker=brokers.address_of(name))
    wait_until(lambda: admin.get("/topics/Everywhere").status == 200, 30, "the topic is registered")
    stopped = brokers.status()["roles"]["b/broker"]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        form = {"read_queues": "6", "write_queues": "6", "permission": "RW"}
        refused = admin.send("/topics/Everywhere", form, page="/account")
        assert (refused.status, "Nothing was changed: not all brokers could be read." in refused.text) == (400, True)
        assert sdk.topic_configs(brokers.address_of("a"))["Everywhere"].write_queue_count == 4
    finally:
        os.kill(stopped, signal.SIGCONT)
