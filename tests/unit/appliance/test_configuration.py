from pathlib import Path

import pytest

from appliance.configuration import Sources, check_file, read_changes, read_configuration
from appliance.errors import ConfigurationError


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_without_anything_it_is_an_appliance_for_this_machine_alone(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path)))
    assert configuration.host == "127.0.0.1"
    assert configuration.brokers[0].broker.broker_ip1 == "127.0.0.1"
    assert configuration.brokers[0].broker.listen_port == 10911
    assert configuration.brokers[0].nameserver_addresses == ["127.0.0.1:9876"]
    assert str(configuration.brokers[0].store_paths.root) == str(tmp_path / "store")
    assert configuration.warnings == []


def test_a_flag_wins_over_set_and_that_over_the_file(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "brokerName=file\nbrokerClusterName=file\nlistenPort=1000\n")
    sources = Sources(
        data=str(tmp_path),
        broker_conf=conf,
        settings=["brokerName=set", "listenPort=2000", "heartbeatTimeout=7000"],
        port=3000,
    )
    configuration = read_configuration(sources)
    assert configuration.brokers[0].broker.broker_cluster_name == "file"
    assert configuration.brokers[0].broker.broker_name == "set"
    assert configuration.brokers[0].broker.listen_port == 3000
    assert configuration.appliance.heartbeat_timeout == 7000


def test_toml_is_read_with_its_own_types(tmp_path: Path) -> None:
    toml = write(
        tmp_path / "appliance.toml", 'logFormat = "json"\nlogFileCount = 3\nhaEnable = false\nhost = "0.0.0.0"\n'
    )
    appliance = read_configuration(Sources(data=str(tmp_path), appliance_toml=toml)).appliance
    assert (appliance.log_format, appliance.log_file_count, appliance.ha_enable) == ("json", 3, False)


def test_an_unknown_key_of_broker_conf_is_a_warning_that_names_the_nearest(tmp_path: Path) -> None:
    text = "mapedFileSizeCommitLog=1073741824\nsendMessageThreadPoolNums=4\nwarmMapedFileEnable=true\n"
    conf = write(tmp_path / "broker.conf", text)
    configuration = read_configuration(Sources(data=str(tmp_path), broker_conf=conf))
    unknown, unused, unused_by_the_store = configuration.warnings
    assert "unknown key mapedFileSizeCommitLog (did you mean mappedFileSizeCommitLog?)" in unknown
    assert conf in unknown
    assert "sendMessageThreadPoolNums has no effect: requests are handled on one event loop" in unused
    assert "warmMapedFileEnable has no effect: pages of the log are made ready" in unused_by_the_store


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("appliance.toml", "heartbeatTimeOut = 5000\n", "did you mean heartbeatTimeout?"),
        ("appliance.toml", "heartbeatTimeout = 5\n", "heartbeatTimeout=5: expected a number from 1000"),
        ("appliance.toml", 'heartbeatTimeout = "soon"\n', "heartbeatTimeout=soon: expected a whole number"),
        ("appliance.toml", 'logLevel = "loud"\n', "logLevel=loud: expected debug, info, warning or error"),
        ("appliance.toml", "[logs]\nlevel = 1\n", "unknown key logs"),
        ("appliance.toml", "host = [1]\n", "host: expected a single value"),
        ("appliance.toml", "host = \n", "line 1"),
        ("broker.conf", "listenPort=many\n", "listenPort=many: expected a whole number"),
        ("broker.conf", "flushDiskType=SOMETIMES\n", "flushDiskType=SOMETIMES: expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("broker.conf", "a=\\u1", "line 1"),
    ],
)
def test_a_wrong_file_is_one_line_that_says_what_is_wrong(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigurationError) as caught:
        check_file(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_names_where_it_was_given(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "listenPort=10911\n")
    sources = Sources(data=str(tmp_path), broker_conf=conf, settings=["brokerPermission=all"])
    with pytest.raises(
        ConfigurationError, match=r"^--set brokerPermission: brokerPermission=all: expected a whole number$"
    ):
        read_configuration(sources)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("flushDiskTyp=SYNC_FLUSH", r"unknown key flushDiskTyp \(did you mean flushDiskType\?\)"),
        ("flushDiskType", "expected KEY=VALUE"),
    ],
)
def test_a_wrong_set_is_an_error(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(Sources(data=str(tmp_path), settings=[setting]))


def test_a_store_path_that_disagrees_with_the_data_folder_is_an_error(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "storePathRootDir=/srv/rocketmq/store\n")
    with pytest.raises(ConfigurationError, match="use --data /srv/rocketmq"):
        read_configuration(Sources(data=str(tmp_path), broker_conf=conf))


def test_a_store_path_that_agrees_is_none(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    conf = write(tmp_path / "broker.conf", f"storePathRootDir={tmp_path}/link/store\n")
    configuration = read_configuration(Sources(data=str(tmp_path), broker_conf=conf))
    assert str(configuration.brokers[0].store_paths.root) == str(tmp_path / "store")


def test_the_commit_log_may_lie_elsewhere(tmp_path: Path) -> None:
    sources = Sources(data=str(tmp_path), settings=[f"storePathCommitLog={tmp_path}/fast"])
    assert str(read_configuration(sources).brokers[0].store_paths.commit_log) == f"{tmp_path}/fast"


def test_the_host_is_bound_and_announced(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "brokerIP1=198.51.100.7\n")
    assert (
        read_configuration(Sources(data=str(tmp_path), broker_conf=conf)).brokers[0].broker.broker_ip1 == "198.51.100.7"
    )
    flagged = read_configuration(Sources(data=str(tmp_path), broker_conf=conf, host="127.0.0.2"))
    assert (flagged.host, flagged.brokers[0].broker.broker_ip1) == ("127.0.0.2", "127.0.0.2")


def test_a_role_started_again_takes_over_what_may_change_and_nothing_else(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "fileReservedTime=72\nbrokerName=first\n")
    sources = Sources(data=str(tmp_path), broker_conf=conf, settings=["brokerPermission=4"])
    [first] = read_configuration(sources).brokers
    write(tmp_path / "broker.conf", "fileReservedTime=24\nbrokerName=second\nbrokerPermission=2\nlistenPort=1000\n")
    again = read_changes(first, sources)
    assert again.store.file_reserved_time == 24
    assert again.broker.broker_name == "first"
    assert again.broker.listen_port == 10911
    assert again.broker.broker_permission == 4
    assert again.broker_conf == tmp_path / "broker.conf"


def test_a_host_name_is_announced_as_its_address(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path), host="localhost"))
    assert (configuration.host, configuration.brokers[0].broker.broker_ip1) == ("localhost", "127.0.0.1")
    with pytest.raises(ConfigurationError, match=r"^host=no\.such\.host\.invalid: "):
        read_configuration(Sources(data=str(tmp_path), host="no.such.host.invalid"))


