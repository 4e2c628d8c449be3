from pathlib import Path
from typing import Any

import pytest

from appliance.configuration_reader import Sources, check_file, read_changes, read_configuration
from appliance.effective_configuration import BrokerConfiguration
from appliance.errors import ConfigurationError, PreflightFailed
from appliance.paths import AppliancePaths
from appliance.preflight import check_layout


def brokers(tmp_path: Path, toml: str, **sources: Any) -> tuple[BrokerConfiguration, ...]:
    (tmp_path / "appliance.toml").write_text(toml)
    given = Sources(data=str(tmp_path / "data"), appliance_toml=str(tmp_path / "appliance.toml"), **sources)
    return read_configuration(given).brokers


def refusal(tmp_path: Path, toml: str, **sources: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        brokers(tmp_path, toml, **sources)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_short_form_gives_each_broker_name_port_and_store(tmp_path: Path) -> None:
    made = brokers(tmp_path, "brokers = 3\n", port=20_000)
    assert [one.name for one in made] == ["broker-a", "broker-b", "broker-c"]
    assert [one.broker.broker_name for one in made] == ["broker-a", "broker-b", "broker-c"]
    assert [one.broker.listen_port for one in made] == [20_000, 20_010, 20_020]
    assert [str(one.store_paths.root) for one in made] == [f"{tmp_path}/data/{one.name}/store" for one in made]
    assert [one.label for one in made] == ["broker-a", "broker-b", "broker-c"]
    assert made[1].listening_ports() == {
        20_010: "broker-b: broker",
        20_008: "broker-b: VIP channel",
        20_011: "broker-b: HA",
    }
    assert all(one.nameserver_addresses == ["127.0.0.1:9876"] for one in made)


def test_only_listed_broker_keeps_the_folders_and_role_names_of_an_unlisted_one(tmp_path: Path) -> None:
    [made] = brokers(tmp_path, '[[broker]]\nname = "main"\nflushDiskType = "SYNC_FLUSH"\n')
    assert (made.name, made.label, made.broker.broker_name) == ("main", "", "main")
    assert str(made.store_paths.root) == f"{tmp_path}/data/store"
    assert made.store.is_sync_flush


def test_table_wins_over_its_broker_conf_and_that_over_the_common_one(tmp_path: Path) -> None:
    (tmp_path / "common.conf").write_text("fileReservedTime=1\ndeleteWhen=01\nbrokerPermission=2\n")
    (tmp_path / "b.conf").write_text("fileReservedTime=2\ndeleteWhen=02\nlistenPort=30000\n")
    toml = '[[broker]]\n[[broker]]\nconf = "b.conf"\nfileReservedTime = 3\nstore = "elsewhere"\n'
    first, second = brokers(tmp_path, toml, broker_conf=str(tmp_path / "common.conf"), settings=["brokerPermission=4"])
    assert (first.store.file_reserved_time, first.store.delete_when, first.broker.broker_permission) == (1, "01", 4)
    assert (second.store.file_reserved_time, second.store.delete_when) == (3, "02")
    assert (second.broker.listen_port, str(second.store_paths.root)) == (30_000, f"{tmp_path}/data/elsewhere")
    # Changed options are written only to the broker's own file.
    assert (first.broker_conf, second.broker_conf) == (None, tmp_path / "b.conf")


def test_master_and_slave_share_brokerName(tmp_path: Path) -> None:  # noqa: N802  (RocketMQ's key)
    toml = """
        [[broker]]
        [[broker]]
        name = "broker-a-slave"
        brokerName = "broker-a"
        brokerId = 1
        brokerRole = "SLAVE"
        haMasterAddress = "127.0.0.1:10912"
    """
    master, slave = brokers(tmp_path, toml)
    assert (master.broker.broker_name, slave.broker.broker_name) == ("broker-a", "broker-a")
    assert (master.is_slave, slave.is_slave) == (False, True)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("brokers = 0\n", "brokers=0: expected a number from 1 to 26"),
        ('brokers = "many"\n', "brokers=many: expected a number"),
        ("brokers = 2\n[[broker]]\n", "brokers and [[broker]] are mutually exclusive"),
        ("[broker]\n", "expected tables that start with the line [[broker]]"),
        ('[[broker]]\nname = "a"\n[[broker]]\nname = "a"\n', "2 [[broker]] tables are named a"),
        ('[[broker]]\nname = "a/b"\n', "name=a/b: expected up to 40 letters"),
        ('[[broker]]\nname = "logs"\n', "name=logs is reserved"),
        ('[[broker]]\nname = "console"\n', "name=console is reserved"),
        ('[[broker]]\nname = "tls"\n', "name=tls is reserved"),
        ("[[broker]]\nlistenPrt = 1\n", "[[broker]] broker-a: unknown key listenPrt (did you mean listenPort?)"),
        ("[[broker]]\nport = 1\nlistenPort = 1\n", "port and listenPort are the same"),
        ("[[broker]]\nlistenPort = [1]\n", "listenPort: expected a single value"),
        ("[[broker]]\nport = 20000\n[[broker]]\nport = 20002\n", "broker-a and broker-b both use port 20000"),
        ('[[broker]]\nstore = "s"\n[[broker]]\nstore = "s"\n', "broker-a and broker-b both use the folder"),
        ('[[broker]]\nstore = "."\n', "is the data folder itself"),
        ('[[broker]]\nconf = "x.conf"\n[[broker]]\nconf = "x.conf"\n', "broker-a and broker-b both use the file"),
        (
            '[[broker]]\nbrokerName = "x"\n[[broker]]\nbrokerName = "x"\n',
            "both use brokerName=x with brokerId=0; give each its own",
        ),
        ("[[broker]]\nfileReservedTime = -1\nflushDiskType = 1\n", "[[broker]] broker-a: flushDiskType=1"),
        ('[[broker]]\nstorePathRootDir = "/srv/a"\n', 'set store = "/srv/a" in its [[broker]] table'),
    ],
)
def test_wrong_list_is_refused_in_one_line(tmp_path: Path, toml: str, message: str) -> None:
    (tmp_path / "x.conf").write_text("")
    assert message in refusal(tmp_path, toml)
    with pytest.raises(ConfigurationError):
        check_file(str(tmp_path / "appliance.toml"))


