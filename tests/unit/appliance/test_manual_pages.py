import click
import pytest

from appliance.cli.main import headrace
from appliance.manual import commands, options
from headrace.model.option import help_of, keys_of


@pytest.mark.parametrize("page", [commands, options])
def test_manual_page_is_up_to_date(page: object) -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.format_page(), "stale: run `make docs`"  # type: ignore[attr-defined]


def test_every_option_of_ours_is_described() -> None:
    for configuration in (options.ApplianceConfig, options.BrokerConfig, options.StoreConfig, options.NameServerConfig):
        for key, field in keys_of(configuration).items():
            assert help_of(field).endswith("."), f"{configuration.__name__}: {key}"


def test_every_command_option_has_help() -> None:
    def look_at(group: click.Group, context: click.Context) -> None:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            assert command.get_short_help_str()
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, f"{name} {parameter.name}"
            if isinstance(command, click.Group):
                look_at(command, context)

    look_at(headrace, click.Context(headrace))


def test_manual_lists_every_command() -> None:
    page = commands.format_page()
    for command in ("run", "status", "stop", "start", "restart", "config check", "store dump", "store verify"):
        assert f"\n## headrace {command}\n" in page
