from pathlib import Path

import pytest

from headrace.model.option import from_mapping
from headrace.protocol.bodies.properties_text import decode_properties_text
from nameserver.config import NameServerConfig
from nameserver.errors import SettingsRefused
from nameserver.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        NameServerConfig(config_black_list="listenPort;scanNotActiveBrokerInterval"),
        tmp_path / "conf" / "namesrv.properties",
    )


def test_configuration_uses_rocketmqs_keys() -> None:
    config = from_mapping(NameServerConfig, {"listenPort": "9999", "orderMessageEnable": "true", "kvConfigPath": "/kv"})
    assert (config.listen_port, config.order_message_enable, config.kv_config_path) == (9999, True, "/kv")


def test_change_applies_at_once_and_is_stored_as_a_complete_configuration(settings: Settings, tmp_path: Path) -> None:
    assert settings.update(b"orderMessageEnable=true\nnobodyKnows=1\n") == {"orderMessageEnable": "true"}
    assert settings.config.order_message_enable
    written = decode_properties_text((tmp_path / "conf" / "namesrv.properties").read_bytes())
    assert from_mapping(NameServerConfig, written) == settings.config
    assert decode_properties_text(settings.text())["orderMessageEnable"] == "true"


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList", "listenPort"])
def test_request_with_a_forbidden_key_changes_nothing(settings: Settings, key: str, tmp_path: Path) -> None:
    before = settings.config
    with pytest.raises(SettingsRefused, match=key) as caught:
        settings.update(f"orderMessageEnable=true\n{key}=1\n".encode())
    assert caught.value.is_forbidden
    assert settings.config == before
    assert not (tmp_path / "conf").exists()


@pytest.mark.parametrize("body", [b"orderMessageEnable=perhaps", b"brokerChannelExpiredTime=soon", b"a=\\u12"])
def test_invalid_text_changes_nothing(settings: Settings, body: bytes) -> None:
    before = settings.config
    with pytest.raises(SettingsRefused) as caught:
        settings.update(body)
    assert not caught.value.is_forbidden
    assert settings.config == before


def test_unknown_keys_are_ignored_and_nothing_is_written(settings: Settings, tmp_path: Path) -> None:
    assert settings.update(b"") == {}
    assert settings.update(b"serverWorkerThreads=9\n") == {}
    assert not (tmp_path / "conf").exists()
