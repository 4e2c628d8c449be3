from pathlib import Path

from appliance.configuration_reader import Sources, read_configuration
from appliance.role_table import BrokerRole, appliance_roles, broker_roles


def table(tmp_path: Path, *settings: str) -> tuple[BrokerRole, ...]:
    [broker] = read_configuration(Sources(data=str(tmp_path), settings=settings)).brokers
    return broker_roles(broker)


def names_of_own(tmp_path: Path, *settings: str) -> list[str]:
    return [role.name for role in appliance_roles(read_configuration(Sources(data=str(tmp_path), settings=settings)))]


def test_all_roles_are_enabled_by_default(tmp_path: Path) -> None:
    assert names_of_own(tmp_path) == ["logger", "nameserver", "console"]
    names = [role.name for role in table(tmp_path)]
    assert names == ["recover", "housekeeper", "flush", "dispatch", "ha", "broker"]


def test_no_role_waits_for_a_disabled_role(tmp_path: Path) -> None:
    settings = ("nameserverEnable=false", "haEnable=false", "namesrvAddr=elsewhere:9876")
    roles = table(tmp_path, *settings)
    names = {role.name for role in roles}
    assert "ha" not in names
    assert names_of_own(tmp_path, *settings) == ["logger", "console"]
    assert all(names.issuperset(role.after) for role in roles)


def test_roles_that_write_to_the_store_wait_for_recovery_and_hold_the_lock(tmp_path: Path) -> None:
    roles = {role.name: role for role in table(tmp_path)}
    for name in ("housekeeper", "flush", "dispatch", "ha"):
        assert roles[name].after == ("recover",)
        assert roles[name].holds_store
    assert {"housekeeper", "flush", "dispatch"} <= set(roles["broker"].after)


def test_roles_stop_in_data_flow_order(tmp_path: Path) -> None:
    in_order = [role.name for role in sorted(table(tmp_path), key=lambda role: role.stops) if not role.runs_once]
    assert in_order == ["broker", "ha", "dispatch", "flush", "housekeeper"]
    own = appliance_roles(read_configuration(Sources(data=str(tmp_path))))
    assert [role.name for role in sorted(own, key=lambda role: role.stops)] == ["nameserver", "console", "logger"]


def test_filter_roles_exist_only_with_workers_and_no_role_depends_on_them(tmp_path: Path) -> None:
    roles = table(tmp_path, "pythonFilterWorkers=3")
    filters = [role for role in roles if role.name.startswith("filter-")]
    assert [role.name for role in filters] == ["filter-0", "filter-1", "filter-2"]
    assert all(role.is_expendable and not role.holds_store and role.ends_with == "broker" for role in filters)
    assert not any(name.startswith("filter-") for role in roles for name in (*role.after, *role.outlives))
