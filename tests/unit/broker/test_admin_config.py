"""Options changed while running: all that a request asks for, or nothing, with a reason."""

import re
from pathlib import Path

import pytest

from broker.config import BrokerConfig
from broker.live_config import LiveConfig
from headrace.model.option import is_changeable_by_request, keys_of
from headrace.protocol.bodies.properties_text import decode_properties_text
from nameserver.config import NameServerConfig
from store.config import StoreConfig
from support.admin_world import AdminWorld


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("# ours\nbrokerName = broker-a\nfileReservedTime=48\n")
    return path


def test_change_is_applied_stored_and_announced(tmp_path: Path, conf: Path) -> None:
    world = AdminWorld(tmp_path, broker_conf=conf)
    answer = world.ask(25, None, b"fileReservedTime=24\nautoCreateTopicEnable=false\n")
    assert (answer.code, answer.remark) == (0, None)
    assert world.store_config.file_reserved_time == 24
    assert world.topics.create_on_send("T", "TBW102", 4) is None
    assert conf.read_text() == "# ours\nbrokerName = broker-a\nfileReservedTime=24\nautoCreateTopicEnable=false\n"
    assert world.announced == 1
    assert world.changed_options == {"fileReservedTime": "24", "autoCreateTopicEnable": "false"}
    shown = decode_properties_text(world.ask(26).body)
    assert (shown["fileReservedTime"], shown["autoCreateTopicEnable"]) == ("24", "false")
    assert '"counter":1' in world.ask(26).ext["version"]


def test_each_change_is_announced_with_the_previous_ones(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    world.ask(25, None, b"fileReservedTime=24")
    world.ask(25, None, b"fileReservedTime=24\ndeleteWhen=05")
    assert world.changed_options == {"fileReservedTime": "24", "deleteWhen": "05"}
    assert "too long" in (world.ask(25, None, b"deleteWhen=" + b"05;" * 12_000).remark or "")
    assert world.announced == 2


def test_restarted_broker_has_the_changed_options() -> None:
    broker, store = BrokerConfig(), StoreConfig()
    live = LiveConfig(broker, store, lambda _: None, None, {"fileReservedTime": "24", "brokerPermission": "4"})
    assert (store.file_reserved_time, broker.broker_permission) == (24, 4)
    assert live.texts()["fileReservedTime"] == "24"


def test_change_without_a_file_is_reported_as_not_stored(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    answer = world.ask(25, None, b"fileReservedTime=24")
    assert answer.code == 0
    assert "until the next restart" in (answer.remark or "")


def test_current_value_is_not_a_change(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    assert world.ask(25, None, b"fileReservedTime=72\nlistenPort=21011\n").code == 0
    assert world.ask(25).code == 0
    assert world.announced == 0


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (b"brokerConfigPath=x", 16, "Can not update config in black list."),
        (b"rocketmqHome=x", 16, "rocketmqHome"),
        (b"configBlackList=x", 16, "configBlackList"),
        (b"listenPort=1", 1, "listenPort cannot be changed while the broker runs: set it in broker.conf and restart"),
        (b"namesrvAddr=192.0.2.1:9876", 1, "namesrvAddr cannot be changed by a request: set it in broker.conf"),
        (b"adminAllow=0.0.0.0/0", 1, "adminAllow cannot be changed while the broker runs: set it in broker.conf"),
        (b"allowUnauthenticatedAdmin=true", 1, "allowUnauthenticatedAdmin cannot be changed while the broker runs"),
        (b"fileReservedTim=1", 1, "did you mean fileReservedTime?"),
        (b"sendMessageThreadPoolNums=4", 1, "sendMessageThreadPoolNums has no effect here: "),
        (b"fileReservedTime=soon", 1, "fileReservedTime=soon: expected a whole number"),
        (b"deleteWhen=25", 1, "deleteWhen=25: expected hours"),
        (b"fileReservedTime=\\uZZ", 1, "string2Properties error"),
    ],
)
def test_request_with_an_unchangeable_option_changes_nothing(
    tmp_path: Path, conf: Path, body: bytes, code: int, remark: str
) -> None:
    world = AdminWorld(tmp_path, broker_conf=conf)
    before = conf.read_text()
    answer = world.ask(25, None, b"flushIntervalCommitLog=7\n" + body)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert world.store_config.flush_interval_commit_log == 500
    assert conf.read_text() == before
    assert world.announced == 0


def test_keys_on_the_configured_blacklist_are_refused(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path, config_black_list="fileReservedTime; brokerPermission")
    for body in (b"fileReservedTime=24", b"brokerPermission=4", b"configBlackList="):
        assert world.ask(25, None, body).code == 16


def test_change_is_refused_if_the_file_cannot_be_written(tmp_path: Path, conf: Path) -> None:
    world = AdminWorld(tmp_path, broker_conf=conf)
    conf.unlink()
    answer = world.ask(25, None, b"fileReservedTime=24")
    assert answer.code == 1
    assert "UPDATE_BROKER_CONFIG failed: " in (answer.remark or "")
    assert world.store_config.file_reserved_time == 72


def test_changed_permission_is_registered_at_once(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    assert world.ask(25, None, b"brokerPermission=4").code == 0
    assert world.topics.data_version.counter == 1
    assert world.config.broker_permission == 4


SENSITIVE = {
    "path",
    "dir",
    "folder",
    "file",
    "addr",
    "address",
    "host",
    "ip",
    "port",
    "command",
    "acl",
    "tls",
    "ssl",
    "cert",
    "key",
    "admin",
    "allow",
    "unauthenticated",
    "access",
    "black",
    "white",
    "list",
    "class",
}
SPARED = {
    "fileReservedTime",
    "cleanFileForciblyEnable",
    "deleteCommitLogFilesInterval",
    "accessMessageInMemoryMaxRatio",
}
"""Options whose names only sound like files or access."""


def another(value: object) -> str:
    """The text of another value of the same type, which need not be valid."""
    if isinstance(value, bool):
        return "false" if value else "true"
    return str(value + 1) if isinstance(value, int) else "other"


def test_every_option_is_changed_by_request_or_refused_by_name(tmp_path: Path) -> None:
    for configuration in (BrokerConfig, StoreConfig):
        for key, field in keys_of(configuration).items():
            world = AdminWorld(tmp_path)
            held = world.config if configuration is BrokerConfig else world.store_config
            before = getattr(held, field.name)
            answer = world.ask(25, None, f"{key}={another(before)}\n".encode())
            if answer.code == 0:
                assert is_changeable_by_request(field), f"{key}: a request has changed it"
            else:
                assert key in (answer.remark or ""), answer.remark
                assert is_changeable_by_request(field) or "broker.conf" in (answer.remark or ""), answer.remark
                assert getattr(held, field.name) == before


def test_no_request_changes_a_path_an_address_a_port_or_access() -> None:
    for configuration in (BrokerConfig, StoreConfig, NameServerConfig):
        for key, field in keys_of(configuration).items():
            words = {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", key)}
            if is_changeable_by_request(field) and key not in SPARED:
                assert not words & SENSITIVE, f"{key}: a request may change it"