def test_a_wildcard_is_bound_but_never_announced(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path), host="0.0.0.0"))
    assert configuration.host == "0.0.0.0"
    assert configuration.brokers[0].broker.broker_ip1 != "0.0.0.0"
    assert configuration.brokers[0].nameserver_addresses == ["127.0.0.1:9876"]


def test_name_servers_elsewhere_are_those_the_broker_registers_with(tmp_path: Path) -> None:
    sources = Sources(data=str(tmp_path), settings=["namesrvAddr=a:1;b:2", "nameserverEnable=false"])
    assert read_configuration(sources).brokers[0].nameserver_addresses == ["a:1", "b:2"]


def test_the_name_servers_file_gives_its_port_and_a_flag_wins(tmp_path: Path) -> None:
    conf = write(tmp_path / "namesrv.conf", "listenPort=19876\norderMessageEnable=true\nserverWorkerThread=8\n")
    configuration = read_configuration(Sources(data=str(tmp_path), nameserver_conf=conf))
    assert configuration.appliance.nameserver_port == 19876
    assert configuration.nameserver.order_message_enable
    assert "unknown key serverWorkerThread" in configuration.warnings[0]
    flagged = read_configuration(Sources(data=str(tmp_path), nameserver_conf=conf, nameserver_port=1234))
    assert flagged.appliance.nameserver_port == 1234


@pytest.mark.parametrize(
    ("port", "nameserver_port", "message"),
    [(2, 9876, "would be port 0"), (65535, 9876, "would be port 65536"), (9878, 9876, "port 9876 is asked for twice")],
)
def test_ports_that_cannot_be_are_an_error(tmp_path: Path, port: int, nameserver_port: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(Sources(data=str(tmp_path), port=port, nameserver_port=nameserver_port))


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.conf: No such file or directory$"):
        read_configuration(Sources(data=str(tmp_path), broker_conf=str(tmp_path / "nowhere.conf")))


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_bytes(b"a=\xff\n")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        check_file(str(tmp_path / "broker.conf"))
