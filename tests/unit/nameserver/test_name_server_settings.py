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


def test_the_configuration_is_read_by_rocketmqs_keys() -> None:
    config = from_mapping(NameServerConfig, {"listenPort": "9999", "orderMessageEnable": "true", "kvConfigPath": "/kv"})
    assert (config.listen_port, config.order_message_enable, config.kv_config_path) == (9999, True, "/kv")


def test_a_change_counts_at_once_and_is_written_as_a_whole_configuration(settings: Settings, tmp_path: Path) -> None:
    assert settings.update(b"orderMessageEnable=true\nnobodyKnows=1\n") == {"orderMessageEnable": "true"}
    assert settings.config.order_message_enable
    written = decode_properties_text((tmp_path / "conf" / "namesrv.properties").read_bytes())
    assert from_mapping(NameServerConfig, written) == settings.config
    assert decode_properties_text(settings.text())["orderMessageEnable"] == "true"


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList", "listenPort"])
def test_forbidden_keys_change_nothing_not_even_others(settings: Settings, key: str, tmp_path: Path) -> None:
    before = settings.config
    with pytest.raises(SettingsRefused, match=key) as caught:
        settings.update(f"orderMessageEnable=true\n{key}=1\n".encode())
    assert caught.value.is_forbidden
    assert settings.config == before
    assert not (tmp_path / "conf").exists()


@pytest.mark.parametrize("body", [b"orderMessageEnable=perhaps", b"brokerChannelExpiredTime=soon", b"a=\\u12"])
def test_what_cannot_be_read_changes_nothing(settings: Settings, body: bytes) -> None:
    before = settings.config
    with pytest.raises(SettingsRefused) as caught:
        settings.update(body)
    assert not caught.value.is_forbidden
    assert settings.config == before


def test_nothing_known_in_it_is_no_error_and_writes_nothing(settings: Settings, tmp_path: Path) -> None:
    assert settings.update(b"") == {}
    assert settings.update(b"serverWorkerThreads=9\n") == {}
    assert not (tmp_path / "conf").exists()
