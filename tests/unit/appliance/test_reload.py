import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.configuration_reader import Sources, read_configuration
from appliance.reload import ReloadedSettings, Reloader, current_log_level
from ipc.reload_page import ReloadPage


class World:
    """The files of an appliance, its supervisor's side and the side of a role."""

    def __init__(self, folder: Path) -> None:
        self.conf, self.toml = folder / "broker.conf", folder / "appliance.toml"
        self.conf.write_text("fileReservedTime=48\n")
        self.toml.write_text("")
        sources = Sources(data=str(folder / "data"), broker_conf=str(self.conf), appliance_toml=str(self.toml))
        self.page = ReloadPage()
        self.reloader = Reloader(sources, read_configuration(sources), self.page)
        self.role = ReloadedSettings(self.page, "broker")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    level = logging.getLogger().level
    yield World(tmp_path)
    logging.getLogger().setLevel(level)


def test_options_that_requests_may_change_are_passed_to_the_broker_once(world: World) -> None:
    world.conf.write_text("fileReservedTime=24\nmaxMessageSize=1048576\n")
    assert "changed: broker/fileReservedTime=24 broker/maxMessageSize=1048576;" in world.reloader.reload()
    assert world.role.take_options() == {"fileReservedTime": "24", "maxMessageSize": "1048576"}
    assert world.role.take_options() == {}


def test_role_that_missed_a_reload_gets_all_changes_with_the_next(world: World) -> None:
    world.conf.write_text("fileReservedTime=24\n")
    world.reloader.reload()
    world.conf.write_text("fileReservedTime=24\nmaxMessageSize=1048576\n")
    assert "fileReservedTime" not in world.reloader.reload()
    assert world.role.take_options() == {"fileReservedTime": "24", "maxMessageSize": "1048576"}


def test_role_forked_after_a_reload_has_read_the_files_itself(world: World) -> None:
    world.conf.write_text("fileReservedTime=24\n")
    world.reloader.reload()
    assert ReloadedSettings(world.page, "broker").take_options() == {}


def test_options_that_need_a_restart_are_named_until_it(world: World) -> None:
    world.conf.write_text("fileReservedTime=48\nlistenPort=20911\n")
    world.toml.write_text("consolePort = 8090\n")
    for _ in range(2):
        line = world.reloader.reload()
        assert "changed: nothing;" in line
        assert line.endswith("requires a restart: broker/listenPort console/consolePort")
    assert world.role.take_options() == {}


def test_log_level_follows_in_supervisor_and_roles(world: World) -> None:
    world.toml.write_text('logLevel = "debug"\n')
    assert "changed: logLevel=debug;" in world.reloader.reload()
    assert logging.getLogger().level == logging.DEBUG
    logging.getLogger().setLevel(logging.INFO)  # as in another process
    world.role.follow_log_level()
    assert logging.getLogger().level == logging.DEBUG
    assert current_log_level(world.page, "info") == "debug"


@pytest.mark.parametrize("text", ["fileReservedTime=much\n", "listenPort=0\n", "tlsMode=enforcing\n"])
def test_invalid_file_changes_nothing(world: World, text: str) -> None:
    world.conf.write_text(f"maxMessageSize=1048576\n{text}")
    line = world.reloader.reload()
    assert line.startswith("configuration not reloaded, nothing was changed: ")
    assert text.partition("=")[0] in line
    assert world.page.version == 0


def test_missing_file_changes_nothing(world: World) -> None:
    world.conf.unlink()
    assert "broker.conf: No such file" in world.reloader.reload()


def test_broker_that_is_added_needs_a_restart(world: World) -> None:
    world.toml.write_text("brokers = 2\n")
    assert "[[broker]] broker-a" in world.reloader.reload()
