"""The table of consumer groups, and the file that Apache's broker reads too."""

from pathlib import Path

import pytest

from broker.clients.groups import GroupTable
from broker.config import BrokerConfig
from broker.json_file import JsonFile
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol import fastjson
from support import golden


def table(tmp_path: Path, auto_create: bool = True) -> GroupTable:
    config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1", auto_create_subscription_group=auto_create)
    return GroupTable(JsonFile(tmp_path / "config" / "subscriptionGroup.json"), config)


def test_new_broker_has_apaches_groups(tmp_path: Path) -> None:
    assert set(table(tmp_path).all()) == {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }


def test_unknown_group_is_created_with_defaults_and_stored(tmp_path: Path) -> None:
    groups = table(tmp_path)
    assert groups.find("g") == SubscriptionGroupConfig("g")
    assert groups.data_version.counter == 1
    assert "g" in table(tmp_path, auto_create=False).all()


def test_only_system_groups_are_created_if_auto_creation_is_disabled(tmp_path: Path) -> None:
    groups = table(tmp_path, auto_create=False)
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_TRANS") is not None


@pytest.mark.parametrize("store", ["kinds", "v5"])
def test_apaches_file_is_read_and_written_back(store: str, tmp_path: Path) -> None:
    root = golden.unpack(store, tmp_path)
    path = root / "config" / "subscriptionGroup.json"
    before = fastjson.loads(path.read_text())
    groups = table(root)
    assert groups.data_version.counter == before["dataVersion"]["counter"]
    groups.put(SubscriptionGroupConfig("new"))
    after = fastjson.loads(path.read_text())
    for name, was in before["subscriptionGroupTable"].items():
        now = after["subscriptionGroupTable"][name]
        assert now == {key: was[key] for key in now}, name


def test_file_has_apaches_format(tmp_path: Path) -> None:
    root = golden.unpack("kinds", tmp_path)
    path = root / "config" / "subscriptionGroup.json"

    def lines() -> list[str]:
        kept = (line.rstrip(",") for line in path.read_text().splitlines())
        return sorted(line for line in kept if '"counter"' not in line and '"timestamp"' not in line)

    before = lines()
    table(root).put(SubscriptionGroupConfig("tag-group"))
    assert lines() == before


def test_changes_increment_the_version_and_notify_listeners(tmp_path: Path) -> None:
    groups = table(tmp_path)
    heard: list[str | None] = []
    groups.on_change(heard.append)
    groups.find("a")
    groups.find("a")
    groups.put(SubscriptionGroupConfig("a", consume_enable=False))
    assert groups.delete("a")
    assert not groups.delete("a")
    assert heard == ["a", "a", "a"]
    assert groups.data_version.counter == 3