def test_commit_log_shared_by_set_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, "brokers = 2\n", settings=[f"storePathCommitLog={tmp_path}/log"])
    assert message == f"brokers broker-a and broker-b both use the folder {tmp_path}/log; give each its own"


@pytest.mark.parametrize(
    ("toml", "inner", "outer"),
    [
        ('[[broker]]\n[[broker]]\nstore = "broker-a/store/b"\n', "broker-a/store/b", "broker-a/store"),
        ('[[broker]]\nstore = "broker-b/store/deep/er"\n[[broker]]\n', "broker-b/store/deep/er", "broker-b/store"),
        (
            '[[broker]]\n[[broker]]\nstorePathCommitLog = "{data}/broker-a/store/log"\n',
            "broker-a/store/log",
            "broker-a/store",
        ),
        (
            '[[broker]]\nstorePathCommitLog = "{data}/logs-of-all"\n[[broker]]\nstorePathCommitLog = "{data}/logs-of-all/b"\n',
            "logs-of-all/b",
            "logs-of-all",
        ),
        (
            '[[broker]]\nstorePathCommitLog = "{data}/log"\n[[broker]]\nstore = "log/b"\n',
            "log/b",
            "log",
        ),
    ],
)
def test_store_inside_another_brokers_store_is_refused(tmp_path: Path, toml: str, inner: str, outer: str) -> None:
    data = tmp_path / "data"
    message = refusal(tmp_path, toml.replace("{data}", str(data)))
    users = ("broker-a", "broker-b") if toml.startswith('[[broker]]\nstore = "broker-b') else ("broker-b", "broker-a")
    assert message == (
        f"the folder {data}/{inner} of broker {users[0]} is inside the folder {data}/{outer} of broker {users[1]}; "
        "choose folders that do not contain each other"
    )


@pytest.mark.parametrize("link", ["broker-b/store", "broker-b/store/consumequeue", "broker-b"])
def test_store_that_leads_into_another_one_through_a_link_is_refused(tmp_path: Path, link: str) -> None:
    data = tmp_path / "data"
    target = data / "broker-a" / "store" / "below"
    target.mkdir(parents=True)
    (data / link).parent.mkdir(parents=True, exist_ok=True)
    (data / link).symlink_to(target)
    message = refusal(tmp_path, "brokers = 2\n")
    assert f"(a link to {target}" in message
    assert f"of broker broker-b is inside the folder {data}/broker-a/store of broker broker-a" in message


def test_equal_store_through_a_link_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "broker-a" / "store" / "commitlog").mkdir(parents=True)
    (data / "broker-b" / "store").mkdir(parents=True)
    (data / "broker-b" / "store" / "commitlog").symlink_to(data / "broker-a" / "store")
    assert "brokers broker-a and broker-b both use the folder" in refusal(tmp_path, "brokers = 2\n")


def test_stores_beside_each_other_are_accepted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "disk").mkdir()
    data.mkdir()
    (data / "b").symlink_to(tmp_path / "disk")
    toml = (
        '[[broker]]\nstore = "a"\n[[broker]]\nstore = "b"\n[[broker]]\nstore = "abc"\n'
        f'storePathCommitLog = "{data}/a-log"\n'
    )
    assert len(brokers(tmp_path, toml)) == 3


def test_config_check_warns_about_the_files_of_listed_brokers(tmp_path: Path) -> None:
    (tmp_path / "b.conf").write_text("sendMessageThreadPoolNums=4\n")
    (tmp_path / "appliance.toml").write_text('[[broker]]\n[[broker]]\nconf = "b.conf"\n')
    [warning] = check_file(str(tmp_path / "appliance.toml")).warnings
    assert f"{tmp_path}/b.conf: sendMessageThreadPoolNums has no effect" in warning


def test_changed_option_counts_for_its_own_broker_only(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.conf").write_text("fileReservedTime=72\n")
    toml = '[[broker]]\nconf = "a.conf"\n[[broker]]\nconf = "b.conf"\n'
    first, second = brokers(tmp_path, toml)
    (tmp_path / "b.conf").write_text("fileReservedTime=24\n")
    sources = Sources(data=str(tmp_path / "data"), appliance_toml=str(tmp_path / "appliance.toml"))
    assert read_changes(first, sources).store.file_reserved_time == 72
    assert read_changes(second, sources).store.file_reserved_time == 24


@pytest.mark.parametrize(("there", "toml"), [("store", "brokers = 2\n"), ("broker-b/store", "")])
def test_store_that_no_broker_uses_is_not_replaced_by_an_empty_one(tmp_path: Path, there: str, toml: str) -> None:
    data = tmp_path / "data"
    (data / there / "commitlog").mkdir(parents=True)
    with pytest.raises(
        PreflightFailed, match=f"contains a store at {data}/{there} that no broker of this configuration"
    ):
        check_layout(AppliancePaths(str(data)), [one.paths for one in brokers(tmp_path, toml)])


def test_store_of_a_single_broker_can_be_listed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "store" / "commitlog").mkdir(parents=True)
    made = brokers(tmp_path, '[[broker]]\nstore = "store"\n[[broker]]\n')
    assert str(made[0].store_paths.root) == f"{data}/store"
    check_layout(AppliancePaths(str(data)), [one.paths for one in made])
