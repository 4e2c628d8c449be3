import os
from pathlib import Path

import pytest

from appliance.boot import listening_ports
from appliance.broker_group import CurrentConfiguration
from appliance.configuration_reader import Sources, read_configuration


def change(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_changed_broker_conf_applies_at_the_next_start_of_a_role(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=72\n")
    sources = Sources(data=str(tmp_path), broker_conf=str(conf))
    current = CurrentConfiguration(read_configuration(sources).brokers[0], sources)
    assert current.read().store.file_reserved_time == 72
    change(conf, "fileReservedTime=24\n")
    assert current.read().store.file_reserved_time == 24


def test_invalid_or_missing_broker_conf_is_ignored_on_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=72\n")
    sources = Sources(data=str(tmp_path), broker_conf=str(conf))
    current = CurrentConfiguration(read_configuration(sources).brokers[0], sources)
    change(conf, "fileReservedTime=long\n")
    assert current.read().store.file_reserved_time == 72
    assert "expected a whole number" in caplog.text
    conf.unlink()
    assert current.read().store.file_reserved_time == 72


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], {9876: "name server", 10911: "broker", 10909: "VIP channel", 10912: "HA"}),
        (["haEnable=false"], {9876: "name server", 10911: "broker", 10909: "VIP channel"}),
        (["nameserverEnable=false"], {10911: "broker", 10909: "VIP channel", 10912: "HA"}),
        (["brokerRole=SLAVE"], {9876: "name server", 10911: "broker", 10909: "VIP channel", 10912: "HA"}),
    ],
)
def test_ports_are_those_of_the_running_roles(tmp_path: Path, settings: list[str], expected: dict[int, str]) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path), settings=settings))
    assert listening_ports(configuration, configuration.brokers) == expected
